/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/cgroup_scope.c - a leaf in a scope of the caller's service manager.
 *
 * A login session (ssh, a console) is a cgroup of root's: its user may make nothing in it and move
 * nothing out of it. The user's manager has a tree of its own beside it and may be asked:
 *
 *   user-1000.slice/session-3.scope                   the caller, who stays where it is
 *   user-1000.slice/user@1000.service/app.slice/brig-ID.scope
 *                                      brig-monitor-ID  the holder, which keeps the scope
 *                                      brig-ID          the leaf, with the limits
 *
 * The manager makes the scope around the holder, and later moves the sandbox's first process into
 * the leaf; everything else is done here, for the scope is ours. It vanishes when holder and
 * sandbox are gone, however the caller ended: the holder lives only as long as the caller's end of
 * its pipe. */
#include "backend/kit/limits/cgroup_internal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "backend/kit/limits/systemd.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "proc/spawn.h"

#define ASK_US 3000000
#define PAUSE_MIN 200000 /* nanoseconds */
#define PAUSE_MAX 5000000
#define LINGER_NS 10000000
#define LINGER_US 10000000
#define END_MS 500

static void cgroup_file(const struct cgroup_host *host, pid_t pid, char *path, size_t n)
{
	(void)snprintf(path, n, "%s/%d/cgroup", host->proc ? host->proc : "/proc", (int)pid);
}

/* Which cgroup we are in, as the kernel writes it. */
static void own_place(const struct cgroup_host *host, char *text, size_t n)
{
	char path[PATH_MAX];

	cgroup_file(host, getpid(), path, sizeof(path));
	text[0] = '\0';
	(void)fd_read_file(AT_FDCWD, path, text, n);
}

/* Until the manager has done what it was asked. Of a process that dies before, it makes a scope
 * that never was inhabited, hence never is left, and stays for ever. */
static void await_move(const struct cgroup_host *host, const char *before)
{
	const struct timespec pause = { .tv_nsec = LINGER_NS };
	uint64_t deadline = clock_us() + LINGER_US;
	char now[PATH_MAX];

	own_place(host, now, sizeof(now));
	while (strcmp(now, before) == 0 && clock_us() < deadline) {
		(void)nanosleep(&pause, NULL);
		own_place(host, now, sizeof(now));
	}
}

/* In a session of its own, so that the keys of a terminal do not reach it. */
static _Noreturn void cgroup_scope_hold(const struct cgroup_host *host, int leash)
{
	struct sigaction normal = { .sa_handler = SIG_DFL };
	char before[PATH_MAX], c;
	pid_t pid = getpid();
	sigset_t none;
	ssize_t n;

	(void)prctl(PR_SET_NAME, "brig-guard", 0, 0, 0);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* a copy of the caller's memory */
	(void)setsid();
	own_place(host, before, sizeof(before));
	if (dup2(leash, 0) < 0 || fd_close_range(1, INT_MAX) < 0)
		_exit(1);
	for (int sig = 1; sig < NSIG; sig++)
		(void)sigaction(sig, &normal, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (fd_send(0, &pid, sizeof(pid), NULL, 0) < 0)
		_exit(1);
	do
		n = recv(0, &c, 1, 0);
	while (n < 0 && errno == EINTR);
	if (n == 0) /* not told that nothing comes of it */
		await_move(host, before);
	_exit(0);
}

static int start_holder(struct cg_scope *s, const struct cgroup_host *host, struct err *e)
{
	int pair[2];
	pid_t pid;
	int r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "cannot make a socket pair");
	s->leash = pair[0];
	r = proc_fork_away(false); /* it may have to outlive us */
	if (r == 0)
		cgroup_scope_hold(host, pair[1]);
	(void)fd_close(pair[1]);
	/* Its first word, or end of file if there is none. */
	if (r < 0 || recv(s->leash, &pid, sizeof(pid), 0) != (ssize_t)sizeof(pid))
		return err_sys(e, "cannot start the holder of a scope");
	s->holder = pid;
	return 0;
}

/* The holder goes by itself. What is left is the manager's to remove: the rest below the scope, and
 * with it the scope. */
void cg_scope_end(struct cg_scope *s)
{
	CLEANUP(fd) int gone = -1;

	if (s->rest.kinds)
		gone = (int)syscall(SYS_pidfd_open, s->holder, 0);
	s->manager = fd_close(s->manager);
	s->leash = fd_close(s->leash);
	/* So that no process is left when we return; not where the manager has yet to move it. */
	if (gone >= 0)
		(void)wait_fd(gone, POLLIN, clock_after(END_MS));
	cg_leaf_close(&s->rest);
	s->holder = 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n > m && strcmp(s + n - m, end) == 0 && s[n - m - 1] == '/';
}

/* The manager has only promised when it answers. */
static int wait_moved(const struct cgroup_host *host, const struct cg_scope *s, uint64_t deadline,
		      struct cg_map *ret, struct err *e)
{
	struct timespec pause = { .tv_nsec = PAUSE_MIN };
	struct cgroup_host there = { .mountinfo = host->mountinfo };
	char self[PATH_MAX];

