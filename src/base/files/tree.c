/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/bytes/random.h"
#include "base/files/folder.h"

#define OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define LOOK 0500
#define CHANGE 0700
#define TRIES 200 /* at a folder that somebody closes all the time */

/* A folder that is being looked through, and those above it. */
struct tree_level {
	struct tree_level *up;
	int fd;
	char name[256];   /* in the folder above */
	uint64_t removed; /* by the whole walk, when this pass over the folder began */
	struct folder names;
};

struct tree_walk {
	struct tree_level *at;
	unsigned depth;
	dev_t dev;
	mode_t need; /* of a folder's mode, for what is to be done */
	uint64_t bytes, most;
	uint64_t removed; /* names */
};

/* Not where something is mounted: that is the user's, whatever file system it is of. */
static int check_place(const struct tree_walk *w, int fd, struct stat *st)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) < 0 || fstat(fd, st) < 0)
		return -errno;
	return st->st_dev != w->dev || (x.stx_attributes & STATX_ATTR_MOUNT_ROOT) ? -EXDEV : 0;
}

/* By a descriptor that needs no permission, so that it is this folder and no other. */
static int open_closed(const struct tree_walk *w, int parent, const char *name)
{
	CLEANUP(fd) int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[32];
	struct stat st;
	int r;

	if (fd < 0)
		return -errno;
	r = check_place(w, fd, &st);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = chmod(path, 0700) < 0 ? -1 : open(path, OPEN_FOLDER & ~O_NOFOLLOW);
	return r < 0 ? -errno : r;
}

