/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/metrics_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"

#define FILE_MAX ((size_t)512 << 10)
#define WAIT_US (2 * 1000 * 1000ULL)
#define FIRST_PAUSE_NS 200000L
#define LONGEST_PAUSE_NS 4000000L

struct textfile {
	int dir;
	char name[NAME_MAX + 1], fresh[NAME_MAX + 1], lock[NAME_MAX + 1];
};

static void textfile_done(struct textfile *p)
{
	p->dir = fd_close(p->dir);
}

static int textfile_open(struct textfile *p, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	if (!slash || !slash[1] || strlen(slash + 1) > NAME_MAX - 5 || slash - path >= PATH_MAX - 1)
		return err_set(e, ERR_CONFIG, EINVAL, "'%.200s' is not the absolute path of a file",
			       path);
	(void)snprintf(folder, sizeof(folder), "%.*s", slash > path ? (int)(slash - path) : 1,
		       path);
	(void)snprintf(p->name, sizeof(p->name), "%s", slash + 1);
	(void)snprintf(p->fresh, sizeof(p->fresh), "%.249s.new", slash + 1);
	(void)snprintf(p->lock, sizeof(p->lock), "%.249s.lock", slash + 1);
	/* Of a run that was refused for it, too. */
	if (exposed_check("the folder", folder, NULL, 0, e) < 0)
		return -e->code;
	p->dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return p->dir < 0 ? err_sys(e, "cannot open the folder '%.200s'", folder) : 0;
}

/* fcntl can wait forever or not at all; whoever holds the lock may be stopped, so neither. */
static int wait_for_lock(int fd)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct timespec pause = { .tv_nsec = FIRST_PAUSE_NS };
	uint64_t until = clock_us() + WAIT_US;

	while (fcntl(fd, F_OFD_SETLK, &all) < 0) {
		if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || clock_us() > until)
			return -errno;
		(void)nanosleep(&pause, NULL);
		if (pause.tv_nsec < LONGEST_PAUSE_NS)
			pause.tv_nsec += pause.tv_nsec / 2;
	}
	return 0;
}

static int open_locked(const struct textfile *p, struct err *e)
{
	CLEANUP(fd)
	int fd = openat(p->dir, p->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
			0644);
	int r;

	if (fd < 0)
		return err_sys(e, "cannot open '%.200s'", p->lock);
	r = wait_for_lock(fd);
	if (r < 0) {
		errno = -r;
		return err_sys(e, "cannot lock '%.200s'", p->lock);
	}
	return TAKE_FD(fd);
}

/* The counts there are and the file's mode. Text that is not ours is no error: *why says so. */
static int read_old(const struct textfile *p, struct metrics *m, mode_t *mode, struct err *why,
		    struct err *e)
{
	CLEANUP(fd)
	int fd = openat(p->dir, p->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	CLEANUP(mem) char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "cannot read '%.200s'", p->name);
	*mode = st.st_mode & 0777;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > FILE_MAX)
		return err_set(why, ERR_CONFIG, EFBIG, "it is not a file of at most %zu bytes",
			       FILE_MAX),
		       0;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return err_nomem(e);
	n = pread(fd, text, (size_t)st.st_size, 0);
	if (n != st.st_size)
		return n < 0 ? err_sys(e, "cannot read '%.200s'", p->name)
			     : err_set(e, ERR_INTERNAL, EIO, "'%.200s' changed while it was read",
				       p->name);
	if (metrics_parse(m, text, (size_t)n, why) != -ENOMEM)
		return 0;
	err_clear(why);
	return err_nomem(e);
}

/* Puts the new file in the old one's place, at once for every reader. Exchanged rather than renamed
 * over: on ext4 the latter waits for the disk, which counts are not worth. */
static int put_in_place(const struct textfile *p)
{
	if (renameat2(p->dir, p->fresh, p->dir, p->name, RENAME_EXCHANGE) == 0) {
		(void)unlinkat(p->dir, p->fresh, 0); /* the old one; else the next writer's to do */
		return 0;
	}
	return renameat(p->dir, p->fresh, p->dir, p->name) < 0 ? -errno : 0;
}

static int write_new(const struct textfile *p, const struct buf *text, mode_t mode, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	int r;

	/* What a killed writer left; in a folder of many users nobody's file may be in its place.
	 */
	(void)unlinkat(p->dir, p->fresh, 0);
	fd = openat(p->dir, p->fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return err_sys(e, "cannot make '%.200s'", p->fresh);
	r = mode && fchmod(fd, mode) < 0 ? -errno : fd_write_all(fd, text->data, text->len);
	if (r == 0)
		r = put_in_place(p);
	if (r == 0)
		return 0;
	(void)unlinkat(p->dir, p->fresh, 0);
	errno = -r;
	return err_sys(e, "cannot write '%.200s'", p->name);
}

static int update(const struct textfile *p, const struct metrics *more, struct err *why,
		  struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(FILE_MAX);
	CLEANUP(metrics) struct metrics *m = metrics_new();
	CLEANUP(fd) int lock = -1;
	mode_t mode = 0;

	lock = open_locked(p, e);
	if (lock < 0)
		return lock;
	if (m && read_old(p, m, &mode, why, e) < 0)
		return -e->code;
	if (why->code) {
		(void)metrics_free(m);
		m = metrics_new();
	}
	if (!m)
		return err_nomem(e);
	metrics_merge(m, more);
	if (metrics_render(m, &text) < 0)
		return err_nomem(e);
	return write_new(p, &text, mode, e);
}

int metrics_file_add(const char *path, const struct metrics *more, struct err *why, struct err *e)
{
	struct textfile p = { .dir = -1 };
	int r = textfile_open(&p, path, e);

	err_clear(why);
	if (r == 0)
		r = update(&p, more, why, e);
	textfile_done(&p);
	return r;
}
