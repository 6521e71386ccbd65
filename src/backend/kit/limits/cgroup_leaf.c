/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/cgroup_leaf.c - making, locking, sweeping and removing one leaf.
 *
 * States: made (directory exists, unlocked) -> owned (flock held) -> gone. A sweep removes what it
 * can lock, so it may take a leaf away between "made" and "owned". The maker therefore locks first
 * and looks afterwards whether the leaf is still there: whoever holds the lock decides alone. No
 * lock on the shared parent is needed, which any local user could hold for ever; the leaf itself
 * has mode 0700, so that nobody else can open and lock it. */
#include "backend/kit/limits/cgroup_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/fd.h"

#define MAKE_TRIES 40 /* about half a second: on a busy machine a sweep may win many times */
#define FIRST_PAUSE_NS 100000
#define LONGEST_PAUSE_NS 12800000
#define LIST_MAX 100000 /* directory entries a sweep looks at */
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
static uint64_t number(const char *s)
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
		return number(text);
	while (text) {
		text += *text == '\n';
		if (strncmp(text, key, n) == 0 && text[n] == ' ')
			return number(text + n + 1);
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

/* Free lock: its monitor is dead (or has not locked it yet, and will make it again). Processes in
 * it: the kernel refuses, and the next sweep tries again. */
static int sweep_one(int parent, const char *name, bool *busy)
{
	CLEANUP(fd) int dir = openat(parent, name, DIR_FLAGS);

	if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0)
		return 0;
	if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
		return 1;
	*busy |= errno == EBUSY;
	/* Whoever was paused when its monitor died: it ends once it may go on. */
	(void)fd_write_file(dir, "cgroup.freeze", "0");
	(void)fd_write_file(dir, "freezer.state", "THAWED");
	return 0;
}

/* A dot is in every unit name of systemd and in no name of ours. */
static bool is_ours(const char *name)
{
	return strncmp(name, CG_PREFIX, strlen(CG_PREFIX)) == 0 && !strchr(name, '.');
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

int cg_leaf_sweep(const char *path, const char *own, bool *busy)
{
	CLEANUP(fd) int dir = -1;
	_Alignas(8) char data[8192];
	int removed = 0, seen = 0;
	long n;

	if (no_other_child(path, own))
		return 0;
	dir = fd_open_nolinks(AT_FDCWD, path, DIR_FLAGS, 0);
	if (dir < 0 || faccessat(dir, ".", W_OK, AT_EACCESS) < 0)
		return 0;
	while (seen < LIST_MAX && (n = syscall(SYS_getdents64, dir, data, sizeof(data))) > 0)
		for (long at = 0; at < n; seen++) {
			const struct fd_entry *d = (const void *)(data + at);

			if (is_ours(d->name))
				removed += sweep_one(dir, d->name, busy);
			at += d->reclen;
		}
	return removed;
}
