/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_signal.c - what a run is told from outside: signals, a cancel, the size of the
 * terminal. */
#include "sandbox/run/run.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>

#include "base/sys/clock.h"

#define GRACE_US (500 * 1000)

void run_strike(const struct run *r, int sig)
{
	if (r->job)
		r->backend->signal(r->job, r->number, sig);
}

void run_end_as(struct run *r, enum outcome_kind kind, int sig)
{
	if (r->o->kind != OUTCOME_FAILED || r->ended)
		return;
	r->o->kind = kind;
	r->o->signal = sig;
}

/* A first cancel is passed on and gives the command a moment to tidy up; a second does not wait,
 * and neither does one that follows the timeout's SIGTERM. */
void run_cancel(struct run *r, int sig)
{
	bool again = r->cancelled || r->o->kind == OUTCOME_TIMEOUT;

	if (r->ended) { /* only undelivered output is left: let it go */
		pump_close(&r->out);
		pump_close(&r->err);
		return;
	}
	run_end_as(r, OUTCOME_CANCELLED, sig);
	run_strike(r, again || !r->command ? SIGKILL : sig ? sig : SIGTERM);
	run_ask_end(r); /* not before: what waits at the door would end by the refusal */
	r->cancelled = true;
	loop_at(r->loop, &r->kill.t, clock_us() + GRACE_US);
}

void run_signal(struct run *r, int sig)
{
	if (!r->ended)
		run_strike(r, sig);
}

/* The way out of the command's own terminal does not ask the command. */
void run_leave(struct run *r)
{
	if (r->ended)
		return;
	r->in.leave = false;
	run_ask_end(r);
	run_end_as(r, OUTCOME_CANCELLED, SIGQUIT);
	run_strike(r, SIGKILL);
	r->cancelled = true;
}

/* SIGHUP does not come where somebody else leads the session, as su does. */
void run_hang_up(struct run *r)
{
	r->in.hung = false;
	if (!r->cancelled)
		run_cancel(r, SIGHUP);
}

void run_resize(struct run *r, unsigned short rows, unsigned short cols)
{
	const struct winsize size = { .ws_row = rows, .ws_col = cols };

	if (r->master < 0 || r->out.from < 0)
		return;
	if (!r->backend->open || !r->backend->open->resize)
		(void)ioctl(r->out.from, TIOCSWINSZ, &size);
	else if (r->job)
		r->backend->open->resize(r->job, r->number, rows, cols);
}

static void resize(struct run *r)
{
	struct winsize size;

	if (r->master >= 0 && ioctl(r->io.out, TIOCGWINSZ, &size) == 0)
		run_resize(r, size.ws_row, size.ws_col);
}

void run_hear_signals(struct run *r)
{
	struct signalfd_siginfo s;

	while (read(r->io.signals, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
		if (s.ssi_signo == SIGWINCH)
			resize(r);
		else
			run_cancel(r, (int)s.ssi_signo);
	}
}

/* A start that takes long is given up like a command, but has nothing to tidy up for. */
bool run_asked_to_stop(void *arg)
{
	struct run *r = arg;
	struct pollfd p = { .fd = r->io.cancel, .events = POLLIN };
	struct signalfd_siginfo s;

	while (r->io.signals >= 0 && read(r->io.signals, &s, sizeof(s)) == (ssize_t)sizeof(s))
		if (s.ssi_signo != SIGWINCH)
			run_end_as(r, OUTCOME_CANCELLED, (int)s.ssi_signo);
	if (r->io.cancel >= 0 && poll(&p, 1, 0) > 0)
		run_end_as(r, OUTCOME_CANCELLED, 0);
	return r->o->kind == OUTCOME_CANCELLED;
}

void run_close(struct run *r)
{
	run_end_as(r, OUTCOME_EXITED, 0);
	r->cancelled = true;
	run_strike(r, SIGKILL);
}
