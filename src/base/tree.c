/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/folder.h"
#include "base/random.h"

#define OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define LOOK 0500
#define CHANGE 0700
#define TRIES 64 /* against somebody who closes a folder again */

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

/* By a descriptor that needs no permission, so that it is this folder and no other. */
static void reopen(int parent, const char *name)
{
	CLEANUP(fd) int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd >= 0)
		(void)chmod(path, 0700);
}

/* Not where something is mounted: that is the user's, whatever file system it is of. */
static int check_place(const struct tree_walk *w, int fd, struct stat *st)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) < 0 || fstat(fd, st) < 0)
		return -errno;
	return st->st_dev != w->dev || (x.stx_attributes & STATX_ATTR_MOUNT_ROOT) ? -EXDEV : 0;
}

static int open_folder(const struct tree_walk *w, int parent, const char *name)
{
	CLEANUP(fd) int fd = openat(parent, name, OPEN_FOLDER);
	struct stat st;
	int r;

	for (int i = 0; fd < 0 && errno == EACCES && i < TRIES; i++) {
		reopen(parent, name);
		fd = openat(parent, name, OPEN_FOLDER);
	}
	if (fd < 0)
		return -errno;
	r = check_place(w, fd, &st);
	if (r == 0 && (st.st_mode & w->need) != w->need)
		(void)fchmod(fd, (st.st_mode & 0777) | w->need);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Takes the descriptor. */
static int enter(struct tree_walk *w, int fd, const char *name)
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

static void leave(struct tree_walk *w)
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
		leave(w);
}

/* --- how large --- */

static int look(int folder, const char *name, struct stat *st)
{
	for (int i = 0; fstatat(folder, name, st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0; i++)
		if (errno != EACCES || i == TRIES || fchmod(folder, 0700) < 0)
			return -errno;
	return 0;
}

static int count(struct tree_walk *w, const struct fd_entry *en)
{
	struct stat st;
	uint64_t own;
	int fd, r = look(w->at->fd, en->name, &st);

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
	fd = open_folder(w, w->at->fd, en->name);
	if (fd == -EXDEV || fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	return fd < 0 ? fd : enter(w, fd, en->name);
}

int tree_size(int fd, uint64_t most, uint64_t *ret)
{
	struct tree_walk w = { .need = LOOK, .most = most };
	struct stat st;
	int r, own;

	if (fstat(fd, &st) < 0)
		return -errno;
	w.dev = st.st_dev;
	own = openat(fd, ".", OPEN_FOLDER);
	r = own < 0 ? -errno : enter(&w, own, "");
	while (r == 0 && w.at && w.bytes <= most) {
		const struct fd_entry *en = folder_next(&w.at->names);

		if (en)
			r = count(&w, en);
		else
			leave(&w);
	}
	walk_done(&w);
	*ret = w.bytes;
	return r;
}

/* --- its end --- */

/* A folder that lies too deep goes up to the top, where a later pass finds it. */
static int raise_up(struct tree_walk *w, const char *name)
{
	const struct tree_level *top = w->at;
	char as[33];
	struct err e;

	while (top->up && top->up->up)
		top = top->up;
	if (random_hex(as, sizeof(as), &e) < 0)
		return -e.code;
	if (renameat(w->at->fd, name, top->fd, as) == 0)
		return 0;
	if (errno != EACCES)
		return -errno;
	reopen(w->at->fd, name); /* who cannot write to a folder cannot move it */
	return renameat(w->at->fd, name, top->fd, as) < 0 ? -errno : 0;
}

static int drop(struct tree_walk *w, const char *name)
{
	int fd;

	if (unlinkat(w->at->fd, name, 0) == 0)
		return w->removed++, 0;
	if (errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (w->depth == TREE_DEPTH)
		return raise_up(w, name);
	fd = open_folder(w, w->at->fd, name);
	if (fd == -ENOTDIR) /* it could be unlinked by nobody but its owner */
		return -EPERM;
	return fd < 0 ? fd : enter(w, fd, name);
}

/* Everything in it was seen once: it can go, or there is more. */
static int finish(struct tree_walk *w)
{
	struct tree_level *l = w->at;

	if (unlinkat(l->up->fd, l->name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		w->removed++;
		leave(w);
		return 0;
	}
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	if (l->removed == w->removed) /* somebody fills it */
		return -ENOTEMPTY;
	l->removed = w->removed;
	if (lseek(l->fd, 0, SEEK_SET) < 0)
		return -errno;
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
	r = own < 0 ? -errno : enter(&w, own, "");
	if (r == 0)
		r = drop(&w, name);
	while (r == 0 && w.at->up) {
		const struct fd_entry *en = folder_next(&w.at->names);

		if (en) {
			char one[256];

			(void)snprintf(one, sizeof(one), "%s", en->name);
			r = drop(&w, one);
		} else {
			r = w.at->names.error ? -w.at->names.error : finish(&w);
		}
	}
	walk_done(&w);
	return r;
}
