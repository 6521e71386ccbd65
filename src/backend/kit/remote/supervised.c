/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/remote/supervised.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "proc/spawn.h"

int supervised_fork(struct err *e)
{
	int r = proc_fork_away(true);

	return r < 0 ? err_sys(e, "cannot start a process") : r;
}

void supervised_ask(const struct supervised *s, uint32_t command, int sig)
{
	const struct supervisor_request r = { .asks = ASK_SIGNAL,
					      .command = command,
					      .signal = sig };

	(void)fd_send(s->control, &r, sizeof(r), NULL, 0);
}

static void supervised_take(struct supervised *s, const struct supervisor_msg *m, int *fds,
			    size_t n)
{
	if (m->said == SUPERVISOR_TERMINAL && n == 1 && s->commands) {
		command_terminal(s->commands, m->command, TAKE_FD(fds[0]));
		return;
	}
	if (s->kind->heard)
		s->kind->heard(s, m, fds, n);
	if (m->command != COMMAND_FIRST) {
		command_said(s->commands, m);
		return;
	}
	s->told |= m->said == SUPERVISOR_ENDED || m->said == SUPERVISOR_FAILED;
	if (m->said == SUPERVISOR_ENDED) {
		s->end = *m;
		s->ended = true;
	}
}

int supervised_hear(struct supervised *s, struct supervisor_msg *m)
{
	int fds[DOOR_SOCKETS_MAX];
	size_t n = ARRAY_LEN(fds);
	ssize_t got = fd_recv(s->control, m, sizeof(*m), fds, &n);
	bool whole = got == (ssize_t)sizeof(*m); /* else m is not of this word */

	if (whole)
		supervised_take(s, m, fds, n);
	while (n)
		(void)fd_close(fds[--n]);
	if (whole)
		return 1;
	return got == -EAGAIN ? 0 : -ECHILD;
}

bool supervised_hear_all(struct supervised *s)
{
	struct supervisor_msg m;
	int r;

	while ((r = supervised_hear(s, &m)) > 0)
		;
	return r == 0 && !s->ended;
}

int supervised_gone(const struct supervised *s, struct err *e)
{
	return err_refuse(e, ERR_INTERNAL, ECHILD, "the next run of brig removes what it left",
			  "%s was ended from outside", s->kind->keeper);
}

int supervised_wait(const struct supervised *s, const struct job_want *w, struct err *e)
{
	struct pollfd p[] = { { .fd = s->control, .events = POLLIN },
			      { .fd = w->wake[0], .events = POLLIN },
			      { .fd = w->wake[1], .events = POLLIN } };

	if (wait_any(p, w->host.asked_to_stop ? ARRAY_LEN(p) : 1, 0) < 0)
		return err_sys(e, "cannot wait for %s", s->kind->what);
	if (!w->host.asked_to_stop || (!p[1].revents && !p[2].revents) ||
	    !w->host.asked_to_stop(w->host.arg))
		return 0;
	supervised_ask(s, COMMAND_FIRST, SIGKILL);
	return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
}

int supervised_start(struct supervised *s, const struct job_want *w, struct err *e)
{
	while (!s->begun) {
		struct supervisor_msg m;
		int r;

		if (supervised_wait(s, w, e) < 0)
			return -e->code;
		r = supervised_hear(s, &m);
		if (r < 0)
			return supervised_gone(s, e);
		if (r == 0)
			continue;
		if (m.said == SUPERVISOR_NOTE && w->host.note)
			w->host.note(w->host.arg, m.text);
		if (m.said == SUPERVISOR_FAILED) {
			*e = m.err;
			return -e->code;
		}
		if (s->kind->starting(s, &m, e) < 0)
			return -e->code;
		if (m.said == SUPERVISOR_STARTED) {
			s->started = m;
			s->begun = true;
		}
	}
	return 0;
}

void supervised_leave(struct supervised *s)
{
	struct supervisor_msg m;

	if (s->control < 0)
		return;
	if (!s->ended)
		supervised_ask(s, COMMAND_FIRST, SIGKILL);
	(void)shutdown(s->control, SHUT_WR);
	while (wait_fd(s->control, POLLIN,
		       clock_after(s->told ? s->kind->gone_ms : s->kind->leave_ms)) == 0 &&
	       supervised_hear(s, &m) >= 0)
		;
	if (!s->told)
		s->kind->tidy(s->id);
	s->told = true;
}

void supervised_done(struct supervised *s)
{
	s->control = fd_close(s->control);
	s->commands = command_table_free(s->commands);
}