static int tree_open_folder(const struct tree_walk *w, int parent, const char *name)
{
	CLEANUP(fd) int fd = openat(parent, name, OPEN_FOLDER);
	struct stat st;
	int r;

	if (fd < 0 && errno == EACCES) {
		r = open_closed(w, parent, name);
		if (r < 0)
			return r;
		fd = r;
	}
	if (fd < 0)
		return -errno;
	r = check_place(w, fd, &st);
	if (r == 0 && (st.st_mode & w->need) != w->need)
		(void)fchmod(fd, (st.st_mode & 0777) | w->need);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Takes the descriptor. */
static int tree_enter(struct tree_walk *w, int fd, const char *name)
{
	struct tree_level *l = malloc(sizeof(*l));

	if (!l) {
		(void)fd_close(fd);
		return -ENOMEM;
	}
	l->up = w->at;
	l->fd = fd;
	l->removed = w->removed;
	(void)snprintf(l->name, sizeof(l->name), "%s", name);
	folder_begin(&l->names, fd);
	w->at = l;
	w->depth++;
	return 0;
}

static void tree_leave(struct tree_walk *w)
{
	struct tree_level *l = w->at;

	w->at = l->up;
	w->depth--;
	(void)fd_close(l->fd);
	free(l);
}

static void walk_done(struct tree_walk *w)
{
	while (w->at)
		tree_leave(w);
}

/* --- how large --- */

/* What is being looked through can be closed again by a run that uses it: as often as it is. */
static int tree_look_at(const struct tree_walk *w, const char *name, struct stat *st)
{
	for (int i = 0; i < TRIES; i++) {
		if (fstatat(w->at->fd, name, st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0)
			return 0;
		if (errno != EACCES)
			return -errno;
		(void)fchmod(w->at->fd, 0700);
	}
	return -EACCES;
}

static int open_to_look(const struct tree_walk *w, const char *name)
{
	for (int i = 0; i < TRIES; i++) {
		int fd = tree_open_folder(w, w->at->fd, name);

		if (fd != -EACCES)
			return fd;
		(void)fchmod(w->at->fd, 0700);
	}
	return -EACCES;
}

static int tree_count_entry(struct tree_walk *w, const struct fd_entry *en)
{
	struct stat st;
	uint64_t own;
	int fd, r = tree_look_at(w, en->name, &st);

	if (r < 0)
		return r == -ENOENT ? 0 : r; /* others may be at work in it */
	own = (uint64_t)st.st_blocks * 512;
	if (!S_ISDIR(st.st_mode) && st.st_nlink > 1)
		own /= st.st_nlink;
	w->bytes += own > TREE_LEAST ? own : TREE_LEAST;
	if (!S_ISDIR(st.st_mode) || w->bytes > w->most)
		return 0;
	if (w->depth == TREE_DEPTH)
		return -ELOOP;
	fd = open_to_look(w, en->name);
	if (fd == -EXDEV || fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	return fd < 0 ? fd : tree_enter(w, fd, en->name);
}

int tree_size(int fd, uint64_t most, uint64_t *ret)
{
	struct tree_walk w = { .need = LOOK, .most = most };
	struct stat st;
	int r, own;

	if (fstat(fd, &st) < 0)
		return -errno;
	w.dev = st.st_dev;
	own = lseek(fd, 0, SEEK_SET) < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = own < 0 ? -errno : tree_enter(&w, own, "");
	while (r == 0 && w.at && w.bytes <= most) {
		const struct fd_entry *en = folder_next(&w.at->names);

		if (en)
			r = tree_count_entry(&w, en);
		else
			tree_leave(&w);
	}
	walk_done(&w);
	*ret = w.bytes;
	return r;
}

/* --- its end --- */

/* Nothing opens below the folder that is being emptied: it goes up to the top, where a later pass
 * finds it. It is open, so that this takes neither a permission nor a descriptor. */
static int raise_up(struct tree_walk *w)
{
	const struct tree_level *l = w->at, *top = l;
	char as[33];
	struct err e;

	while (top->up && top->up->up)
		top = top->up;
	if (l == top || l->up == top)
		return -EMFILE;
	if (random_hex(as, sizeof(as), &e) < 0)
		return -e.code;
	if (renameat(l->up->fd, l->name, top->fd, as) < 0)
		return -errno;
	w->removed++; /* from there */
	tree_leave(w);
	return 0;
}

static int tree_drop(struct tree_walk *w, const char *name)
{
	int fd;

	if (unlinkat(w->at->fd, name, 0) == 0)
		return w->removed++, 0;
	if (errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (w->depth == TREE_DEPTH)
		return raise_up(w);
	fd = tree_open_folder(w, w->at->fd, name);
	if (fd == -EMFILE)
		return raise_up(w);
	if (fd == -ENOENT)
		return 0;
	if (fd == -ENOTDIR) /* it could be unlinked by nobody but its owner */
		return -EPERM;
	return fd < 0 ? fd : tree_enter(w, fd, name);
}

/* Everything in it was seen once: it can go, or there is more, or that is all that can be done. */
static int tree_finish(struct tree_walk *w)
{
	struct tree_level *l = w->at;
	int r = w->at->names.error;

	if (unlinkat(l->up->fd, l->name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		w->removed++;
		tree_leave(w);
		return 0;
	}
	if (r == 0)
		r = errno == EEXIST ? ENOTEMPTY : errno;
	if (r != ENOTEMPTY || l->removed == w->removed || lseek(l->fd, 0, SEEK_SET) < 0) {
		tree_leave(w);
		return -r;
	}
	l->removed = w->removed;
	folder_begin(&l->names, l->fd);
	return 0;
}

int tree_remove(int parent, const char *name)
{
	struct tree_walk w = { .need = CHANGE };
	struct stat st;
	int r, own;

	if (fstat(parent, &st) < 0)
		return -errno;
	w.dev = st.st_dev;
	own = fcntl(parent, F_DUPFD_CLOEXEC, 3);
	r = own < 0 ? -errno : tree_enter(&w, own, "");
	if (r == 0)
		r = tree_drop(&w, name);
	while (w.at && w.at->up) {
		const struct fd_entry *en = folder_next(&w.at->names);
		char one[256];
		int now;

		if (en)
			(void)snprintf(one, sizeof(one), "%s", en->name);
		now = en ? tree_drop(&w, one) : tree_finish(&w);
		r = r < 0 ? r : now; /* the first tells why; the others go all the same */
	}
	walk_done(&w);
	return r;
}
