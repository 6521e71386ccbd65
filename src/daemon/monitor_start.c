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
#include <sys/un.h>

#include "base/fd.h"
#include "daemon/monitor_internal.h"
#include "proc/spawn.h"

enum { ABOVE = MONITOR_FD_END + 1 };

static _Noreturn void become(const int *fds, size_t n, char *const *argv)
{
	proc_default_signals();
	proc_unblock_signals();
	(void)setsid();
	if (proc_leave_streams() < 0 || chdir("/") < 0)
		_exit(126);
	for (size_t i = 0; i < n; i++)
		if (dup2(fds[i], MONITOR_FD_FOLDER + (int)i) < 0)
			_exit(126);
	(void)fd_close_range(MONITOR_FD_FOLDER + (int)n, INT32_MAX);
	(void)execve("/proc/self/exe", argv, environ);
	_exit(127);
}

/* The copies are above the numbers that they go to. */
static int start(const int *fds, size_t n, char *const *argv, int *pidfd, struct err *e)
{
	int copies[MONITOR_FD_END - MONITOR_FD_FOLDER];
	int failed = 0;
	pid_t pid = -1;

	for (size_t i = 0; i < n; i++) {
		copies[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, ABOVE);
		failed = copies[i] < 0 ? errno : failed;
	}
	if (!failed)
		pid = proc_fork(pidfd);
	if (pid == 0)
		become(copies, n, argv);
	if (pid < 0 && !failed)
		failed = errno;
	for (size_t i = 0; i < n; i++)
		(void)fd_close(copies[i]);
	return failed ? err_errno(e, failed, "cannot start a monitor") : 0;
}

int monitor_start(int folder, const char *id, int *ret, int *pidfd, struct err *e)
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
	if (start((const int[]){ folder, there }, 2, argv, pidfd, e) < 0)
		return -e->code;
	*ret = TAKE_FD(here);
	return 0;
}

int monitor_start_tidy(int *pidfd, struct err *e)
{
	char name[] = MONITOR_NAME, word[] = MONITOR_TIDIES;
	char *const argv[] = { name, word, NULL };

	return start(NULL, 0, argv, pidfd, e);
}

void monitor_address(int folder, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/" MONITOR_SOCKET,
		       folder);
}

/* Who listens there is who called listen. */
int monitor_connect(int folder, int *ret, int *pidfd)
{
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at;
	struct ucred peer;
	socklen_t n = sizeof(peer);
	int pid;

	monitor_address(folder, &at);
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
