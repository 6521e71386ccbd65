/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_end.c - the end of a run: what the backend says, what the outcome and the record
 * get. */
#include "sandbox/run/run.h"

#include <signal.h>
#include <string.h>
#include <termios.h>

#include "base/sys/clock.h"
#include "egress/monitor.h"
#include "egress/signing.h"
#include "sandbox/explain.h"
#include "sandbox/ports/publish.h"
#include "sandbox/recorder.h"

#define DRAIN_US (1000 * 1000) /* for streams that somebody may hold open for ever */

/* A program that reads single keys paints the whole screen: what is written there meanwhile stays
 * in its picture, or is gone with the next one. */
bool run_is_painted(const struct run *r)
{
	struct termios t;

	return r->master >= 0 && !r->ended && r->out.from >= 0 && tcgetattr(r->out.from, &t) == 0 &&
	       !(t.c_lflag & ICANON);
}

void run_tell(void *run, const char *text)
{
	struct run *r = run;

	if (r->note && run_is_painted(r))
		buf_add(&r->held, text, strlen(text) + 1);
	else if (r->note)
		r->note(r->note_arg, text);
}

static void tell_held(struct run *r)
{
	for (size_t at = 0; at < r->held.len; at += strlen(r->held.data + at) + 1)
		r->note(r->note_arg, r->held.data + at);
	buf_done(&r->held);
}

void run_unrecorded(struct run *r, const struct err *why)
{
	if (r->unrecorded.code)
		return;
	r->unrecorded = *why;
	run_strike(r, SIGKILL);
}

void run_has_ended(struct run *r)
{
	run_ask_end(r);
	r->job = NULL;
	r->ended = true;
	run_stop_clock(r);
	if (r->ports)
		publish_end(r->ports);
	if (r->o->left || !publish_done(r->ports))
		loop_at(r->loop, &r->drain.t, clock_us() + DRAIN_US);
	feed_close(&r->in);
}

void run_note_end(struct run *r)
{
	r->o->phases.ended = clock_us();
	r->o->duration_us = r->o->phases.ended - r->started;
}

/* When a command was executed is heard of with its end. */
static void note_start(struct run *r)
{
	uint64_t at = r->o->phases.started;

	if (at < r->started || at > clock_us())
		r->o->phases.started = at = r->started;
	r->o->setup_us = at - r->o->phases.planned;
	r->started = at;
}

static bool command_ended(struct run *r)
{
	if (!r->backend->ended(r->job, r->number, r->o))
		return false;
	note_start(r);
	if (r->o->started)
		outcome_contain(r->o, &r->of->isolation);
	if (r->cancelled || r->o->kind == OUTCOME_TIMEOUT) /* what it has started did not get the
							      time to tidy up that it used */
		run_strike(r, SIGKILL);
	run_note_end(r);
	run_has_ended(r);
	/* What it started may live on, and hold them. The end of its session hangs a terminal up,
	 * and all that was written there comes before that. */
	if (r->master >= 0)
		loop_at(r->loop, &r->drain.t, clock_us() + DRAIN_US);
	else
		pump_end(&r->out);
	pump_end(&r->err);
	return true;
}

void run_event(struct run *r, bool alarm)
{
	if (r->joins) {
		(void)command_ended(r);
		return;
	}
	if (r->backend->event(r->job, alarm, r->o) != JOB_ENDED) {
		if (r->ports)
			publish_lent(r->ports);
		return;
	}
	run_note_end(r);
	if (r->door) /* what was decided before the end */
		run_door_turn(r);
	if (r->door && egress_there(r->door) && !r->door_lost.code)
		run_door_end(r); /* its processes go with the sandbox */
	else if (r->door)
		egress_end(r->door); /* they end while the rest is put away; heard of later */
	for (struct run *c = r->commands; c; c = c->next)
		if (!c->ended)
			(void)command_ended(c);
	r->backend->finish(r->job, r->o);
	outcome_contain(r->o, &r->isolation);
	if (r->door_lost.code) {
		r->o->kind = OUTCOME_FAILED;
		r->o->error = r->door_lost;
	}
	run_has_ended(r);
	run_lose_commands(r);
}

static void report_own_limits(const struct spec *s, const struct run_io *io, struct outcome *o)
{
	bool capped = io->out < 0 || spec_wrote(s, FIELD_OUTPUT);

	o->timeout_by = s->command.timeout ? ENFORCER_MONITOR : ENFORCER_NONE;
	o->output_by = capped ? ENFORCER_MONITOR : ENFORCER_NONE;
	if (o->out.truncated || o->err.truncated)
		outcome_hit(o, LIMIT_OUTPUT);
}

/* A run whose record ended early did not go well, whatever the command said. */
static void failed_record(struct outcome *o, const struct err *e)
{
	o->unrecorded = true;
	if (o->kind == OUTCOME_REFUSED || (o->kind == OUTCOME_FAILED && o->error.code))
		return;
	o->kind = OUTCOME_FAILED;
	o->error = *e;
}

void run_drop_output(struct run *r)
{
	if (!r->ended)
		return;
	pump_close(&r->out);
	pump_close(&r->err);
	run_arrange(r);
}

void run_end(struct run *r)
{
	struct err e = { 0 };

	if (!r)
		return;
	if (r->of && !r->ended && !r->io.apart)
		run_carry(r->of, r);
	while (!r->over)
		run_turn(r, -1);
	tell_held(r);
	if (r->joins)
		run_names_count_own(r);
	run_forget(r);
	if (r->started) {
		pump_close(&r->out);
		pump_close(&r->err);
	}
	if (r->unrecorded.code) {
		r->o->kind = OUTCOME_FAILED;
		r->o->error = r->unrecorded;
		r->o->unrecorded = true;
	}
	if (!r->joins)
		run_names_count(r);
	if (r->o->started) {
		report_own_limits(r->spec, &r->io, r->o);
		explain(r->spec, r->said.text, r->said.n, r->o);
	}
	if (r->plan)
		(void)r->backend->plan_free(r->plan);
	resolving_stop(&r->resolving);
	if (r->door && r->o->started)
		run_door_end(r);
	(void)egress_free(r->door);
	(void)publish_free(r->ports);
	(void)signing_free(r->signing);
	if (recorder_end(r->recorder, r->o, &e) < 0)
		failed_record(r->o, &e);
	(void)recorder_free(r->recorder);
	(void)loop_free(r->loop);
	kept_home_done(&r->home);
	(void)fd_close(r->lives);
	(void)spec_free(r->own);
	free(r);
}
