/* SPDX-License-Identifier: Apache-2.0 */
/* remote/hold_attach.c - brig-attach: the side of hold.h that asks. */
#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/sys/sockets.h"
#include "proc/order.h"
#include "remote/hold.h"
#include "wire/peer.h"

#define TELL_MS 3000

static int no_sandbox(struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ECHILD, "open another one", "the sandbox has ended");
}

static int hold_attach_find(const char *name, int *ret, struct err *e)
{
	CLEANUP(fd) int folder = state_find(HOLD_STATE, NULL, 0);
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un at;
	const char *why;

	(void)prctl(PR_SET_NAME, "brig-attach", 0, 0, 0);
	if (folder < 0)
		return no_sandbox(e);
	socket_address(folder, name, &at);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return no_sandbox(e);
	why = peer_distrust(fd);
	if (why)
		return err_set(e, ERR_POLICY, EPERM, "%s", why);
	*ret = TAKE_FD(fd);
	return 0;
}

/* What is said, with the descriptor that comes along or -1; in `ms`, -1: for ever. */
static int hold_attach_hear(int fd, int ms, struct hold_say *s, int *report, struct err *e)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 1;
	int r;

	*report = -1;
	while ((r = poll(&p, 1, ms)) < 0 && errno == EINTR)
		;
	if (r == 0)
		return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "the sandbox does not answer");
	if (fd_recv(fd, s, sizeof(*s), report, &n) != (ssize_t)sizeof(*s))
		return no_sandbox(e);
	if (s->version == HOLD_VERSION && s->says != HOLD_UNKNOWN)
		return 0;
	*report = fd_close(*report);
	return err_set(e, ERR_UNAVAILABLE, ESRCH, "the sandbox knows no such command");
}

static int copy_report(int from, int to, struct err *e)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0)
		return err_sys(e, "cannot read the report");
	while (at < st.st_size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_sys(e, "cannot pass the report on");
	}
	return 0;
}

int hold_exec(const char *name, const struct hold_ask *q, const struct order *o, int report,
	      struct err *e)
{
	CLEANUP(fd) int fd = -1, order = -1, said = -1;
	struct hold_say s;
	int r;

	if (hold_attach_find(name, &fd, e) < 0 || order_make(o, &order, e) < 0)
		return -e->code;
	r = fd_send(fd, q, sizeof(*q),
		    (const int[]){ order, STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO }, 4);
	if (r < 0)
		return no_sandbox(e);
	if (hold_attach_hear(fd, -1, &s, &said, e) < 0)
		return -e->code;
	return s.says == HOLD_ENDED && said >= 0
		       ? copy_report(said, report, e)
		       : err_set(e, ERR_INTERNAL, EPROTO, "the sandbox sent no report");
}

int hold_tell(const char *name, const struct hold_ask *q, struct err *e)
{
	CLEANUP(fd) int fd = -1, unused = -1;
	struct hold_say s;

	if (hold_attach_find(name, &fd, e) < 0)
		return -e->code;
	return fd_send(fd, q, sizeof(*q), NULL, 0) < 0
		       ? no_sandbox(e)
		       : hold_attach_hear(fd, TELL_MS, &s, &unused, e);
}
