/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor_start.c - the daemon's side of a monitor: to start one, or to find it again.
 *
 * A monitor is executed, not only forked: nothing of the daemon's memory, where other tenants'
 * sandboxes are, is in it or in what it clones into a sandbox. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/sockets.h"
#include "daemon/monitor_internal.h"
#include "proc/spawn.h"

enum { ABOVE = MONITOR_FD_END + 1 };

/* Runs in the daemon's memory until it execs. What the daemon listens on is let go of first: one
 * that is killed meanwhile can be started again. */
static _Noreturn void become(const int *fds, size_t n, char *const *argv)
{
	for (size_t i = 0; i < n; i++)
		if (dup2(fds[i], MONITOR_FD_FOLDER + (int)i) < 0)
			_exit(126);
	(void)fd_close_range(MONITOR_FD_FOLDER + (int)n, INT32_MAX);
	proc_default_signals();
	proc_unblock_signals();
	(void)setsid();
	if (proc_leave_streams() < 0 || chdir("/") < 0)
		_exit(126);
	(void)execve("/proc/self/exe", argv, environ);
	_exit(127);
}

/* Its pidfd, or -1 with errno. */
static int spawn(const int *fds, size_t n, char *const *argv)
{
	sigset_t all, old;
	pid_t pid;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old);
	pid = vfork(); /* allow vfork: the daemon has one thread, the child only execs */
	if (pid == 0)
		become(fds, n, argv);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
}

/* The copies are above the numbers that they go to. */
static int start(const int *fds, size_t n, char *const *argv, int *pidfd, struct err *e)
{
	int copies[MONITOR_FD_END - MONITOR_FD_FOLDER] = { 0 };
	int failed = 0;

	for (size_t i = 0; i < n; i++) {
		copies[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, ABOVE);
		failed = copies[i] < 0 ? errno : failed;
	}
	if (!failed) {
		*pidfd = spawn(copies, n, argv);
		failed = *pidfd < 0 ? errno : 0;
	}
	for (size_t i = 0; i < n; i++)
		(void)fd_close(copies[i]);
	return failed ? err_errno(e, failed, "cannot start a monitor") : 0;
}

int monitor_start(int folder, int sockets, const char *id, int *ret, int *pidfd, struct err *e)
{
	CLEANUP(fd) int here = -1, there = -1;
	char name[] = MONITOR_NAME, text[SANDBOX_ID_SIZE];
	char *const argv[] = { name, text, NULL };
	int pair[2];

	(void)snprintf(text, sizeof(text), "%s", id);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(e, "cannot make a socket pair");
	here = pair[0];
	there = pair[1];
	if (start((const int[]){ folder, there, sockets }, 3, argv, pidfd, e) < 0)
		return -e->code;
	*ret = TAKE_FD(here);
	return 0;
}

int monitor_start_tidy(int folder, int *pidfd, struct err *e)
{
	char name[] = MONITOR_NAME, word[] = MONITOR_TIDIES;
	char *const argv[] = { name, word, NULL };

	return start(&folder, 1, argv, pidfd, e);
}

/* Who listens there is who called listen. */
int monitor_connect(int sockets, const char *id, int *ret, int *pidfd)
{
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at;
	struct ucred peer;
	socklen_t n = sizeof(peer);
	int pid;

	socket_address(sockets, id, &at);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return -errno;
	if (peer.uid != geteuid() || peer.pid <= 0)
		return -EPERM;
	pid = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	if (pid < 0)
		return -errno;
	*pidfd = pid;
	*ret = TAKE_FD(fd);
	return 0;
}
