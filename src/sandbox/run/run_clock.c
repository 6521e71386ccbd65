/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_clock.c - the times of a command and of its sandbox: the deadline, the grace of a
 * cancel, the looks at the record. */
#include "sandbox/run/run.h"

#include <signal.h>

#include "sandbox/ports/publish.h"
#include "sandbox/recorder.h"

/* How often a run under `audit.on_error: end` looks whether the record still takes its end. */
#define RECORD_LOOK_US (1000 * 1000)

static struct command_run *run_of(struct loop_timer *t)
{
	return ((struct run_timer *)t)->r;
}

static struct sandbox *sandbox_of(struct loop_timer *t)
{
	return ((struct sandbox_timer *)t)->s;
}

/* ---- a command's ---- */

/* The record cannot take more: the run ends here, because its policy says so. */
static void run_clock_on_look(struct loop_timer *t, uint64_t now)
{
	struct command_run *r = run_of(t);
	struct err e = { 0 };

	if (recorder_ready(r->recorder, &e) == 0)
		loop_at(r->loop, t, now + RECORD_LOOK_US);
	else
		run_command_unrecorded(r, &e);
}

/* One that was cancelled before has its SIGKILL coming. */
static void on_deadline(struct loop_timer *t, uint64_t now)
{
	struct command_run *r = run_of(t);
	uint64_t grace = r->command->kill_after * 1000;

	run_end_as(r->o, OUTCOME_TIMEOUT, 0);
	if (r->o->kind == OUTCOME_TIMEOUT)
		outcome_hit(r->o, LIMIT_TIMEOUT);
	if (r->cancelled)
		return;
	run_strike(r, grace ? SIGTERM : SIGKILL);
	loop_at(r->loop, &r->kill.t, grace ? now + grace : 0);
}

/* Once: the end may take its time on another host. */
static void on_kill(struct loop_timer *t, uint64_t now UNUSED)
{
	run_strike(run_of(t), SIGKILL);
}

/* What cannot be ended may never close its end of the streams. */
static void on_drain(struct loop_timer *t, uint64_t now UNUSED)
{
	struct command_run *r = run_of(t);

	r->over |= r->o->left;
	if (r->joins)
		pump_end(&r->out);
}

/* brig may be in the foreground now. */
static void on_back(struct loop_timer *t, uint64_t now UNUSED)
{
	run_of(t)->in.away = false;
}

void run_stop_clock(struct command_run *r)
{
	loop_at(r->loop, &r->deadline.t, 0);
	loop_at(r->loop, &r->kill.t, 0);
	loop_at(r->loop, &r->look.t, 0);
	loop_at(r->loop, &r->back.t, 0);
}

void run_set_timers(struct command_run *r)
{
	r->deadline = (struct run_timer){ .t.due = on_deadline, .r = r };
	r->kill = (struct run_timer){ .t.due = on_kill, .r = r };
	r->look = (struct run_timer){ .t.due = run_clock_on_look, .r = r };
	r->drain = (struct run_timer){ .t.due = on_drain, .r = r };
	r->back = (struct run_timer){ .t.due = on_back, .r = r };
}

/* ---- a sandbox's ---- */

static void open_on_look(struct loop_timer *t, uint64_t now)
{
	struct sandbox *s = sandbox_of(t);
	struct err e = { 0 };

	if (recorder_ready(s->recorder, &e) == 0)
		loop_at(s->loop, t, now + RECORD_LOOK_US);
	else
		run_unrecorded(s, &e);
}

static void open_on_kill(struct loop_timer *t, uint64_t now UNUSED)
{
	run_strike_all(sandbox_of(t), SIGKILL);
}

/* Who was connected to it may never take its last bytes. */
static void open_on_drain(struct loop_timer *t, uint64_t now UNUSED)
{
	struct sandbox *s = sandbox_of(t);

	(void)loop_want(s->loop, &s->watches[SANDBOX_PORTS].w, 0);
	s->ports = publish_free(s->ports);
	s->over |= s->o->left;
}

static void open_on_again(struct loop_timer *t, uint64_t now UNUSED)
{
	run_look_at_alarm(sandbox_of(t));
}

static void open_on_late(struct loop_timer *t, uint64_t now UNUSED)
{
	run_ask_late(sandbox_of(t));
}

void run_open_stop_clock(struct sandbox *s)
{
	loop_at(s->loop, &s->kill.t, 0);
	loop_at(s->loop, &s->look.t, 0);
	loop_at(s->loop, &s->again.t, 0);
}

void run_open_set_timers(struct sandbox *s)
{
	s->kill = (struct sandbox_timer){ .t.due = open_on_kill, .s = s };
	s->look = (struct sandbox_timer){ .t.due = open_on_look, .s = s };
	s->drain = (struct sandbox_timer){ .t.due = open_on_drain, .s = s };
	s->again = (struct sandbox_timer){ .t.due = open_on_again, .s = s };
	s->late = (struct sandbox_timer){ .t.due = open_on_late, .s = s };
}
