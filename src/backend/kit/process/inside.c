/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/process/inside.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "backend/kit/limits/sockmem.h"
#include "backend/kit/limits/sysctl.h"
#include "backend/kit/net/door_net.h"
#include "backend/kit/net/rtnl.h"
#include "backend/kit/process/locked.h"
#include "backend/kit/seccomp/seccomp.h"
#include "base/text/str.h"
#include "model/settings/paths.h"
#include "proc/agent_socket.h"
#include "proc/confine.h"

#define FDS_CHECKED 32 /* everything inherited was closed, so ours are the lowest numbers */

/* The lowest of ours that is not below `from`; INT32_MAX: none. */
static int next_kept(const struct inside *c, const int *more, size_t n, int from)
{
	const int own[] = { c->control, c->in, c->out, c->err };
	int best = INT32_MAX;

	for (size_t i = 0; i < ARRAY_LEN(own) + n; i++) {
		int fd = i < ARRAY_LEN(own) ? own[i] : more[i - ARRAY_LEN(own)];

		if (fd >= from && fd < best)
			best = fd;
	}
	return best;
}

int inside_close(const struct inside *c, const int *more, size_t n, struct err *e)
{
	int from = STDERR_FILENO + 1, r = 0;

	while (r == 0 && from < INT32_MAX) {
		int kept = next_kept(c, more, n, from);

		if (kept > from)
			r = fd_close_range(from, kept == INT32_MAX ? INT32_MAX : kept - 1);
		from = kept < INT32_MAX ? kept + 1 : INT32_MAX;
	}
	return r < 0 ? err_errno(e, r, "cannot close inherited descriptors") : 0;
}

/* To the first n of the CPUs that this process may use, counted from a start that differs between
 * runs. Nothing if n is 0. */
