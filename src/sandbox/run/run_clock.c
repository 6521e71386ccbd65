/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_clock.c - the times of a run: its deadline, the grace of a cancel, the looks at
 * its record. */
#include "sandbox/run/run.h"

#include <signal.h>
#include <stddef.h>

#include "sandbox/ports/publish.h"
#include "sandbox/recorder.h"

/* How often a run under `audit.on_error: end` looks whether the record still takes its end. */
#define RECORD_LOOK_US (1000 * 1000)

static struct run *run_of(struct loop_timer *t)
{
	return ((struct run_timer *)t)->r;
}

/* The record cannot take more: the run ends here, because its policy says so. */
static void run_clock_on_look(struct loop_timer *t, uint64_t now)
{
	struct run *r = run_of(t);
	struct err e = { 0 };

	if (recorder_ready(r->recorder, &e) == 0) {
		loop_at(r->loop, t, now + RECORD_LOOK_US);
		return;
	}
	run_unrecorded(r, &e);
}

/* One that was cancelled before has its SIGKILL coming. */
static void on_deadline(struct loop_timer *t, uint64_t now)
{
	struct run *r = run_of(t);
	uint64_t grace = r->command ? r->command->kill_after * 1000 : 0;

	run_end_as(r, OUTCOME_TIMEOUT, 0);
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

/* What cannot be ended may never close its end of the streams; who was connected to it may never
 * take its last bytes. */
static void on_drain(struct loop_timer *t, uint64_t now UNUSED)
{
	struct run *r = run_of(t);

	(void)loop_want(r->loop, &r->watches[RUN_PORTS].w, 0);
	r->ports = publish_free(r->ports);
	r->over |= r->o->left;
	if (r->joins)
		pump_end(&r->out);
}

static void run_clock_on_again(struct loop_timer *t, uint64_t now UNUSED)
{
	run_look_at_alarm(run_of(t));
}

static void run_clock_on_late(struct loop_timer *t, uint64_t now UNUSED)
{
	run_ask_late(run_of(t));
}

/* brig may be in the foreground now. */
static void on_back(struct loop_timer *t, uint64_t now UNUSED)
{
	run_of(t)->in.away = false;
}

void run_stop_clock(struct run *r)
{
	loop_at(r->loop, &r->deadline.t, 0);
	loop_at(r->loop, &r->kill.t, 0);
	loop_at(r->loop, &r->look.t, 0);
	loop_at(r->loop, &r->again.t, 0);
	loop_at(r->loop, &r->back.t, 0);
}

void run_set_timers(struct run *r)
{
	static const struct {
		size_t at;
		timer_fn *due;
	} timers[] = { { offsetof(struct run, deadline), on_deadline },
		       { offsetof(struct run, kill), on_kill },
		       { offsetof(struct run, look), run_clock_on_look },
		       { offsetof(struct run, drain), on_drain },
		       { offsetof(struct run, again), run_clock_on_again },
		       { offsetof(struct run, late), run_clock_on_late },
		       { offsetof(struct run, back), on_back } };

	for (size_t i = 0; i < ARRAY_LEN(timers); i++)
		*(struct run_timer *)((char *)r + timers[i].at) =
			(struct run_timer){ .t.due = timers[i].due, .r = r };
}
