/* SPDX-License-Identifier: Apache-2.0 */
/* proc/files/files_data.c - brig-files: what moves bytes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/sys/wait.h"
#include "base/tar/tar.h"
#include "base/sys/clock.h"
#include "proc/files/files_internal.h"

#define STEP ((size_t)1 << 20)
#define TOGETHER_MS 50 /* changes that come so soon after one another are told together */
#define CHANGES 128
#define BLOCK 512 /* what the kernel counts written blocks in */

/* ---- pipes ---- */

/* Somebody inside may have stopped this process meanwhile: what counts is that time went by. */
static int files_data_await(int fd, short events)
{
	return wait_fd(fd, events, clock_after(FILE_PATIENCE_MS));
}

static int file_put(void *work, const void *p, size_t n)
{
	const struct file_work *w = work;
	const char *at = p;

	while (n) {
		int r = files_data_await(w->data, POLLOUT);
		ssize_t done;

		if (r < 0)
			return r;
		done = write(w->data, at, n);
		if (done < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		at += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
	return 0;
}

/* -ENODATA: it ended before that. */
static int file_get(void *work, void *p, size_t n)
{
	const struct file_work *w = work;
	char *at = p;

	while (n) {
		int r = files_data_await(w->data, POLLIN);
		ssize_t done;

		if (r < 0)
			return r;
		done = read(w->data, at, n);
		if (done == 0)
			return -ENODATA;
		if (done < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		at += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
	return 0;
}

static int64_t file_copy(void *work, int file, uint64_t n)
{
	const struct file_work *w = work;
	uint64_t left = n;

	while (left) {
		int r = files_data_await(w->data, POLLOUT);
		ssize_t done;

		if (r < 0)
			return r;
		done = splice(file, NULL, w->data, NULL, left < STEP ? (size_t)left : STEP,
			      SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (done == 0)
			break;
		if (done < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		left -= done > 0 ? (uint64_t)done : 0;
	}
	return (int64_t)(n - left);
}

/* The kernel counts what was dirtied; the limit of the sandbox's disk is over all there is. */
static void count_written(const struct file_work *w)
{
	struct rusage used;

	if (getrusage(RUSAGE_SELF, &used) == 0)
		__atomic_store_n(w->written, (uint64_t)used.ru_oublock * BLOCK, __ATOMIC_RELAXED);
}

/* Some of the data into a file: how much, 0 at its end. */
static ssize_t save_some(const struct file_work *w, int file, uint64_t n)
{
	for (;;) {
		int r = files_data_await(w->data, POLLIN);
		ssize_t done;

		if (r < 0)
			return r;
		done = splice(w->data, NULL, file, NULL, n < STEP ? (size_t)n : STEP,
			      SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (done < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		r = errno;
		count_written(w);
		return done < 0 ? -r : done;
	}
}

static int file_save(void *work, int file, uint64_t n)
{
	while (n) {
		ssize_t done = save_some(work, file, n);

		if (done <= 0)
			return done < 0 ? (int)done : -ENODATA;
		n -= (uint64_t)done;
	}
	return 0;
}

/* Was the word given that this was all? 0 or -errno. */
static int file_whole(struct file_work *w)
{
	int r = files_data_await(w->word, POLLIN);
	char word;

	if (r < 0)
		return r;
	return read(w->word, &word, 1) == 1 ? 0 : -ECANCELED;
}

/* ---- one file ---- */

int file_read(struct file_work *w)
{
	CLEANUP(fd) int fd = file_open(w->o.path, O_RDONLY);
	struct stat st;
	int64_t done;
	int r;

	if (fd < 0)
		return fd;
	r = file_is_plain(fd, &st);
	if (r < 0)
		return r;
	if ((uint64_t)st.st_size > w->o.limit)
		return -EFBIG;
	file_has(w, &st);
	done = file_copy(w, fd, (uint64_t)st.st_size);
	if (done < 0)
		return (int)done;
	return done == st.st_size ? 0 : -ENODATA;
}

/* What it replaces must be a file, if anything. */
static int mode_for(const struct file_work *w, int above, const char *name, mode_t *mode)
{
	struct stat st;

	*mode = w->o.mode & FILE_MODE_SAME ? 0644 : w->o.mode & 0777;
	if (fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EMEDIUMTYPE;
	if (w->o.mode & FILE_MODE_SAME)
		*mode = st.st_mode & 0777;
	return 0;
}

static int take_file(struct file_work *w, int fd)
{
	uint64_t left = w->o.limit;
	ssize_t n;

	do {
		n = save_some(w, fd, STEP);
		if (n > 0 && (uint64_t)n > left)
			return -EFBIG;
		left -= n > 0 ? (uint64_t)n : 0;
	} while (n > 0);
	return n < 0 ? (int)n : file_whole(w);
}

int file_write(struct file_work *w)
{
	const char *name;
	CLEANUP(fd) int above = file_above(w->o.path, O_PATH | O_DIRECTORY, &name);
	struct draft d;
	mode_t mode;
	int r;

	if (above < 0)
		return above;
	r = mode_for(w, above, name, &mode);
	if (r == 0)
		r = draft_open(above, &d);
	if (r != 0)
		return r;
	file_has(w, NULL);
	r = take_file(w, d.fd);
	if (r == 0)
		return draft_keep(&d, name, mode);
	draft_drop(&d);
	return r;
}

/* ---- folders ---- */

static int files_data_put_entry(struct file_work *w, const struct file_entry *e, const char *name)
{
	char data[sizeof(*e) + NAME_MAX + 1];

	if (!e->length || e->length > NAME_MAX)
		return 0;
	memcpy(data, e, sizeof(*e));
	memcpy(data + sizeof(*e), name, e->length);
	return file_put(w, data, sizeof(*e) + e->length);
}

int file_list(struct file_work *w)
{
	CLEANUP(fd) int fd = file_open(w->o.path, O_RDONLY | O_DIRECTORY);
	const struct fd_entry *d;
	struct folder f;
	size_t n = 0;
	int r = 0;

	if (fd < 0)
		return fd;
	file_has(w, NULL);
	folder_begin(&f, fd);
	while (r == 0 && (d = folder_next(&f))) {
		struct file_entry e = { .length = (uint32_t)strlen(d->name) };
		struct stat st;

		if (fstatat(fd, d->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (n++ == FILE_ENTRIES_MAX)
			return 1;
		e.mode = file_mode(&st);
		e.size = (uint64_t)st.st_size;
		e.mtime = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
		r = files_data_put_entry(w, &e, d->name);
	}
	return r < 0 ? r : -f.error;
}

/* The first names that there is room for. */
static void keep_left(void *work, const char *path)
{
	struct file_work *w = work;
	size_t n = strlen(path) + 1;

	if (n > sizeof(w->left) - w->left_len)
		return;
	memcpy(w->left + w->left_len, path, n);
	w->left_len += n;
}

int file_pack(struct file_work *w)
{
	struct tar_limits l = { .bytes = w->o.limit, .entries = FILE_TREE_MAX, .left = keep_left };
	CLEANUP(fd) int fd = file_open(w->o.path, O_RDONLY);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	r = file_is_plain(fd, &st);
	if (r < 0 && r != -EISDIR)
		return r;
	file_has(w, &st);
	if (r == -EISDIR) {
		r = tar_pack(fd, &l, file_put, file_copy, w);
	} else {
		const char *slash = strrchr(w->o.path, '/');

		r = tar_pack_file(fd, slash ? slash + 1 : w->o.path, &l, file_put, file_copy, w);
	}
	if (r == 0)
		r = tar_pack_end(file_put, w);
	if (r < 0)
		return r;
	file_tell_left(w);
	return l.left_out < INT_MAX ? (int)l.left_out : INT_MAX;
}

int file_unpack(struct file_work *w)
{
	struct tar_limits l = { .bytes = w->o.limit, .entries = FILE_TREE_MAX, .links = true };
	CLEANUP(fd) int fd = file_open(w->o.path, O_PATH | O_DIRECTORY);
	char dust[4096];
	ssize_t n;
	int r;

	if (fd < 0)
		return fd;
	file_has(w, NULL);
	r = tar_unpack(fd, &l, file_get, file_save, w);
	if (r < 0)
		return r == -ENODATA ? -EBADMSG : r;
	/* What fills up the last record. */
	while ((r = files_data_await(w->data, POLLIN)) == 0 &&
	       (n = read(w->data, dust, sizeof(dust))) != 0)
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
	return r < 0 ? r : file_whole(w);
}

/* ---- watching ---- */

struct changes {
	size_t n;
	uint32_t all; /* of the thing itself */
	struct {
		uint32_t bits;
		uint32_t length;
		char name[NAME_MAX + 1];
	} of[CHANGES];
};

static uint32_t bits_of(uint32_t mask)
{
	uint32_t bits = 0;

	if (mask & (IN_CREATE | IN_MOVED_TO))
		bits |= CHANGE_MADE;
	if (mask & (IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB))
		bits |= CHANGE_WRITTEN;
	if (mask & (IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED))
		bits |= CHANGE_GONE;
	return bits | (mask & IN_Q_OVERFLOW ? CHANGE_MISSED : 0);
}

static void files_data_note(struct changes *c, const struct inotify_event *e)
{
	size_t len = e->len ? strnlen(e->name, e->len) : 0, i = 0;

	if (!len) {
		c->all |= bits_of(e->mask);
		return;
	}
	while (i < c->n && (c->of[i].length != len || memcmp(c->of[i].name, e->name, len) != 0))
		i++;
	if (i == CHANGES) {
		c->all |= CHANGE_MISSED;
		return;
	}
	if (i == c->n) {
		c->of[i].length = (uint32_t)len;
		c->of[i].bits = 0;
		memcpy(c->of[i].name, e->name, len);
		c->n++;
	}
	c->of[i].bits |= bits_of(e->mask);
}

static int files_data_hear(int notify, struct changes *c)
{
	_Alignas(struct inotify_event) char data[4096 + NAME_MAX];
	ssize_t n = read(notify, data, sizeof(data));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *e = (const void *)(data + at);

		files_data_note(c, e);
		at += (ssize_t)(sizeof(*e) + e->len);
	}
	return 0;
}

/* "." is the thing itself. */
static int files_data_tell(struct file_work *w, struct changes *c)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->n; i++) {
		const struct file_entry e = { .mode = c->of[i].bits, .length = c->of[i].length };

		r = files_data_put_entry(w, &e, c->of[i].name);
	}
	if (r == 0 && c->all)
		r = files_data_put_entry(w, &(struct file_entry){ .mode = c->all, .length = 1 },
					 ".");
	if (r == 0 && c->all & CHANGE_GONE)
		r = -ESTALE;
	c->n = c->all = 0;
	return r;
}

static int files_data_follow(struct file_work *w, int notify, struct changes *c)
{
	int r = 0;

	while (r == 0) {
		struct pollfd p[] = { { .fd = notify, .events = POLLIN }, { .fd = w->data } };
		uint64_t until;
		int n = wait_any(p, 2, 0);

		if (n > 0 && p[1].revents)
			return 0; /* nobody listens */
		if (n <= 0 || !p[0].revents)
			continue;
		for (until = clock_us() + (uint64_t)TOGETHER_MS * 1000;
		     r == 0 && clock_us() < until;) {
			r = files_data_hear(notify, c);
			(void)wait_fd(notify, POLLIN, clock_after(TOGETHER_MS / 5));
		}
		if (r == 0)
			r = files_data_tell(w, c);
	}
	return r == -ESTALE ? 0 : r;
}

int file_watch(struct file_work *w)
{
	CLEANUP(fd) int fd = file_open(w->o.path, O_PATH), notify = -1;
	char path[32];
	struct changes c;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return -EMEDIUMTYPE;
	c.n = c.all = 0;
	notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (notify < 0 ||
	    inotify_add_watch(notify, path,
			      IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB |
				      IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF |
				      IN_ONLYDIR * S_ISDIR(st.st_mode)) < 0)
		return errno == ENOSYS ? -ENOTSUP : -errno;
	file_has(w, &st);
	return files_data_follow(w, notify, &c);
}
