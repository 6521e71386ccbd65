/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/plan/ids.h"

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

#include "base/files/mounts.h"
#include "model/settings/paths.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define RANGE 65536U
#define FIRST 0x20000000U /* above what useradd and container engines hand out */
#define SLOTS 4096
#define LOCK_FOLDER "/run/brig"
#define TEXT_MAX 65536

#define STACK                                                                                      \
	16384 /* three system calls, and whatever it takes to find them in a shared library        \
	       */

/* The first process of a user namespace, in our memory. */
struct waiter {
	pid_t parent, pid;
	_Alignas(16) char stack[STACK];
};

struct ids {
	int lock;
	uint32_t base;
	struct waiter *waiters[PREPARED_MAX]; /* killed, not yet waited for */
	size_t waiter_count;
};

uint32_t ids_base(const struct ids *i)
{
	return i->base;
}

void ids_settle(struct ids *i)
{
	for (size_t w = 0; i && w < i->waiter_count; w++) {
		while (waitpid(i->waiters[w]->pid, NULL, __WALL) < 0 && errno == EINTR)
			;
		free(i->waiters[w]);
	}
	if (i)
		i->waiter_count = 0;
}

struct ids *ids_free(struct ids *i)
{
	if (!i)
		return NULL;
	ids_settle(i);
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

