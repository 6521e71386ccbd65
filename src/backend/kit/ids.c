/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/ids.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/num.h"
#include "base/str.h"

#define RANGE 65536U
#define FIRST 0x20000000U /* above what useradd and container engines hand out */
#define SLOTS 4096
#define LOCK_FOLDER "/run/brig"
#define TEXT_MAX 65536

struct ids {
	int lock;
	uint32_t base;
};

uint32_t ids_base(const struct ids *i)
{
	return i->base;
}

struct ids *ids_free(struct ids *i)
{
	if (!i)
		return NULL;
	(void)fd_close(i->lock);
	free(i);
	return NULL;
}

/* Lines "name:first:count"; what cannot be read counts as taken. */
bool ids_range_free(const char *text, uint32_t first)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		char line[256], *at = line;
		uint64_t from, count;

		if (n >= sizeof(line))
			return false;
		if (n && *text != '#') {
			memcpy(line, text, n);
			line[n] = '\0';
			(void)strsep(&at, ":");
			if (!at || num_count(strsep(&at, ":"), &from) < 0 || !at ||
			    num_count(at, &count) < 0)
				return false;
			if (from < (uint64_t)first + RANGE &&
			    (count > UINT64_MAX - from || from + count > first))
				return false;
		}
		text += n + (text[n] == '\n');
	}
	return true;
}

/* Our own map must hold the whole range: inside a container it may not. */
static bool range_mapped(const char *path, uint32_t first)
{
	char text[4096], *at = text, *line;

	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	while ((line = strsep(&at, "\n")) && *line) {
		char *end;
		unsigned long inside = strtoul(line, &end, 10), count;

		(void)strtoul(end, &end, 10); /* where it leads outside does not matter */
		count = strtoul(end, NULL, 10);
		if (inside <= first && inside + count >= (unsigned long)first + RANGE)
			return true;
	}
	return false;
}

static bool range_usable(const char *subuid, const char *subgid, uint32_t first)
{
	return ids_range_free(subuid, first) && ids_range_free(subgid, first) &&
	       range_mapped("/proc/self/uid_map", first) &&
	       range_mapped("/proc/self/gid_map", first);
}

static int open_lock_folder(struct err *e)
{
	int fd;

	if (mkdir(LOCK_FOLDER, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make '%s'", LOCK_FOLDER);
	fd = open(LOCK_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "cannot open '%s'", LOCK_FOLDER) : fd;
}

/* The lock files stay: a name that two processes may lock must not be removed by one of them. */
static int take_slot(int folder, unsigned slot)
{
	CLEANUP(fd) int fd = -1;
	char name[32];

	(void)snprintf(name, sizeof(name), "ids-%u", slot);
	fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -1;
	return TAKE_FD(fd);
}

int ids_take(struct ids **ret, struct err *e)
{
	CLEANUP(ids) struct ids *i = calloc(1, sizeof(*i));
	CLEANUP(mem) char *subuid = calloc(1, TEXT_MAX);
	CLEANUP(mem) char *subgid = calloc(1, TEXT_MAX);
	CLEANUP(fd) int folder = -1;

	if (!i || !subuid || !subgid)
		return err_nomem(e);
	i->lock = -1;
	(void)fd_read_file(AT_FDCWD, "/etc/subuid", subuid, TEXT_MAX);
	(void)fd_read_file(AT_FDCWD, "/etc/subgid", subgid, TEXT_MAX);
	folder = open_lock_folder(e);
	if (folder < 0)
		return -e->code;
	for (unsigned slot = 0; slot < SLOTS; slot++) {
		uint32_t first = FIRST + slot * RANGE;

		if (!range_usable(subuid, subgid, first))
			continue;
		i->lock = take_slot(folder, slot);
		if (i->lock < 0)
			continue;
		i->base = first;
		*ret = TAKE_PTR(i);
		return 0;
	}
	return err_set(e, ERR_UNAVAILABLE, EAGAIN,
		       "no free range of 65536 user ids for a sandbox started by root"),
	       err_hint(e, "start brig as an ordinary user, or give it a workspace that one owns");
}

static int write_map(pid_t pid, const char *which, uint32_t inside, uint32_t outside)
{
	char path[64], line[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, which);
	(void)snprintf(line, sizeof(line), "%u %u 1\n", inside, outside);
	return fd_write_file(AT_FDCWD, path, line);
}

/* A user namespace that exists only to describe a mapping. Its first process waits to be killed. */
static int map_namespace(const struct prepared_tree *t, uint32_t uid, uint32_t gid, struct err *e)
{
	pid_t parent = getpid(),
	      pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER, NULL, NULL, NULL, NULL);
	char path[64];
	int fd = -1, r;

	if (pid < 0)
		return err_sys(e, "cannot make a user namespace for the workspace");
	if (pid == 0) {
		/* It must neither outlive us nor hold our locks. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		(void)fd_close_range(3, INT32_MAX);
		if (getppid() != parent)
			_exit(0);
		for (;;)
			(void)pause();
	}
	r = write_map(pid, "uid_map", t->disk_uid, uid);
	if (r == 0)
		r = write_map(pid, "gid_map", t->disk_gid, gid);
	if (r == 0) {
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : 0;
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, __WALL);
	if (r < 0)
		return errno = -r, err_sys(e, "cannot map the owner of '%s'", t->src);
	return fd;
}

int ids_map_tree(const struct prepared_tree *t, uint32_t uid, uint32_t gid, struct err *e)
{
	CLEANUP(fd) int ns = -1;
	CLEANUP(fd) int src = fd_open_nolinks(AT_FDCWD, t->src, O_PATH, 0);
	CLEANUP(fd) int tree = -1;
	/* Private: the copy of a shared mount is its peer, and covers mounted on it would show on
	 * the host. */
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .propagation = MS_PRIVATE };
	struct ident now;
	struct stat st;

	if (src < 0 || fstat(src, &st) < 0)
		return err_sys(e, "cannot open '%s'", t->src);
	now = ident_of(&st);
	if (!ident_same(&now, &t->ident))
		return err_set(e, ERR_POLICY, EPERM,
			       "'%s' was replaced while the sandbox was set up", t->src);
	ns = map_namespace(t, uid, gid, e);
	if (ns < 0)
		return -e->code;
	tree = open_tree(src, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	a.userns_fd = (uint64_t)ns;
	if (tree >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof(a)) == 0)
		return TAKE_FD(tree);
	(void)err_sys(e, "'%s' belongs to root and cannot be idmapped here", t->src);
	e->kind = ERR_UNAVAILABLE;
	return err_hint(e, "start brig as an ordinary user, or: chown -R USER:USER '%s'", t->src);
}
