/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/child.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "backend/native/landlock.h"
#include "backend/native/mount.h"
#include "backend/kit/door.h"
#include "backend/kit/seccomp.h"
#include "base/str.h"

#define KEEP_MAX (PREPARED_MAX + 4)
#define FDS_CHECKED 32 /* everything inherited was closed, so ours are the lowest numbers */

static void keep(int *list, size_t *n, int fd)
{
	size_t at = *n;

	if (fd < 0)
		return;
	for (; at && list[at - 1] > fd; at--)
		list[at] = list[at - 1];
	list[at] = fd;
	(*n)++;
}

/* Whatever the embedding program had open is gone before anything else happens. */
static int close_foreign(const struct child_start *c, struct err *e)
{
	int list[KEEP_MAX], next = 3, r = 0;
	size_t n = 0;

	keep(list, &n, c->control);
	keep(list, &n, c->in);
	keep(list, &n, c->out);
	keep(list, &n, c->err);
	for (size_t i = 0; i < c->plan->prepared_count; i++)
		keep(list, &n, c->prepared[i]);
	for (size_t i = 0; i < n && r == 0; i++) {
		if (list[i] > next)
			r = fd_close_range(next, list[i] - 1);
		next = list[i] + 1;
	}
	if (r == 0)
		r = fd_close_range(next, INT32_MAX);
	return r < 0 ? (errno = -r, err_sys(e, "cannot close inherited descriptors")) : 0;
}

static int write_map(const char *path, uint32_t inside, uint32_t outside, struct err *e)
{
	char line[64];
	int r;

	(void)snprintf(line, sizeof(line), "%u %u 1\n", inside, outside);
	r = fd_write_file(AT_FDCWD, path, line);
	return r < 0 ? (errno = -r, err_sys(e, "cannot write '%s'", path)) : 0;
}

static int own_maps(const struct box_plan *p, struct err *e)
{
	int r = fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");

	if (r < 0)
		return errno = -r, err_sys(e, "cannot write '/proc/self/setgroups'");
	if (write_map("/proc/self/uid_map", p->uids[0].inside, p->uids[0].outside, e) < 0)
		return -e->code;
	return write_map("/proc/self/gid_map", p->gids[0].inside, p->gids[0].outside, e);
}

static int wait_for_parent(const struct child_start *c, struct err *e)
{
	struct init_request go;
	ssize_t n;

	do
		n = recv(c->control, &go, sizeof(go), 0);
	while (n < 0 && errno == EINTR);
	return n == sizeof(go) ? 0 : err_set(e, ERR_INTERNAL, EPIPE, "the monitor went away");
}

/* With every capability in the new user namespace and none anywhere else. */
static int become(const struct child_start *c, struct err *e)
{
	const struct box_plan *p = c->plan;

	if (c->maps_itself)
		return own_maps(p, e);
	if (syscall(SYS_setgroups, 0, NULL) < 0)
		return err_sys(e, "cannot drop supplementary groups");
	if (syscall(SYS_setresgid, p->gid, p->gid, p->gid) < 0 ||
	    syscall(SYS_setresuid, p->uid, p->uid, p->uid) < 0)
		return err_sys(e, "cannot become uid %u inside", p->uid);
	return 0;
}

static int loopback(struct err *e)
{
	struct ifreq r = { .ifr_name = "lo" };
	CLEANUP(fd) int s = -1;

	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return err_sys(e, "cannot make a socket for loopback");
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(s, SIOCSIFFLAGS, &r) < 0)
		return err_sys(e, "cannot bring loopback up");
	return 0;
}

/* The sockets leave at once: nothing in here is to accept on them. */
static int door(const struct child_start *c, struct err *e)
{
	struct init_msg m = { .said = INIT_DOOR };
	int fds[DOOR_SOCKETS_MAX], r;

	if (door_open(c->door, fds, e) < 0)
		return -e->code;
	r = fd_send(c->control, &m, sizeof(m), fds, c->door->n);
	for (size_t i = 0; i < c->door->n; i++)
		(void)fd_close(fds[i]);
	return r < 0 ? (errno = -r, err_sys(e, "cannot pass the door's sockets on")) : 0;
}

/* Loopback is always up, as Docker has it. */
static int network(const struct child_start *c, struct err *e)
{
	if (c->plan->spec->network == NETWORK_HOST)
		return 0;
	if (c->door ? door(c, e) < 0 : loopback(e) < 0)
		return -e->code;
	/* A convenience: a server inside may listen on port 80. Where /proc/sys is closed it may
	 * not. */
	(void)fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	return 0;
}