static int bind_to_cpus(unsigned n, struct err *e)
{
	cpu_set_t have, want;
	unsigned total, start, seen = 0;

	if (!n)
		return 0;
	if (sched_getaffinity(0, sizeof(have), &have) < 0)
		return err_sys(e, "cannot read the CPU affinity");
	total = (unsigned)CPU_COUNT(&have);
	if (!total)
		return err_set(e, ERR_INTERNAL, EINVAL, "no CPU may be used");
	start = total > n ? (unsigned)syscall(SYS_gettid) % total : 0;
	CPU_ZERO(&want);
	for (unsigned cpu = 0, index = 0; cpu < CPU_SETSIZE; cpu++) {
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

static int set_limit(struct rlimit_want w)
{
	struct rlimit now;

	if (getrlimit((__rlimit_resource_t)w.resource, &now) == 0 &&
	    now.rlim_max < w.value.rlim_max)
		w.value.rlim_cur = w.value.rlim_max = now.rlim_max;
	return setrlimit((__rlimit_resource_t)w.resource, &w.value) < 0 ? -errno : 0;
}

int inside_files(const struct inside *c)
{
	for (size_t i = 0; i < c->rlimit_count; i++)
		if (c->rlimits[i].resource == RLIMIT_NOFILE)
			return set_limit(c->rlimits[i]);
	return 0;
}

static int inside_limits(const struct inside *c, struct err *e)
{
	struct rlimit_want extra = { .resource = RLIMIT_NPROC,
				     .value = { .rlim_cur = c->nproc, .rlim_max = c->nproc } };

	for (size_t i = 0; i < c->rlimit_count + (c->nproc > 0); i++) {
		struct rlimit_want w = i < c->rlimit_count ? c->rlimits[i] : extra;
		int r = w.resource == RLIMIT_NOFILE ? 0 : set_limit(w);

		if (r < 0)
			return err_errno(e, r, "cannot set resource limit %d", w.resource);
	}
	/* Who started brig may have lowered it further: nobody may raise it again. Who raised it
	 * above the ordinary did so for brig: a sandbox does not go before everybody else. */
	if (c->nice > getpriority(PRIO_PROCESS, 0) && setpriority(PRIO_PROCESS, 0, c->nice) < 0)
		return err_sys(e, "cannot lower the priority");
	return bind_to_cpus(c->cpus, e);
}

static int open_terminal(const struct inside *c, struct err *e)
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

static int inside_open_folder(const char *path, int *fd, struct err *e)
{
	*fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *fd < 0 ? err_sys(e, "cannot open '%s'", path) : 0;
}

int inside_wait(const struct inside *c, struct err *e)
{
	struct supervisor_request go;
	ssize_t n;

	do
		n = recv(c->control, &go, sizeof(go), 0);
	while (n < 0 && errno == EINTR);
	return n == sizeof(go) ? 0 : err_set(e, ERR_INTERNAL, EPIPE, "the monitor went away");
}

int inside_permit(const struct inside *c, struct err *e)
{
	struct supervisor_msg ready = { .said = SUPERVISOR_READY };
	int r = c->wait_door ? fd_send(c->control, &ready, sizeof(ready), NULL, 0) : 0;

	if (r < 0)
		return err_errno(e, r, "cannot ask for the door");
	if (c->wait_door && inside_wait(c, e) < 0)
		return -e->code;
	return c->wait_permit ? inside_wait(c, e) : 0;
}

int inside_count(const struct inside *c, int *fds, struct err *e)
{
	if (!c->count_written)
		return 0;
	fds[INIT_FD_IO] = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	if (fds[INIT_FD_IO] >= 0)
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, errno, "leave --disk out",
			  "disk writes cannot be limited here: the kernel does not count them");
}

int inside_sockets(const struct inside *c, int *fds, struct err *e)
{
	/* Missing where another's filter is in force already: the result says `partial` anyway. */
	if (c->give_diag)
		fds[INIT_FD_DIAG] = sockmem_open();
	if (c->give_names)
		fds[INIT_FD_NAMES] = door_names();
	if (c->give_routes && (fds[INIT_FD_ROUTES] = rtnl_open()) < 0)
		return err_errno(e, fds[INIT_FD_ROUTES], "cannot open a routing socket");
	return 0;
}

int inside_lock(int proc, bool *entered, struct err *e)
{
	if (locked_enter(proc, entered, e) < 0)
		return -e->code;
	sysctl_user_limits(proc);
	(void)fd_write_file(proc, "sys/user/max_user_namespaces", "0");
	return 0;
}

int inside_open(const struct inside *c, int *fds, struct err *e)
{
	if (c->tty && (fds[INIT_FD_PTY] = open_terminal(c, e)) < 0)
		return -e->code;
	if (c->give_mounts) {
		fds[INIT_FD_MOUNTS] = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
		if (c->open)
			fds[INIT_FD_NEWS] = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
		if (fds[INIT_FD_MOUNTS] < 0 || (c->open && fds[INIT_FD_NEWS] < 0))
			return err_sys(e, "cannot open mountinfo");
		fds[INIT_FD_SPACE] = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	}
	if (c->give_agent && (fds[INIT_FD_AGENT] = agent_socket_make(SSH_AGENT_INSIDE, e)) < 0)
		return -e->code;
	if (!c->give_proc)
		return 0;
	if (c->give_diag)
		fds[INIT_FD_NET] = open("/proc/self/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (inside_open_folder("/proc", &fds[INIT_FD_PROC], e) < 0)
		return -e->code;
	for (size_t i = 0; i < c->tmpfs_count; i++)
		if (inside_open_folder(c->tmpfs[i], &fds[(size_t)INIT_FD_TMP + i], e) < 0)
			return -e->code;
	return 0;
}

/* One listener is all that the kernel lets a process have above it: within another sandbox of
 * brig's there is none, and names and memory stay closed; where brig learns the listener is its
 * own. */
static int filter(const struct inside *c, int *fds, struct err *e)
{
	int r;

	if (c->watch)
		fds[INIT_FD_WATCH] = seccomp_watch();
	else if (fds[INIT_FD_PROCS] >= 0)
		fds[INIT_FD_LISTENER] = seccomp_listen(c->gpus);
	r = seccomp_install((enum seccomp_profile)c->profile, c->cpus > 0);

	if (r == 0)
		return 0;
	(void)err_errno(e, r, "cannot load the system-call filter");
	return err_kind(e, ERR_UNAVAILABLE);
}

/* Under the strict profile no socket is made in a tree of the host's: two runs would hand each
 * other descriptors there. A rule is for all that lies below, so that a tree of the host's in a
 * folder of the run's own has the rights of both. */
static uint64_t no_sockets(const struct inside *c)
{
	uint64_t none = 0;

	for (size_t i = 0; i < c->writable_count && i < WRITABLE_BITS; i++)
		for (size_t k = 0; k < c->writable_count; k++)
			if ((k >= WRITABLE_BITS || c->writable_host >> k & 1) &&
			    path_under(c->writable[k], c->writable[i]))
				none |= (uint64_t)1 << i;
	return c->profile == SECCOMP_STRICT ? none : 0;
}

int inside_lock_down(const struct inside *c, int *fds, struct err *e)
{
	const struct confine_want files = { .writable = c->writable,
					    .writable_count = c->writable_count,
					    .no_sockets = no_sockets(c),
					    .procs = fds[INIT_FD_PROCS] };
	int abi = landlock_abi();

	if (inside_limits(c, e) < 0 || (!c->unlocked && locked_drop(e) < 0))
		return -e->code;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, "cannot make init non-dumpable");
	return confine(CONFINE_COMMAND, &files, e) < 0 || filter(c, fds, e) < 0 ? -e->code : abi;
}

int inside_check(const struct inside *c, struct err *e)
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
	if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return err_set(e, ERR_INTERNAL, EPERM, "self-check: init can be looked into");
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
		return err_set(e, ERR_INTERNAL, EPERM, "self-check: no system-call filter");
	if (getresuid(&uid[0], &uid[1], &uid[2]) < 0 || uid[0] != c->uid || uid[1] != uid[0] ||
	    uid[2] != uid[0] || !uid[0])
		return err_set(e, ERR_INTERNAL, EPERM, "self-check: the wrong user");
	if (syscall(SYS_getcwd, cwd, sizeof(cwd)) < 0 || !str_eq(cwd, c->cwd))
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
