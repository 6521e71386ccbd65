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
#include "proc/spawn.h"

static const struct monitor_ends no_ends = { { -1, -1 }, -1, { -1, -1 } };

static void close_ends(struct monitor_ends *x)
{
	int *const all[] = { &x->client[0], &x->client[1], &x->listener, &x->line[0], &x->line[1] };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		*all[i] = fd_close(*all[i]);
}

static int make_ends(struct monitor_ends *x)
{
	const int type = SOCK_SEQPACKET | SOCK_CLOEXEC, whole = type | SOCK_NONBLOCK;
	int r;

	*x = no_ends;
	if (socketpair(AF_UNIX, whole, 0, x->client) == 0 &&
	    socketpair(AF_UNIX, type, 0, x->line) == 0 &&
	    (x->listener = socket(AF_UNIX, whole, 0)) >= 0)
		return 0;
	r = -errno;
	close_ends(x);
	return r;
}

static int make_ready(void *arg)
{
	struct monitors *m = arg;
	int r = 0;

	while (r == 0 && m->ready < ARRAY_LEN(m->ends)) {
		r = make_ends(&m->ends[m->ready]);
		m->ready += r == 0;
	}
	return m->ready ? 0 : r;
}

static int take_ends(struct monitors *m, struct monitor_ends *ret)
{
	int r = m->ready ? 0 : proc_in_network(make_ready, m);

	if (r == 0)
		*ret = m->ends[--m->ready];
	return r;
}

void monitors_init(struct monitors *m, int folder)
{
	*m = (struct monitors){ .folder = folder, .low = host_reserve() };
}

void monitors_done(struct monitors *m)
{
	while (m->ready)
		close_ends(&m->ends[--m->ready]);
	host_release(m->low);
}

static int monitor_start_program(const int *fds, size_t n, const struct monitors *m,
				 const char *const *argv, int *pidfd, struct err *e)
{
	pid_t unused;

	return host_start(&(struct host_program){ .program = "/proc/self/exe",
						  .argv = argv,
						  .envp = (const char *const *)environ,
						  .fds = fds,
						  .fd_count = n,
						  .low = m->low,
						  .session = true,
						  .own = true },
			  &unused, pidfd, e);
}

int monitor_start(int folder, struct monitors *m, const char *id, int *ret, int *pidfd,
		  struct err *e)
{
	char name[] = MONITOR_NAME, text[SANDBOX_ID_SIZE];
	const char *const argv[] = { name, text, NULL };
	struct monitor_ends x;
	int r = take_ends(m, &x);

	(void)snprintf(text, sizeof(text), "%s", id);
	if (r < 0)
		return err_errno(e, r, "cannot make sockets for the monitor");
	r = monitor_start_program(
		(const int[]){ folder, x.client[1], m->folder, x.listener, x.line[0], x.line[1] },
		6, m, argv, pidfd, e);
	if (r == 0)
		*ret = TAKE_FD(x.client[0]);
	close_ends(&x);
	return r;
}

int monitor_start_tidy(int folder, const struct monitors *m, bool lost, int *pidfd, struct err *e)
{
	const char *const argv[] = { MONITOR_NAME, lost ? MONITOR_TIDIES : MONITOR_CLEARS, NULL };

	return monitor_start_program(&folder, 1, m, argv, pidfd, e);
}

/* Who listens there is who called listen. */
int monitor_connect(struct monitors *m, int folder, const char *name, int *ret, int *pidfd)
{
	CLEANUP(fd) int fd = -1;
	struct monitor_ends x;
	struct sockaddr_un at;
	struct ucred peer;
	socklen_t n = sizeof(peer);
	int pid, r = take_ends(m, &x);

	if (r < 0)
		return r;
	fd = TAKE_FD(x.listener);
	close_ends(&x);
	socket_address(folder, name, &at);
	if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
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