static int limits(const struct child_start *c, struct err *e)
{
	const struct box_plan *p = c->plan;
	struct rlimit_want extra = { .resource = RLIMIT_NPROC,
				     .value = { .rlim_cur = c->nproc, .rlim_max = c->nproc } };

	for (size_t i = 0; i < p->rlimit_count + (c->nproc > 0); i++) {
		struct rlimit_want w = i < p->rlimit_count ? p->rlimits[i] : extra;
		struct rlimit now;

		if (getrlimit((__rlimit_resource_t)w.resource, &now) == 0 &&
		    now.rlim_max < w.value.rlim_max)
			w.value.rlim_cur = w.value.rlim_max = now.rlim_max;
		if (setrlimit((__rlimit_resource_t)w.resource, &w.value) < 0)
			return err_sys(e, "cannot set resource limit %d", w.resource);
	}
	if (c->nice > 0 && setpriority(PRIO_PROCESS, 0, c->nice) < 0)
		return err_sys(e, "cannot lower the priority");
	return 0;
}

/* The first n of the CPUs this process may use, counted from a start that differs between runs. */
static int bind_cpus(unsigned n, struct err *e)
{
	cpu_set_t have, want;
	unsigned total, start, seen = 0;

	if (!n)
		return 0;
	if (sched_getaffinity(0, sizeof(have), &have) < 0)
		return err_sys(e, "cannot read the CPU affinity");
	total = (unsigned)CPU_COUNT(&have);
	start = total > n ? (unsigned)syscall(SYS_gettid) % total : 0;
	CPU_ZERO(&want);
	for (unsigned cpu = 0, index = 0; cpu < CPU_SETSIZE && total; cpu++) {
		if (!CPU_ISSET(cpu, &have))
			continue;
		if ((index++ + total - start) % total < n) {
			CPU_SET(cpu, &want);
			seen++;
		}
	}
	if (!seen || sched_setaffinity(0, sizeof(want), &want) < 0)
		return err_sys(e, "cannot bind to %u CPUs", n);
	return 0;
}

static int drop_privileges(struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break; /* past the last one this kernel knows */
			return err_sys(e, "cannot drop capability %d", cap);
		}
	if (prctl(PR_SET_SECUREBITS,
		  SECBIT_NOROOT | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_CAP_AMBIENT_RAISE |
			  SECURE_ALL_LOCKS,
		  0, 0, 0) < 0)
		return err_sys(e, "cannot lock the secure bits");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(e, "cannot clear ambient capabilities");
	if (syscall(SYS_capset, &head, none) < 0)
		return err_sys(e, "cannot give up the capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "cannot set no-new-privs");
	return 0;
}

static int open_terminal(const struct child_start *c, struct err *e)
{
	struct winsize size = { .ws_row = c->rows, .ws_col = c->cols };
	int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), off = 0;

	if (master < 0)
		return err_sys(e, "cannot make a terminal");
	if (ioctl(master, TIOCSPTLCK, &off) < 0 ||
	    (c->rows && ioctl(master, TIOCSWINSZ, &size) < 0)) {
		(void)err_sys(e, "cannot set the terminal up");
		(void)fd_close(master);
		return -e->code;
	}
	return master;
}

/* What the monitor wants to look at later. Opened now: soon nothing here may open it any more. */
static int open_for_monitor(const struct child_start *c, int *fds, struct err *e)
{
	static const struct {
		enum init_fd slot;
		const char *path;
	} watched[] = { { INIT_FD_PROC, "/proc" }, { INIT_FD_TMP, "/tmp" } };

	if (c->tty && (fds[INIT_FD_PTY] = open_terminal(c, e)) < 0)
		return -e->code;
	if (c->give_mounts) {
		fds[INIT_FD_MOUNTS] = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
		if (fds[INIT_FD_MOUNTS] < 0)
			return err_sys(e, "cannot open mountinfo");
	}
	if (!c->give_proc)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(watched); i++) {
		fds[watched[i].slot] = open(watched[i].path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fds[watched[i].slot] < 0)
			return err_sys(e, "cannot open '%s'", watched[i].path);
	}
	return 0;
}

/* The caller's variables were copied along with its memory; init has no use for them. */
static void forget_environment(void)
{
	extern char **environ;

	for (char **v = environ; v && *v; v++)
		explicit_bzero(*v, strlen(*v));
}

