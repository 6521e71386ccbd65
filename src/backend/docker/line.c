/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/line.c - the line to the gate of a container that stays open, in the guard.
 *
 *     listen ─▶ the container is made and started ─▶ its gate connects, says its secret ─▶ nobody
 *     else can
 *
 * The socket's name is shown in the container, under the gate's own random one, because an engine
 * passes no descriptors on. Only the gate is there when somebody listens; from then on whoever
 * connects is refused by the kernel, and the line itself is the gate's alone. brig's requests go to
 * the gate as they come, with their descriptors; of what the gate says only words about commands go
 * on to brig, sockets that it lends, and terminals that it makes. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "backend/docker/guard.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/sockets.h"

#define PATIENCE_US 6000000 /* with a command that was killed; the gate itself has half of it */

static void line_name_of(const struct guard *g, const char *what, char name[64])
{
	(void)snprintf(name, 64, "%.32s.%s", g->s->id, what);
}

/* Its folder is the caller's alone; its own mode lets in whoever the container runs as. */
int guard_listen(const struct guard *g, const char *what, int *ret, struct err *e)
{
	struct sockaddr_un at;
	char name[64];
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	line_name_of(g, what, name);
	socket_address(g->ledger.dir, name, &at);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    fchmodat(g->ledger.dir, name, 0666, 0) < 0 || listen(fd, 1) < 0)
		return err_sys(e, "cannot make a socket in '%s'", g->ledger.path);
	*ret = TAKE_FD(fd);
	return 0;
}

int line_other_kernel(const struct backend_plan *p, struct err *e)
{
	const char *runtime = p->runtime ? p->runtime : "of the engine's choice";

	if (p->publishes)
		return err_refuse(
			e, ERR_UNAVAILABLE, ENOTSUP, "use runtime runc",
			"ports cannot be published with runtime '%.64s': its kernel gives "
			"no sockets to this one",
			runtime);
	if (p->box->signing)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "use runtime runc",
				  "--ssh-agent is not available with runtime '%.64s': its kernel "
				  "gives no sockets to this one",
				  runtime);
	return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
			  "use runtime runc, or run each command by itself",
			  "a sandbox cannot stay open with runtime '%.64s': its kernel takes no "
			  "descriptors from this one",
			  runtime);
}

int line_listen(struct guard *g, struct err *e)
{
	return guard_listen(g, "line", &g->listener, e);
}

static int nonsense(struct err *e)
{
	return err_set(e, ERR_INTERNAL, EPROTO, "a process other than the gate was on its line");
}

/* What came along with its first word: the one socket that was asked for, or nothing. */
static int pass_agent(const struct guard *g, int fd, struct err *e)
{
	const struct supervisor_msg m = { .said = SUPERVISOR_AGENT };
	int r;

	if (!g->plan->box->signing)
		return 0;
	r = fd < 0 ? -EBADF : fd_send(g->s->control, &m, sizeof(m), &fd, 1);
	return r < 0 ? err_errno(e, r, "cannot pass the agent's socket on") : 0;
}

/* The gate has connected and spoken before it answered: there is nothing to wait for. */
int line_take(struct guard *g, struct err *e)
{
	CLEANUP(fd) int line = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	socklen_t size = sizeof(g->inside);
	CLEANUP(fd) int agent = -1;
	struct supervisor_msg m;
	char name[64];
	size_t one = 1;

	g->listener = fd_close(g->listener);
	line_name_of(g, "line", name);
	(void)unlinkat(g->ledger.dir, name, 0);
	if (line < 0 || getsockopt(line, SOL_SOCKET, SO_PEERCRED, &g->inside, &size) < 0)
		return err_sys(e, "cannot reach the container's gate");
	if (fd_recv(line, &m, sizeof(m), &agent, &one) != (ssize_t)sizeof(m) ||
	    m.said != SUPERVISOR_READY || memcmp(m.text, g->secret, GATE_SECRET) != 0)
		return nonsense(e);
	g->line = TAKE_FD(line);
	return pass_agent(g, agent, e);
}