		if (n && *text != '#') {
			if (n >= sizeof(line))
				return false;
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

/* Our own map must hold the whole range: inside a container it may not. Lines "inside outside
 * count"; where it leads outside does not matter. */
static bool range_mapped(const char *text, uint32_t first)
{
	for (char *end; *text; text = *end ? end + 1 : end) {
		unsigned long inside = strtoul(text, &end, 10), count;

		(void)strtoul(end, &end, 10);
		count = strtoul(end, &end, 10);
		if (inside <= first && inside + count >= (unsigned long)first + RANGE)
			return true;
		end += strcspn(end, "\n");
	}
	return false;
}

/* What decides about a range; what is not there says nothing. */
enum { SUBUID, SUBGID, UID_MAP, GID_MAP, TEXTS };

struct texts {
	char *v[TEXTS];
};

static void texts_done(struct texts *t)
{
	for (int i = 0; i < TEXTS; i++)
		free(t->v[i]);
}

/* Most are a line or two: only a long one gets the largest buffer, which the kernel has to clear.
 */
static char *ids_text_of(const char *path)
{
	char few[2048], *text;
	ssize_t n = fd_read_file(AT_FDCWD, path, few, sizeof(few));

	if (n < (ssize_t)sizeof(few) - 1)
		return strdup(n < 0 ? "" : few);
	text = malloc(TEXT_MAX);
	if (text && fd_read_file(AT_FDCWD, path, text, TEXT_MAX) < 0)
		text[0] = '\0';
	return text;
}

static int texts_read(struct texts *t)
{
	static const char *const paths[TEXTS] = { "/etc/subuid", "/etc/subgid",
						  "/proc/self/uid_map", "/proc/self/gid_map" };

	for (int i = 0; i < TEXTS; i++)
		if (!(t->v[i] = ids_text_of(paths[i])))
			return -ENOMEM;
	return 0;
}

static bool range_usable(const struct texts *t, uint32_t first)
{
	return ids_range_free(t->v[SUBUID], first) && ids_range_free(t->v[SUBGID], first) &&
	       range_mapped(t->v[UID_MAP], first) && range_mapped(t->v[GID_MAP], first);
}

/* One file, a byte of it for each slot; it stays: what two processes may lock must not be removed
 * by one of them. */
static int open_lock(struct err *e)
{
	int fd;

	if (mkdir(LOCK_FOLDER, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make '%s'", LOCK_FOLDER);
	fd = open(LOCK_FOLDER "/ids", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(e, "cannot open '%s'", LOCK_FOLDER "/ids") : fd;
}

static bool take_slot(int lock, unsigned slot)
{
	struct flock l = { .l_type = F_WRLCK, .l_start = slot, .l_len = 1 };

	return fcntl(lock, F_OFD_SETLK, &l) == 0;
}

/* Every run begins to look at another slot, or 64 at once would try those of the others first. */
static int take_free(struct ids *i, const struct texts *t, struct err *e)
{
	unsigned first = (unsigned)getpid();

	for (unsigned n = 0; n < SLOTS; n++) {
		unsigned slot = (first + n) % SLOTS;

		i->base = FIRST + slot * RANGE;
		if (range_usable(t, i->base) && take_slot(i->lock, slot))
			return 0;
	}
	return err_refuse(e, ERR_UNAVAILABLE, EAGAIN,
			  "start brig as an ordinary user, or give it a workspace that one owns",
			  "no free range of 65536 user ids for a sandbox started by root");
}

int ids_take(struct ids **ret, struct err *e)
{
	CLEANUP(ids) struct ids *i = calloc(1, sizeof(*i));
	struct texts t = { 0 };
	int r;

	if (!i)
		return err_nomem(e);
	i->lock = open_lock(e);
	if (i->lock < 0)
		return -e->code;
	r = texts_read(&t) < 0 ? err_nomem(e) : take_free(i, &t, e);
	texts_done(&t);
	if (r == 0)
		*ret = TAKE_PTR(i);
	return r;
}

static int write_map(pid_t pid, const char *which, uint32_t inside, uint32_t outside)
{
	char path[64], line[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, which);
	(void)snprintf(line, sizeof(line), "%u %u 1\n", inside, outside);
	return fd_write_file(AT_FDCWD, path, line);
}

/* In our memory and with our descriptors: it touches neither, and must not outlive us. */
static int wait_to_be_killed(void *arg)
{
	const struct waiter *w = arg;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	/* Not pause(), a cancellation point: it would note itself in the thread we share. */
	while (getppid() == w->parent)
		(void)syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	return 0;
}

/* Copying our memory, or the table of our descriptors, would cost more than the namespace. */
static struct waiter *start_waiter(struct ids *i)
{
	CLEANUP(mem) struct waiter *w = i->waiter_count < PREPARED_MAX ? malloc(sizeof(*w)) : NULL;
	sigset_t all, old;

	if (!w)
		return NULL;
	w->parent = getpid();
	/* No handler of the embedding program may run in it. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	w->pid = clone(wait_to_be_killed, w->stack + STACK, CLONE_NEWUSER | CLONE_VM | CLONE_FILES,
		       w);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (w->pid < 0)
		return NULL;
	return i->waiters[i->waiter_count++] = TAKE_PTR(w);
}

/* A user namespace that exists only to describe a mapping. Its first process waits to be killed. */
static int map_namespace(struct ids *i, const struct prepared_tree *t, uint32_t uid, uint32_t gid,
			 struct err *e)
{
	const struct waiter *w = start_waiter(i);
	char path[64];
	int fd = -1, r;

	if (!w)
		return err_sys(e, "cannot make a user namespace for the workspace");
	r = write_map(w->pid, "uid_map", t->disk_uid, uid);
	if (r == 0)
		r = write_map(w->pid, "gid_map", t->disk_gid, gid);
	if (r == 0) {
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", w->pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : 0;
	}
	(void)kill(w->pid, SIGKILL);
	if (r < 0)
		return err_errno(e, r, "cannot map the owner of '%s'", t->src);
	return fd;
}

/* Are all mounts below of the host's kernel? Those cannot be idmapped, and are masked. */
static bool only_kernels_below(const char *src)
{
	CLEANUP(arena) struct arena *arena = arena_new(1 << 20);
	struct mounts m = { 0 };
	struct err unused = { 0 };

	if (!arena || mounts_read(arena, &m, &unused) < 0)
		return false;
	for (size_t i = 0; i < m.n; i++)
		if (!m.v[i].kernel && path_under(m.v[i].point, src) && !str_eq(m.v[i].point, src))
			return false;
	return true;
}

/* With the mounts below: what they hide, brig could not judge either. A descriptor or -errno. */
static int clone_mapped(const char *path, int src, struct mount_attr *a)
{
	const unsigned copy = AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
	CLEANUP(fd) int all = open_tree(src, "", copy | AT_RECURSIVE);
	CLEANUP(fd) int one = -1;

	if (all < 0)
		return -errno;
	if (mount_setattr(all, "", AT_EMPTY_PATH | AT_RECURSIVE, a, sizeof(*a)) == 0)
		return TAKE_FD(all);
	if (errno != EINVAL || !only_kernels_below(path))
		return -EINVAL;
	one = open_tree(src, "", copy);
	if (one < 0 || mount_setattr(one, "", AT_EMPTY_PATH, a, sizeof(*a)) < 0)
		return -errno;
	return TAKE_FD(one);
}

int ids_map_tree(const struct prepared_tree *t, uint32_t uid, uint32_t gid, struct ids *later,
		 struct err *e)
{
	struct ids now_only = { .lock = -1 };
	CLEANUP(fd) int ns = -1;
	CLEANUP(fd) int src = fd_open_nolinks(AT_FDCWD, t->src, O_PATH, 0);
	/* Private: the copy of a shared mount is its peer, and covers mounted on it would show on
	 * the host. */
	struct mount_attr a = { .attr_set = t->as_it_is ? 0 : MOUNT_ATTR_IDMAP,
				.propagation = MS_PRIVATE };
	char word[160];
	struct ident now;
	struct stat st;
	int tree;

	if (src < 0 || fstat(src, &st) < 0)
		return err_sys(e, "cannot open '%s'", t->src);
	now = ident_of(&st);
	if (!ident_same(&now, &t->ident))
		return err_replaced(e, t->src);
	if (!t->as_it_is)
		ns = map_namespace(later ? later : &now_only, t, uid, gid, e);
	ids_settle(&now_only);
	if (ns < 0 && !t->as_it_is)
		return -e->code;
	a.userns_fd = t->as_it_is ? 0 : (uint64_t)ns;
	tree = clone_mapped(t->src, src, &a);
	if (tree >= 0)
		return tree;
	(void)err_errno(e, tree,
			"'%s', or a mount below it, belongs to root and cannot be idmapped here",
			t->src);
	e->kind = ERR_UNAVAILABLE;
	if (t->kept)
		return err_hint(e,
				"leave --home keep out, give a long-lived sandbox limits.tmp (what "
				"it writes is then in memory), start brig as an ordinary user, "
				"or set XDG_CACHE_HOME to a folder on another file system");
	return err_hint(e, "start brig as an ordinary user, or: chown -R USER:USER %s",
			str_shell_word(t->src, word, sizeof(word)));
}
