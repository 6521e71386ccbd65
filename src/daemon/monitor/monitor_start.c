/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_start.c - the daemon's side of a monitor: to start one, or to find it
 * again.
 *
 * A monitor is executed, not only forked: nothing of the daemon's memory, where other tenants'
 * sandboxes are, is in it or in what it clones into a sandbox. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/files/fd.h"
#include "base/sys/sockets.h"
#include "daemon/monitor/monitor_internal.h"
#include "proc/host_program.h"

static int monitor_start_program(const int *fds, size_t n, int low, const char *const *argv,
				 int *pidfd, struct err *e)
{
	pid_t unused;

	return host_start(&(struct host_program){ .program = "/proc/self/exe",
						  .argv = argv,
						  .envp = (const char *const *)environ,
						  .fds = fds,
						  .fd_count = n,
						  .low = low,
						  .session = true,
						  .own = true },
			  &unused, pidfd, e);
}

int monitor_start(int folder, int sockets, int low, const char *id, int *ret, int *pidfd,
		  struct err *e)
{
	CLEANUP(fd) int here = -1, there = -1;
	char name[] = MONITOR_NAME, text[SANDBOX_ID_SIZE];
	const char *const argv[] = { name, text, NULL };
	int pair[2];

	(void)snprintf(text, sizeof(text), "%s", id);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(e, "cannot make a socket pair");
	here = pair[0];
	there = pair[1];
	if (monitor_start_program((const int[]){ folder, there, sockets }, 3, low, argv, pidfd, e) <
	    0)
		return -e->code;
	*ret = TAKE_FD(here);
	return 0;
}

int monitor_start_tidy(int folder, int low, bool lost, int *pidfd, struct err *e)
{
	const char *const argv[] = { MONITOR_NAME, lost ? MONITOR_TIDIES : MONITOR_CLEARS, NULL };

	return monitor_start_program(&folder, 1, low, argv, pidfd, e);
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