	cgroup_file(host, s->holder, self, sizeof(self));
	there.self_cgroup = self;
	for (;;) {
		int r = cg_map_read(&there, ret);

		if (r < 0)
			return err_set(e, ERR_INTERNAL, -r, "cannot look for '%s': %s", s->unit,
				       strerror(-r));
		if (ends_with(ret->place[CG_UNIFIED].dir, s->unit))
			return 0;
		if (clock_us() >= deadline)
			return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
				       "the service manager of this user made no scope in time");
		(void)nanosleep(&pause, NULL);
		pause.tv_nsec = pause.tv_nsec * 2 > PAUSE_MAX ? PAUSE_MAX : pause.tv_nsec * 2;
	}
}

/* A cgroup with processes in it hands nothing down. */
static int move_holder(struct cgroup *c, int dir)
{
	CLEANUP(fd) int parent = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	char name[CG_NAME_MAX], pid[24];
	int r;

	(void)snprintf(name, sizeof(name), CG_PREFIX "monitor-%s", c->id);
	(void)snprintf(pid, sizeof(pid), "%d", (int)c->scope.holder);
	if (parent < 0)
		return -errno;
	r = cg_leaf_make(parent, name, CG_BIT(CG_UNIFIED), &c->scope.rest);
	if (r < 0)
		return r;
	(void)TAKE_FD(parent);
	return cg_set(&c->scope.rest, "cgroup.procs", pid) ? 0 : -EPERM;
}

static int furnish(struct cgroup *c, const char *path, unsigned want, const struct cgroup_limits *l,
		   struct err *e)
{
	CLEANUP(fd) int dir = fd_open_nolinks(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0);
	int r = dir < 0 ? dir : move_holder(c, dir);

	if (r == 0)
		r = cg_v2_below(c, dir, want, l);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "scope '%s' cannot be used: %s", c->scope.unit,
			       strerror(-r));
	(void)TAKE_FD(dir);
	return 0;
}

/* Only what begins in a login session of this user's. A service's processes stay in the service,
 * whose limits are its administrator's. */
static bool in_session(const struct cg_map *map)
{
	char slice[32];

	(void)snprintf(slice, sizeof(slice), "/user-%u.slice/", geteuid());
	return strstr(map->place[CG_UNIFIED].dir, slice) != NULL;
}

static int open_scope(struct cgroup *c, const struct cgroup_host *host, uint64_t deadline,
		      struct cg_map *ret, struct err *e)
{
	struct cg_scope *s = &c->scope;

	(void)snprintf(s->unit, sizeof(s->unit), CG_PREFIX "%s.scope", c->id);
	if (start_holder(s, host, e) < 0)
		return -e->code;
	if (manager_start_scope(s->manager, s->unit, s->holder, deadline, e) < 0) {
		if (e->code == EPERM) /* refused: nobody is going to move the holder */
			(void)send(s->leash, "", 1, MSG_NOSIGNAL);
		return -e->code;
	}
	return wait_moved(host, s, deadline, ret, e);
}

int cgroup_ask(const struct cgroup_host *host, const char *id, const struct cgroup_limits *l,
	       struct cgroup **ret, struct err *e)
{
	CLEANUP(cgroup) struct cgroup *c = cg_alloc(id, e);
	uint64_t deadline = clock_us() + ASK_US;
	struct cg_map there;
	unsigned want;

	if (!c)
		return -e->code;
	*ret = NULL;
	want = cg_map_read(host, c->map) < 0 ? 0 : cg_v2_wanted(c->map, l);
	if (!want || !in_session(c->map))
		return 0;
	c->scope.manager = manager_open(host->runtime, e);
	if (c->scope.manager < 0)
		return c->scope.manager == -ENOENT ? 0 : -e->code;
	if (open_scope(c, host, deadline, &there, e) < 0 ||
	    furnish(c, there.place[CG_UNIFIED].dir, want, l, e) < 0)
		return -e->code;
	if (!c->enforces)
		return err_set(e, ERR_UNAVAILABLE, ENOTSUP,
			       "the service manager of this user has no controllers to hand down");
	if (l->cpu_shares == CG_ORDINARY_SHARES)
		c->enforces |= CGROUP_HAS_SHARES;
	*ret = TAKE_PTR(c);
	return 0;
}

int cg_scope_attach(struct cgroup *c, pid_t pid, struct err *e)
{
	char sub[CG_NAME_MAX + 1];

	(void)snprintf(sub, sizeof(sub), "/" CG_PREFIX "%s", c->id);
	if (manager_attach(c->scope.manager, c->scope.unit, sub, pid, clock_us() + ASK_US, e) < 0)
		return -e->code;
	/* Believed when seen. */
	if (!cg_inside(&c->v2, pid))
		return err_set(e, ERR_INTERNAL, EPERM,
			       "the service manager of this user did not move process %d",
			       (int)pid);
	return 0;
}
