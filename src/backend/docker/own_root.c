/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/own_root.c - a writable root whose folders are the user's inside, as native has
 * it.
 *
 * An image's folders belong to root, and the command is somebody else without a capability. While
 * the gate waits, folders near the top of the container's own layer are given to whoever the gate
 * is; what lies deeper stays as it is. Only root can do it. The container's root is known by the
 * gate in it, under a name of 128 random bits; no link is followed, and no mount but that of the
 * root is entered. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "backend/docker/guard.h"
#include "base/files/fd.h"
#include "base/text/str.h"

#define DEPTH 5           /* /usr/local/lib/pythonN/site-packages */
#define FOLDERS_MAX 8192  /* given at most; the rest stays root's */
#define ENTRIES_MAX 65536 /* looked at, whatever they are */

enum { TYPE_DIR = 4 };

struct giving {
	uint64_t mount; /* of the root */
	uint32_t uid, gid;
	unsigned folders, entries; /* that are left */
};

/* 0: this kernel does not tell. */
static uint64_t mount_of(int fd, struct statx *st)
{
	if (statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_MNT_ID, st) <
		    0 ||
	    !(st->stx_mask & STATX_MNT_ID))
		return 0;
	return st->stx_mnt_id;
}

/* One that anybody may write to is left: /tmp keeps its owner. */
static bool give_one(const struct giving *g, int fd, const struct statx *st)
{
	if (st->stx_mode & 0002)
		return true;
	if (fchownat(fd, "", g->uid, g->gid, AT_EMPTY_PATH) < 0)
		return false;
	return st->stx_mode & 0200 || fchmod(fd, (st->stx_mode & 07777) | 0700) == 0;
}

static void give_below(struct giving *g, int folder, int depth);

static void give_entry(struct giving *g, int folder, const struct fd_entry *e, int depth)
{
	CLEANUP(fd) int fd = -1;
	struct statx st;

	if (e->type != TYPE_DIR || str_eq(e->name, ".") || str_eq(e->name, ".."))
		return;
	fd = openat(folder, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || mount_of(fd, &st) != g->mount)
		return;
	g->folders--;
	if (give_one(g, fd, &st) && depth > 1)
		give_below(g, fd, depth - 1);
}

static void give_below(struct giving *g, int folder, int depth)
{
	_Alignas(8) char data[4096];
	long n;

	while (g->folders && g->entries &&
	       (n = syscall(SYS_getdents64, folder, data, sizeof(data))) > 0)
		for (long at = 0; at < n && g->folders && g->entries; g->entries--) {
			const struct fd_entry *e = (const void *)(data + at);

			at += e->reclen;
			give_entry(g, folder, e, depth);
		}
}

/* Who the gate is, as this machine counts. */
static bool ids_of(const char *proc, uint32_t *uid, uint32_t *gid)
{
	char path[64], text[4096];
	const char *u, *v;

	(void)snprintf(path, sizeof(path), "%s/status", proc);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	u = strstr(text, "\nUid:\t");
	v = strstr(text, "\nGid:\t");
	if (!u || !v)
		return false;
	*uid = (uint32_t)strtoul(u + strlen("\nUid:\t"), NULL, 10);
	*gid = (uint32_t)strtoul(v + strlen("\nGid:\t"), NULL, 10);
	return *uid && *gid;
}

/* The root that has our gate in it; -1: the engine's numbers are others. */
static int root_of(const struct guard *g, const char *proc)
{
	char path[64];
	CLEANUP(fd) int root = -1, gate = -1;
	struct stat inside, own;

	(void)snprintf(path, sizeof(path), "%s/root", proc);
	root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -1;
	gate = fd_open_nolinks(root, g->gate_inside + 1, O_PATH | O_CLOEXEC, FD_BENEATH);
	if (gate < 0 || fstat(gate, &inside) < 0 || stat(g->gate, &own) < 0 ||
	    inside.st_dev != own.st_dev || inside.st_ino != own.st_ino)
		return -1;
	return TAKE_FD(root);
}

bool own_root(const struct guard *g)
{
	struct giving what = { .folders = FOLDERS_MAX, .entries = ENTRIES_MAX };
	char proc[32];
	CLEANUP(fd) int root = -1;
	struct statx st;

	if (g->plan->tune.read_only || g->plan->user != DOCKER_USER_IDS || !g->plan->uid)
		return true;
	(void)snprintf(proc, sizeof(proc), "/proc/%lld", (long long)g->pid);
	if (geteuid() != 0 || g->pid <= 0 || !g->same_kernel)
		return false;
	root = root_of(g, proc);
	if (root < 0 || !ids_of(proc, &what.uid, &what.gid))
		return false;
	what.mount = mount_of(root, &st);
	if (!what.mount || !give_one(&what, root, &st))
		return false;
	give_below(&what, root, DEPTH - 1);
	return true;
}