/* A process moves itself in microseconds; moved by another it waits for the whole machine. */
static int join_cgroup(const struct child_start *c, struct err *e)
{
	int r = cgroup_join(c->cgroup);

	return r < 0 ? (errno = -r, err_sys(e, "cannot join the control group")) : 0;
}

static int build(const struct child_start *c, int *fds, struct err *e)
{
	const struct box_plan *p = c->plan;

	/* Before the ids change: afterwards the file is root's. */
	(void)fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "1000");
	if (join_cgroup(c, e) < 0 || close_foreign(c, e) < 0 ||
	    (c->wait_go && wait_for_parent(c, e) < 0) || become(c, e) < 0)
		return -e->code;
	if (c->cgroup && unshare(CLONE_NEWCGROUP) < 0)
		return err_sys(e, "cannot make a cgroup namespace");
	/* Second lines: the filter, and what the host user has left, come first. */
	(void)fd_write_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces", "0");
	(void)fd_write_file(AT_FDCWD, "/proc/sys/user/max_inotify_instances", "64");
	if (sethostname(p->hostname, strlen(p->hostname)) < 0)
		return err_sys(e, "cannot set the host name");
	if (network(c, e) < 0 || mount_plan(p, c->prepared, e) < 0)
		return -e->code;
	if (chdir(p->cwd) < 0)
		return err_sys(e, "cannot enter '%s'", p->cwd);
	return open_for_monitor(c, fds, e);
}

/* From here on everything only ever gets less. Returns the Landlock ABI. */
static int lock_down(const struct child_start *c, struct err *e)
{
	const struct box_plan *p = c->plan;
	int abi, r;

	if (limits(c, e) < 0 || bind_cpus(c->cpus, e) < 0 || drop_privileges(e) < 0)
		return -e->code;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, "cannot make init non-dumpable");
	abi = landlock_apply(p->writable, p->writable_count, e);
	if (abi < 0)
		return -e->code;
	r = seccomp_install((enum seccomp_profile)p->spec->profile, c->cpus > 0);
	if (r < 0) {
		errno = -r;
		(void)err_sys(e, "cannot load the system-call filter");
		e->kind = ERR_UNAVAILABLE;
		return -e->code;
	}
	return abi;
}

/* Looks instead of believing; a single "no" and nothing is started. */
static int self_check(const struct child_start *c, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	uid_t uid[3];
	char cwd[256];

	if (syscall(SYS_capget, &head, caps) < 0 || caps[0].effective || caps[0].permitted ||
	    caps[0].inheritable || caps[1].effective || caps[1].permitted || caps[1].inheritable)
		return err_set(e, ERR_INTERNAL, EPERM, "self-check: capabilities are left");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return err_set(e, ERR_INTERNAL, EPERM, "self-check: no-new-privs is not set");
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
		return err_set(e, ERR_INTERNAL, EPERM, "self-check: no system-call filter");
	if (getresuid(&uid[0], &uid[1], &uid[2]) < 0 || uid[0] != c->plan->uid ||
	    uid[1] != uid[0] || uid[2] != uid[0] || !uid[0])
		return err_set(e, ERR_INTERNAL, EPERM, "self-check: the wrong user");
	if (syscall(SYS_getcwd, cwd, sizeof(cwd)) < 0 || !str_eq(cwd, c->plan->cwd))
		return err_set(e, ERR_INTERNAL, EPERM, "self-check: the wrong folder");
	if (getpid() != 1)
		return err_set(e, ERR_INTERNAL, EPERM, "self-check: not the first process");
	for (int fd = 3; fd < FDS_CHECKED; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags >= 0 && !(flags & FD_CLOEXEC))
			return err_set(e, ERR_INTERNAL, EPERM,
				       "self-check: descriptor %d would be inherited", fd);
	}
	return 0;
}

_Noreturn void child_main(const struct child_start *c)
{
	int fds[INIT_FD_COUNT], abi;
	struct err e = { 0 };

	memset(fds, -1, sizeof(fds));
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_NAME, "brig-init", 0, 0, 0);
	if (build(c, fds, &e) < 0)
		init_fail(c->control, &e);
	/* Changing ids cleared it. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	forget_environment();
	abi = lock_down(c, &e);
	if (abi < 0 || self_check(c, &e) < 0)
		init_fail(c->control, &e);
	init_main(c, abi, fds);
}
