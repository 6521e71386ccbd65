/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/cgroup_leaf.c - making, locking, sweeping and removing one leaf.
 *
 * States: claimed (in a file of the user's) -> made (directory exists, unlocked) -> owned (flock
 * held; the claim may go) -> gone. A sweep removes what it can lock and nobody claims. One that
 * does not see the claims may take a leaf away between "made" and "owned". The maker therefore
 * locks first and looks afterwards whether the leaf is still there: whoever holds the lock decides
 * alone. No lock on the shared parent is needed, which any local user could hold for ever; the leaf
 * itself has mode 0700, so that nobody else can open and lock it. */
#include "backend/kit/limits/cgroup_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/text/str.h"

#define MAKE_TRIES 40 /* about half a second: on a busy machine a sweep may win many times */
#define FIRST_PAUSE_NS 100000
#define LONGEST_PAUSE_NS 12800000
#define LOOKS 16 /* leaves that a sweep looks at, twice, in each folder; those it removes aside */
#define TURNS 64
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

bool cg_unavailable(int r)
{
	return r == -EACCES || r == -EPERM || r == -EROFS || r == -ENOENT || r == -ENOTDIR ||
	       r == -ENODEV || r == -EOPNOTSUPP || r == -ELOOP || r == -EINVAL || r == -EBUSY;
}

bool cg_set(const struct cg_leaf *leaf, const char *file, const char *text)
{
	return fd_write_file(leaf->dir, file, text) == 0;
}

bool cg_set_number(const struct cg_leaf *leaf, const char *file, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return cg_set(leaf, file, text);
}

/* Digits only and saturating; "max" and the like are 0. */
static uint64_t cgroup_leaf_number(const char *s)
{
	uint64_t v = 0;

	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return UINT64_MAX;
	return v;
}

uint64_t cg_value(const char *text, const char *key)
{
	size_t n = key ? strlen(key) : 0;

	if (!key)
		return cgroup_leaf_number(text);
	while (text) {
		text += *text == '\n';
		if (strncmp(text, key, n) == 0 && text[n] == ' ')
			return cgroup_leaf_number(text + n + 1);
		text = strchr(text, '\n');
	}
	return 0;
}

uint64_t cg_get(const struct cg_leaf *leaf, const char *file, const char *key)
{
	char text[512];

	return fd_read_file(leaf->dir, file, text, sizeof(text)) < 0 ? 0 : cg_value(text, key);
}

/* A leaf that was there before may be used only when nobody is in it. */
static bool empty(int dir)
{
	char text[16];

	return fd_read_file(dir, "cgroup.procs", text, sizeof(text)) == 0;
}