static struct guard_command *command_of(struct guard *g, uint32_t number)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (g->commands[i].number == number)
			return &g->commands[i];
	return NULL;
}

/* What has ended is not waited for: only the gate's own word ends the count. */
static void line_count_request(struct guard *g, const struct supervisor_request *r)
{
	struct guard_command *c = command_of(g, r->asks == ASK_EXEC ? COMMAND_FIRST : r->command);

	if (!c || r->command == COMMAND_FIRST)
		return;
	if (r->asks == ASK_EXEC)
		*c = (struct guard_command){ .number = r->command };
	else if (r->asks == ASK_SIGNAL && r->signal == SIGKILL && !c->give_up_at)
		c->give_up_at = clock_us() + PATIENCE_US;
}

bool line_is_late(const struct guard *g)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (g->commands[i].give_up_at && clock_us() > g->commands[i].give_up_at)
			return true;
	return false;
}

bool line_waits(const struct guard *g)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (g->commands[i].give_up_at)
			return true;
	return false;
}

int line_pass_on(struct guard *g, const struct supervisor_request *r, const int *fds, size_t n)
{
	line_count_request(g, r);
	/* The command may open its streams by name, as it could if the engine had made them. */
	for (size_t i = 1; i < n && geteuid() == 0; i++)
		(void)!fchown(fds[i], g->inside.uid, g->inside.gid);
	return g->line < 0 ? -ENOTCONN : fd_send(g->line, r, sizeof(*r), fds, n);
}

static bool is_of_commands(const struct supervisor_msg *m)
{
	return m->command != COMMAND_FIRST &&
	       (m->said == SUPERVISOR_FAILED || m->said == SUPERVISOR_STARTED ||
		m->said == SUPERVISOR_EXITED || m->said == SUPERVISOR_ENDED);
}

/* brig looks at what they are. */
static void pass_sockets(const struct guard *g, int *fds, size_t n)
{
	const struct supervisor_msg m = { .said = SUPERVISOR_SOCKETS };

	if (fd_send(g->s->control, &m, sizeof(m), fds, n) < 0)
		(void)fd_send(g->s->control, &m, sizeof(m), NULL, 0);
}

/* The master of a terminal that the gate has made; its other end never leaves the container. */
static void pass_terminal(struct guard *g, const struct supervisor_msg *said, int *fds, size_t n)
{
	const struct supervisor_msg m = { .said = SUPERVISOR_TERMINAL, .command = said->command };

	if (n == 1 && said->command != COMMAND_FIRST && command_of(g, said->command) &&
	    isatty(fds[0]))
		(void)fd_send(g->s->control, &m, sizeof(m), fds, 1);
}

bool line_hear(struct guard *g)
{
	for (;;) {
		struct supervisor_msg said, m;
		int fds[LEND_FDS];
		size_t count = LEND_FDS;
		ssize_t n = fd_recv(g->line, &said, sizeof(said), fds, &count);

		if (n == -EAGAIN)
			return true;
		if (n == (ssize_t)sizeof(said) && said.said == SUPERVISOR_SOCKETS)
			pass_sockets(g, fds, count);
		if (n == (ssize_t)sizeof(said) && said.said == SUPERVISOR_TERMINAL)
			pass_terminal(g, &said, fds, count);
		while (count)
			(void)fd_close(fds[--count]);
		if (n != (ssize_t)sizeof(said))
			return false;
		if (!is_of_commands(&said))
			continue;
		m = (struct supervisor_msg){ .said = said.said,
					     .command = said.command,
					     .status = said.status,
					     .at = said.at,
					     .started = said.started };
		guard_take_words(&m.err, &said.err);
		if (said.said == SUPERVISOR_ENDED && command_of(g, said.command))
			*command_of(g, said.command) = (struct guard_command){ 0 };
		/* The kernel counts a process before it kills it. */
		guard_read_hits(g);
		m.container.oom = g->end.container.oom;
		(void)fd_send(g->s->control, &m, sizeof(m), NULL, 0);
	}
}

void line_leave(struct guard *g)
{
	g->listener = fd_close(g->listener);
	g->line = fd_close(g->line);
}
