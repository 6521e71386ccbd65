/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/commit.c - one rename after another, and back.
 *
 * What has a name is looked at right before, by all that the kernel says of it, and what came out
 * right after: an editor may rename its own file there in between. Objects of git come before what
 * leads to them, what is removed comes last, and modes of folders after that. */
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>

#include "base/files/folder.h"
#include "base/text/str.h"
#include "workspace/apply_internal.h"

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

enum { RANKS = 4, BELOW_DEPTH = 200 };

/* A ref is what leads to objects. */
static bool leads_to_objects(const char *path)
{
	const char *git = strstr(path, ".git/");

	return git && !str_starts(git, ".git/objects/");
}

static int rank_of(const struct apply_op *o)
{
	switch (o->what) {
	case APPLY_ADD:
	case APPLY_SWAP:
		return leads_to_objects(o->path) ? 1 : 0;
	case APPLY_REMOVE:
		return 2;
	case APPLY_MODE:
		return 3;
	default:
		return RANKS;
	}
}

/* ---- what is there ---- */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same_inode(const struct change_was *w, const struct stat *st)
{
	return w->mode && st->st_ino == w->ino && ((st->st_mode ^ (mode_t)w->mode) & S_IFMT) == 0;
}

/* Of a folder: anything in it that was changed after `since`. */
static bool newer_below(int fd, const struct timespec *since, int depth)
{
	const struct fd_entry *d;
	struct folder f;

	folder_begin(&f, fd);
	while ((d = folder_next(&f))) {
		CLEANUP(fd) int below = -1;
		struct stat st;

		if (fstatat(fd, d->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return true;
		if (time_before(since, &st.st_ctim))
			return true;
		if (!S_ISDIR(st.st_mode))
			continue;
		below = openat(fd, d->name, FOLDER_FLAGS);
		if (below >= 0 && (depth > BELOW_DEPTH || newer_below(below, since, depth + 1)))
			return true;
	}
	return false;
}

static bool newer_in(int dir, const char *name, const struct timespec *since)
{
	CLEANUP(fd) int fd = openat(dir, name, FOLDER_FLAGS);

	return fd >= 0 && newer_below(fd, since, 0);
}

/* Before it is moved: all is as it was looked at. */
static bool still_was(const struct apply_op *o, int dir, const char *name)
{
	struct change_was now;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	now = change_was_of(&st);
	/* What is in a folder, other steps may have changed: of those that go it is looked at. */
	return change_was_same(&now, &o->was) && same_time(&now.ctime, &o->was.ctime);
}

/* Afterwards, in the stage: nothing came between. */
static bool came_out(struct apply_ends *x, const struct apply_op *o, const char *name)
{
	struct change_was now;
	struct stat st;

	if (fstatat(x->items, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	now = change_was_of(&st);
	return change_was_same(&now, &o->was) &&
	       !(S_ISDIR(st.st_mode) && newer_in(x->items, name, &x->looked));
}

/* ---- one step ---- */

static int changed_meanwhile(const struct apply_op *o, struct err *e)
{
	return err_refuse(e, ERR_POLICY, EBUSY, "try again: nothing was applied",
			  "'%.200s' was changed in the workspace just now", o->path);
}

static int set_mode(int dir, const char *name, const struct apply_op *o, uint64_t mode)
{
	CLEANUP(fd) int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char proc[64];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!same_inode(&o->was, &st))
		return -ESTALE;
	(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return chmod(proc, (mode_t)mode & 07777) < 0 ? -errno : 0;
}

static int step_move(struct apply_ends *x, const struct apply_op *o, int dir, const char *name,
		     const char *staged)
{
	switch (o->what) {
	case APPLY_ADD:
		return renameat2(x->items, staged, dir, name, RENAME_NOREPLACE) < 0 ? -errno : 0;
	case APPLY_SWAP:
		if (!still_was(o, dir, name))
			return -ESTALE;
		if (renameat2(x->items, staged, dir, name, RENAME_EXCHANGE) < 0)
			return -errno;
		break;
	case APPLY_REMOVE:
		if (!still_was(o, dir, name))
			return -ESTALE;
		if (renameat2(dir, name, x->items, staged, RENAME_NOREPLACE) < 0)
			return -errno;
		break;
	default:
		return set_mode(dir, name, o, o->made.mode);
	}
	return came_out(x, o, staged) ? 0 : -ESTALE;
}

static int step_do(struct apply_ends *x, size_t i, struct err *e)
{
	const struct apply_op *o = &x->list->ops[i];
	const char *name;
	CLEANUP(fd) int dir = apply_parent(x->workspace, o->path, &name);
	char staged[32];
	int r;

	if (x->step)
		x->step(x->arg);
	(void)snprintf(staged, sizeof(staged), "%zu", i);
	r = dir < 0 ? dir : step_move(x, o, dir, name, staged);
	if (r == -ESTALE || r == -EEXIST || r == -ENOENT || r == -ELOOP || r == -ENOTDIR)
		return changed_meanwhile(o, e);
	if (r == -EXDEV)
		return err_refuse(e, ERR_UNAVAILABLE, EXDEV,
				  "nothing was applied; is something mounted there?",
				  "'%.200s' is not on the file system of the stage", o->path);
	return r < 0 ? err_errno(e, r, "cannot put '%.200s' into the workspace", o->path) : 0;
}

int apply_steps(struct apply_ends *x, struct err *e)
{
	int r = 0;

	for (int rank = 0; rank < RANKS; rank++)
		for (size_t i = 0; r == 0 && i < x->list->n; i++)
			if (rank_of(&x->list->ops[i]) == rank)
				r = step_do(x, i, e);
	if (r == 0 && x->step)
		x->step(x->arg);
	return r;
}

/* ---- and back ---- */

static void note_back(struct apply_ends *x, int dir, const char *name)
{
	struct stat st;

	if (x->back && x->back_n < 3 * x->list->n &&
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		x->back[x->back_n++] = (struct look_known){ st.st_dev, st.st_ino, st.st_ctim };
}

void apply_note_folders(struct apply_ends *x)
{
	const char *last = NULL, *name;
	size_t last_n = 0;

	for (size_t i = 0; i < x->list->n; i++) {
		const struct apply_op *o = &x->list->ops[i];
		const char *slash = strrchr(o->path, '/');
		size_t n = slash ? (size_t)(slash - o->path) : 0;
		CLEANUP(fd) int dir = -1;

		if (o->what == APPLY_INNER)
			continue;
		if (o->what != APPLY_MODE && last && last_n == n && memcmp(last, o->path, n) == 0)
			continue;
		dir = apply_parent(x->workspace, o->path, &name);
		if (dir >= 0 && o->what == APPLY_MODE)
			note_back(x, dir, name);
		else if (dir >= 0) {
			last = o->path;
			last_n = n;
			note_back(x, dir, ".");
		}
	}
}

void apply_note_made(struct apply_ends *x)
{
	for (size_t i = 0; i < x->list->n; i++) {
		const struct apply_op *o = &x->list->ops[i];
		const char *name;
		CLEANUP(fd) int dir = -1;

		if (o->what == APPLY_REMOVE || o->what == APPLY_MODE)
			continue;
		dir = apply_parent(x->workspace, o->path, &name);
		if (dir >= 0)
			note_back(x, dir, name);
	}
}

/* Where our thing is tells on which side of the step it was. */
static bool back_swap(struct apply_ends *x, const struct apply_op *o, int dir, const char *name,
		      const char *staged)
{
	struct stat here, there;
	bool ours_there = fstatat(x->items, staged, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
			  same_inode(&o->made, &there);
	bool any_here = fstatat(dir, name, &here, AT_SYMLINK_NOFOLLOW) == 0;
	bool ours_here = any_here && same_inode(&o->made, &here);

	if (ours_there)
		return true;
	/* What somebody else has put there since stays. */
	if ((any_here && !ours_here) ||
	    renameat2(x->items, staged, dir, name, any_here ? RENAME_EXCHANGE : RENAME_NOREPLACE) <
		    0)
		return false;
	note_back(x, dir, name);
	return true;
}

static bool back_add(struct apply_ends *x, const struct apply_op *o, int dir, const char *name,
		     const char *staged)
{
	struct stat st;

	if (fstatat(x->items, staged, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	/* Removed meanwhile, or replaced: then it is not ours any more. */
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !same_inode(&o->made, &st))
		return true;
	return renameat2(dir, name, x->items, staged, RENAME_NOREPLACE) == 0;
}

static bool back_remove(struct apply_ends *x, int dir, const char *name, const char *staged)
{
	struct stat st;

	if (fstatat(x->items, staged, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	if (renameat2(x->items, staged, dir, name, RENAME_NOREPLACE) < 0)
		return false;
	note_back(x, dir, name);
	return true;
}

static bool back_mode(const struct apply_op *o, int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !same_inode(&o->was, &st) ||
	    (st.st_mode & 07777) != (o->made.mode & 07777))
		return true;
	return set_mode(dir, name, o, o->was.mode) == 0;
}

static bool step_back(struct apply_ends *x, size_t i)
{
	const struct apply_op *o = &x->list->ops[i];
	const char *name;
	CLEANUP(fd) int dir = apply_parent(x->workspace, o->path, &name);
	char staged[32];
	struct stat st;

	if (x->step)
		x->step(x->arg);
	(void)snprintf(staged, sizeof(staged), "%zu", i);
	if (dir < 0) /* lost, if the stage has anything of the workspace's */
		return o->what == APPLY_ADD || o->what == APPLY_MODE ||
		       fstatat(x->items, staged, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		       same_inode(&o->made, &st);
	switch (o->what) {
	case APPLY_SWAP:
		return back_swap(x, o, dir, name, staged);
	case APPLY_ADD:
		return back_add(x, o, dir, name, staged);
	case APPLY_REMOVE:
		return back_remove(x, dir, name, staged);
	default:
		return back_mode(o, dir, name);
	}
}

size_t apply_unsteps(struct apply_ends *x)
{
	size_t lost = 0;

	for (int rank = RANKS; rank-- > 0;)
		for (size_t i = x->list->n; i-- > 0;)
			if (rank_of(&x->list->ops[i]) == rank)
				lost += !step_back(x, i);
	return lost;
}

/* ---- before an undo ---- */

static bool touched(const struct apply_ends *x, const struct apply_op *o,
		    const struct timespec *since)
{
	const char *name;
	CLEANUP(fd) int dir = apply_parent(x->workspace, o->path, &name);
	struct change_was now;
	struct stat st;
	bool there = dir >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;

	if (o->what == APPLY_REMOVE)
		return there;
	if (!there)
		return true;
	if (o->what == APPLY_MODE)
		return !same_inode(&o->was, &st);
	now = change_was_of(&st);
	if (!S_ISDIR(st.st_mode))
		return !change_was_same(&now, &o->made) || time_before(since, &st.st_ctim);
	return !same_inode(&o->made, &st) || newer_in(dir, name, since);
}

/* What came out waits where a run may write, if the stage is in the workspace: it must be as it was
 * left. */
static bool stage_touched(const struct apply_ends *x, size_t i, const struct timespec *since)
{
	const enum apply_what what = x->list->ops[i].what;
	char staged[32];
	struct stat st;

	(void)snprintf(staged, sizeof(staged), "%zu", i);
	if (x->items < 0 || (what != APPLY_SWAP && what != APPLY_REMOVE))
		return false;
	if (fstatat(x->items, staged, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    time_before(since, &st.st_ctim))
		return true;
	return S_ISDIR(st.st_mode) && newer_in(x->items, staged, since);
}

const char *apply_touched(const struct apply_ends *x, const struct timespec *since)
{
	for (size_t i = 0; i < x->list->n; i++)
		if (x->list->ops[i].what != APPLY_INNER &&
		    (touched(x, &x->list->ops[i], since) || stage_touched(x, i, since)))
			return x->list->ops[i].path;
	return NULL;
}