/* A directory without control files is no cgroup, unless it is gone by now. */
static int without_files(int parent, const char *name, int dir)
{
	struct stat was, now;

	return fstat(dir, &was) == 0 && fstatat(parent, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
			       was.st_ino == now.st_ino
		       ? -ENODEV
		       : -EAGAIN;
}

/* -EAGAIN: somebody sweeps it away under our hands, make it again; -EEXIST: in use, or just about
 * to be swept, so worth another try as well. */
static int own(int parent, bool existed, struct cg_leaf *leaf)
{
	bool v2 = leaf->kinds & CG_BIT(CG_UNIFIED);
	CLEANUP(fd) int dir = openat(parent, leaf->name, DIR_FLAGS);
	CLEANUP(fd) int entry = -1;

	if (dir < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(dir, LOCK_EX | LOCK_NB) < 0)
		return existed ? -EEXIST : -errno;
	entry = openat(dir, v2 ? "cgroup.procs" : "tasks", (v2 ? O_RDWR : O_WRONLY) | O_CLOEXEC);
	if (entry < 0)
		return errno == ENOENT || errno == ENODEV ? without_files(parent, leaf->name, dir)
							  : -errno;
	if (existed && !empty(dir))
		return -EEXIST;
	leaf->entry = TAKE_FD(entry);
	leaf->dir = TAKE_FD(dir);
	return 0;
}

int cg_leaf_make(int parent, const char *name, unsigned kinds, struct cg_leaf *ret)
{
	struct timespec pause = { .tv_nsec = FIRST_PAUSE_NS };
	struct cg_leaf leaf = CG_LEAF_NONE;
	int r = -EAGAIN;

	leaf.kinds = kinds;
	(void)snprintf(leaf.name, sizeof(leaf.name), "%s", name);
	for (int i = 0; (r == -EAGAIN || r == -EEXIST) && i < MAKE_TRIES; i++) {
		bool existed = false;

		if (i > 0)
			(void)nanosleep(&pause, NULL);
		if (i > 0 && pause.tv_nsec < LONGEST_PAUSE_NS)
			pause.tv_nsec *= 2;
		if (mkdirat(parent, leaf.name, 0700) < 0) {
			existed = errno == EEXIST;
			/* EAGAIN here is the hierarchy's own limit of descendants. */
			if (!existed)
				return errno == EAGAIN ? -ENOSPC : -errno;
		}
		r = own(parent, existed, &leaf);
	}
	if (r == 0) {
		leaf.parent = parent;
		*ret = leaf;
		return 0;
	}
	if (r != -EEXIST)
		(void)unlinkat(parent, leaf.name, AT_REMOVEDIR);
	return r == -EAGAIN ? -ENODEV : r;
}

void cg_leaf_close(struct cg_leaf *leaf)
{
	(void)fd_close(leaf->entry);
	(void)fd_close(leaf->dir);
	(void)fd_close(leaf->parent);
	*leaf = CG_LEAF_NONE;
}

bool cg_leaf_remove(struct cg_leaf *leaf)
{
	if (!leaf->kinds)
		return true;
	if (unlinkat(leaf->parent, leaf->name, AT_REMOVEDIR) < 0 && errno == EBUSY)
		return false;
	cg_leaf_close(leaf);
	return true;
}

/* A byte of the file for each run; two that meet there are swept a little later. */
static struct flock claim_of(const char *name)
{
	const char *dash = strrchr(name, '-');

	return (struct flock){ .l_type = F_WRLCK,
			       .l_start = (off_t)(str_hash(dash ? dash + 1 : name) >> 2),
			       .l_len = 1 };
}

int cgroup_claim(int claims, const char *id)
{
	struct flock byte = claim_of(id);

	if (claims >= 0)
		(void)fcntl(claims, F_OFD_SETLKW, &byte);
	return claims;
}

/* A leaf is claimed before it is made and until it is locked. What was listed and is not claimed
 * any more is locked, or its maker is dead. */
static bool claimed(int claims, const char *name)
{
	struct flock byte = claim_of(name);

	return claims >= 0 && (fcntl(claims, F_OFD_GETLK, &byte) < 0 || byte.l_type != F_UNLCK);
}

/* A dot is in every unit name of systemd and in no name of ours. */
static bool cgroup_leaf_is_ours(const char *name)
{
	return strncmp(name, CG_PREFIX, strlen(CG_PREFIX)) == 0 && !strchr(name, '.');
}

/* Free lock: its monitor is dead. Processes in it: the kernel refuses, and the next sweep tries
 * again. */
static bool sweep_one(void *arg, int parent, const char *name)
{
	CLEANUP(fd) int dir = -1;
	struct cg_sweep *s = arg;

	if (!cgroup_leaf_is_ours(name))
		return false;
	dir = claimed(s->claims, name) ? -1 : openat(parent, name, DIR_FLAGS);
	if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0)
		return true;
	if (unlinkat(parent, name, AT_REMOVEDIR) == 0) {
		s->removed++;
		return false;
	}
	s->busy |= errno == EBUSY;
	/* Whoever was paused when its monitor died: it ends once it may go on. */
	(void)fd_write_file(dir, "cgroup.freeze", "0");
	(void)fd_write_file(dir, "freezer.state", "THAWED");
	return true;
}

/* Each child is one more link to its parent. */
static bool no_other_child(const char *path, const char *own)
{
	char leaf[PATH_MAX];
	struct stat st;

	if (lstat(path, &st) < 0 || st.st_nlink == 2)
		return true;
	if (!own || st.st_nlink != 3)
		return false;
	(void)snprintf(leaf, sizeof(leaf), "%s/" CG_PREFIX "%s", path, own);
	return lstat(leaf, &st) == 0;
}

/* Where sweeps have got to is written into the file of claims: a number for each folder, or, where
 * two of them meet, for both, which costs a turn. */
void cg_leaf_sweep(const char *path, struct cg_sweep *s)
{
	off_t at = (off_t)(str_hash(path) % TURNS) * (off_t)sizeof(int64_t);
	CLEANUP(fd) int dir = -1;
	int64_t was = 0, turn;

	if (no_other_child(path, s->own))
		return;
	dir = fd_open_nolinks(AT_FDCWD, path, DIR_FLAGS, 0);
	if (dir < 0 || faccessat(dir, ".", W_OK, AT_EACCESS) < 0)
		return;
	if (s->claims >= 0 && pread(s->claims, &was, sizeof(was), at) != sizeof(was))
		was = 0;
	turn = was;
	folder_some(dir, LOOKS, &turn, sweep_one, s);
	if (s->claims >= 0 && turn != was)
		(void)!pwrite(s->claims, &turn, sizeof(turn), at);
}
