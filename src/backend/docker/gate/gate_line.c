/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/gate/gate_line.c - the commands of a container that stays open, in its gate.
 *
 * As init does on native, the gate stands over them (proc/commands.h). It is the first process of
 * its namespace, so nothing inside can signal it, and it cannot be looked into; the line is its own
 * and no reaper's. When the guard hangs up it leaves, and the kernel ends the rest. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "backend/docker/gate/gate.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "model/settings/spec.h"
#include "proc/agent_socket.h"
#include "proc/commands.h"
#include "proc/lend.h"
#include "proc/spawn.h"

#define SIGNALS 64

/* Once all was compared: it lies where an engine must have put nothing. */
static int say_ready(int fd, const struct gate_want *w, struct err *e)
{
	CLEANUP(fd) int agent = w->agent ? agent_socket_make(SSH_AGENT_INSIDE, e) : -1;
	struct supervisor_msg m = { .said = SUPERVISOR_READY };
	int r;

	if (w->agent && agent < 0)
		return -e->code;
	memcpy(m.text, w->secret, sizeof(w->secret));
	r = fd_send(fd, &m, sizeof(m), &agent, w->agent ? 1 : 0);
	explicit_bzero(&m, sizeof(m));
	return r < 0 ? err_sys(e, "cannot speak to brig") : 0;
}

int gate_reach(const struct gate_want *w, const char *own, struct gate_line *ret, struct err *e)
{
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s%s", own, GATE_LINE);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0) {
		(void)err_sys(e, "the container cannot reach brig");
		return err_hint(e,
				"a sandbox that stays open, has ports or an ssh-agent needs a "
				"socket in its container, which the engine or its SELinux policy "
				"does not let through");
	}
	if (w->open && commands_new(&ret->commands, e) < 0)
		return -e->code;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, "cannot keep the commands from looking into what starts them");
	if (say_ready(fd, w, e) < 0)
		return -e->code;
	ret->fd = TAKE_FD(fd);
	return 0;
}

static void on_child(int sig)
{
	(void)sig; /* only there to interrupt ppoll */
}

/* Signals that nobody handles do not reach the first process of a namespace, from inside. */
static void listen_to_children(void)
{
	const struct sigaction sa = { .sa_handler = on_child, .sa_flags = SA_NOCLDSTOP };
	sigset_t child;

	proc_default_signals();
	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	(void)sigaction(SIGCHLD, &sa, NULL);
	(void)sigprocmask(SIG_SETMASK, &child, NULL);
}

static void gate_line_answer(const struct command_terms *c, struct commands *t)
{
	struct supervisor_packet p;
	struct command_ask a;
	const struct supervisor_request *r = &a.r;

	if (commands_hear(c->control, &p, &a) < 0)
		_exit(0); /* the guard is gone */
	if (r->asks == ASK_EXEC)
		commands_exec(t, c, &a);
	else if (r->asks == ASK_SIGNAL && r->signal > 0 && r->signal <= SIGNALS)
		commands_signal(t, c, r->command, r->signal);
	else if (r->asks == ASK_SOCKETS)
		lend_sockets(c->control);
}

bool gate_answer(int line)
{
	struct supervisor_request r;

	ssize_t n = recv(line, &r, sizeof(r), MSG_DONTWAIT);

	if (n == (ssize_t)sizeof(r) && r.asks == ASK_SOCKETS)
		lend_sockets(line);
	return n == (ssize_t)sizeof(r) || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

_Noreturn void gate_serve_line(const struct gate_line *l)
{
	const struct command_terms terms = { .control = l->fd,
					     .inside = true,
					     .envp = (const char *const *)environ };
	struct pollfd p = { .fd = l->fd, .events = POLLIN };
	sigset_t none;

	listen_to_children();
	if (proc_leave_streams() < 0)
		_exit(GATE_REFUSED);
	(void)sigemptyset(&none);
	for (;;) {
		int ms = commands_turn(l->commands, &terms), n;
		const struct timespec wait = { .tv_nsec = (long)ms * 1000 * 1000 };

		if (ms == -ETIME)
			_exit(GATE_REFUSED); /* and the kernel ends the rest */
		/* A child that ends has to end this. */
		n = ppoll(&p, 1, ms < 0 ? NULL : &wait, &none); /* allow ppoll: as above */
		if (n < 0 && errno != EINTR)
			_exit(GATE_REFUSED);
		if (n > 0)
			gate_line_answer(&terms, l->commands);
	}
}
