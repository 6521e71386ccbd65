/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_signal.c - what a command or a sandbox is told from outside: signals, a cancel,
 * the size of the terminal. */
#include "sandbox/run/run.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>

#include "base/sys/clock.h"
#include "base/sys/wait.h"

#define GRACE_US (500 * 1000)

static struct backend_job *job_of(const struct command_run *r)
{
	return r->of && !r->ended ? r->of->job : NULL;
}

void run_strike(const struct command_run *r, int sig)
{
	if (job_of(r))
		r->of->backend->signal(r->of->job, r->number, sig);
}

void run_strike_all(const struct sandbox *s, int sig)
{
	if (s->job)
		s->backend->signal(s->job, COMMAND_FIRST, sig);
}

/* Of a run: from here on it has no more of them. */
static void give_up_questions(struct command_run *r)
{
	if (!r->joins) {
		run_ask_end(r->of);
		r->of->cancelled = true;
	}
	r->cancelled = true;
}

void run_end_as(struct outcome *o, enum outcome_kind kind, int sig)
{
	if (o->kind != OUTCOME_FAILED)
		return;
	o->kind = kind;
	o->signal = sig;
}

/* A first cancel is passed on and gives the command a moment to tidy up; a second does not wait,
 * and neither does one that follows the timeout's SIGTERM. */
void run_cancel(struct command_run *r, int sig)
{
	bool again = r->cancelled || r->o->kind == OUTCOME_TIMEOUT;

	if (r->ended) { /* only undelivered output is left: let it go */
		pump_close(&r->out);
		pump_close(&r->err);
		return;
	}
	run_end_as(r->o, OUTCOME_CANCELLED, sig);
	run_strike(r, again ? SIGKILL : sig ? sig : SIGTERM);
	give_up_questions(r); /* not before: what waits at the door would end by the refusal */
	loop_at(r->loop, &r->kill.t, clock_us() + GRACE_US);
}

void run_cancel_all(struct sandbox *s)
{
	run_end_as(s->o, OUTCOME_CANCELLED, 0);
	run_strike_all(s, SIGKILL);
	run_ask_end(s);
	s->cancelled = true;
	loop_at(s->loop, &s->kill.t, clock_us() + GRACE_US);
}

void run_signal(struct command_run *r, int sig)
{
	run_strike(r, sig);
}

void run_open_signal(struct sandbox *s, int sig)
{
	run_strike_all(s, sig);
}

/* The way out of the command's own terminal does not ask the command. */
void run_leave(struct command_run *r)
{
	if (r->ended)
		return;
	r->in.leave = false;
	give_up_questions(r);
	run_end_as(r->o, OUTCOME_CANCELLED, SIGQUIT);
	run_strike(r, SIGKILL);
}

/* SIGHUP does not come where somebody else leads the session, as su does. */
void run_hang_up(struct command_run *r)
{
	r->in.hung = false;
	if (!r->cancelled)
		run_cancel(r, SIGHUP);
}

void run_resize(struct command_run *r, unsigned short rows, unsigned short cols)
{
	const struct winsize size = { .ws_row = rows, .ws_col = cols };
	const struct open_ops *ops = r->of ? r->of->backend->open : NULL;

	if (r->master < 0 || r->out.from < 0)
		return;
	if (!ops || !ops->resize)
		(void)ioctl(r->out.from, TIOCSWINSZ, &size);
	else if (job_of(r))
		ops->resize(r->of->job, r->number, rows, cols);
}

static void resize(struct command_run *r)
{
	struct winsize size;

	if (r->master >= 0 && ioctl(r->io.out, TIOCGWINSZ, &size) == 0)
		run_resize(r, size.ws_row, size.ws_col);
}

void run_hear_signals(struct command_run *r)
{
	struct signalfd_siginfo s;

	while (read(r->io.signals, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
		if (s.ssi_signo == SIGWINCH)
			resize(r);
		else
			run_cancel(r, (int)s.ssi_signo);
	}
}

static bool is_readable(int fd)
{
	return wait_look(fd, POLLIN) != 0;
}

/* A start that takes long is given up like a command, but has nothing to tidy up for. */
bool run_asked_to_stop(void *run)
{
	struct command_run *r = run;
	struct signalfd_siginfo s;

	while (r->io.signals >= 0 && read(r->io.signals, &s, sizeof(s)) == (ssize_t)sizeof(s))
		if (s.ssi_signo != SIGWINCH)
			run_end_as(r->o, OUTCOME_CANCELLED, (int)s.ssi_signo);
	if (is_readable(r->io.cancel))
		run_end_as(r->o, OUTCOME_CANCELLED, 0);
	return r->o->kind == OUTCOME_CANCELLED;
}

bool run_open_asked_to_stop(void *sandbox)
{
	struct sandbox *s = sandbox;

	if (s->only)
		return run_asked_to_stop(s->only);
	if (is_readable(s->cancel))
		run_end_as(s->o, OUTCOME_CANCELLED, 0);
	return s->o->kind == OUTCOME_CANCELLED;
}
