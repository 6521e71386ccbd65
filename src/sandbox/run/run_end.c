/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_end.c - the end of a command and of its sandbox: what the backend says, what the
 * outcome and the record get. */
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
bool run_is_painted(const struct command_run *r)
{
	struct termios t;

	return r->master >= 0 && !r->ended && r->out.from >= 0 && tcgetattr(r->out.from, &t) == 0 &&
	       !(t.c_lflag & ICANON);
}

void run_tell(void *run, const char *text)
{
	struct command_run *r = run;

	if (r->note && run_is_painted(r))
		buf_add(&r->held, text, strlen(text) + 1);
	else if (r->note)
		r->note(r->note_arg, text);
}

void run_open_tell(void *sandbox, const char *text)
{
	struct sandbox *s = sandbox;

	if (s->only)
		run_tell(s->only, text);
	else if (s->note)
		s->note(s->note_arg, text);
}

static void tell_held(struct command_run *r)
{
	for (size_t at = 0; at < r->held.len; at += strlen(r->held.data + at) + 1)
		r->note(r->note_arg, r->held.data + at);
	buf_done(&r->held);
}

void run_unrecorded(struct sandbox *s, const struct err *why)
{
	if (s->unrecorded.code)
		return;
	s->unrecorded = *why;
	run_strike_all(s, SIGKILL);
}

void run_command_unrecorded(struct command_run *r, const struct err *why)
{
	if (r->unrecorded.code)
		return;
	r->unrecorded = *why;
	run_strike(r, SIGKILL);
}

void run_note_end(struct outcome *o, uint64_t started)
{
	o->phases.ended = clock_us();
	o->duration_us = o->phases.ended - started;
}

/* ---- a command ---- */

void run_has_ended(struct command_run *r)
{
	r->ended = true;
	run_stop_clock(r);
	if (r->o->left)
		loop_at(r->loop, &r->drain.t, clock_us() + DRAIN_US);
	feed_close(&r->in);
}

/* When a command was executed is heard of with its end. */
static void note_start(struct command_run *r)
{
	uint64_t at = r->o->phases.started;

	if (at < r->started || at > clock_us())
		r->o->phases.started = at = r->started;
	r->o->setup_us = at - r->o->phases.planned;
	r->started = at;
}

void run_command_event(struct command_run *r)
{
	struct sandbox *s = r->of;

	if (!s->backend->ended(s->job, r->number, r->o))
		return;
	note_start(r);
	if (r->o->started)
		outcome_contain(r->o, &s->isolation);
	if (r->cancelled || r->o->kind == OUTCOME_TIMEOUT) /* what it has started did not get the
							      time to tidy up that it used */
		run_strike(r, SIGKILL);
	run_note_end(r->o, r->started);
	run_has_ended(r);
	/* What it started may live on, and hold them. The end of its session hangs a terminal up,
	 * and all that was written there comes before that. */
	if (r->master >= 0)
		loop_at(r->loop, &r->drain.t, clock_us() + DRAIN_US);
	else
		pump_end(&r->out);
	pump_end(&r->err);
}

void run_drop_output(struct command_run *r)
{
	if (!r->ended)
		return;
	pump_close(&r->out);
	pump_close(&r->err);
	run_arrange(r);
}

/* ---- a sandbox ---- */

static void sandbox_has_ended(struct sandbox *s)
{
	run_ask_end(s);
	s->job = NULL;
	s->ended = true;
	run_open_stop_clock(s);
	if (s->ports)
		publish_end(s->ports);
	if (s->o->left || !publish_done(s->ports))
		loop_at(s->loop, &s->drain.t, clock_us() + DRAIN_US);
	if (s->only)
		run_has_ended(s->only);
	run_lose_commands(s);
}

void run_event(struct sandbox *s, bool alarm)
{
	if (s->backend->event(s->job, alarm, s->o) != JOB_ENDED) {
		if (s->ports)
			publish_lent(s->ports);
		return;
	}
	run_note_end(s->o, s->started);
	if (s->door) /* what was decided before the end */
		run_door_turn(s);
	if (s->door && egress_there(s->door) && !s->door_lost.code)
		run_door_end(s); /* its processes go with the sandbox */
	else if (s->door)
		egress_end(s->door); /* they end while the rest is put away; heard of later */
	for (struct command_run *c = s->commands; c; c = c->next)
		if (!c->ended)
			run_command_event(c);
	s->backend->finish(s->job, s->o);
	run_layer_end(s);
	outcome_contain(s->o, &s->isolation);
	if (s->door_lost.code) {
		s->o->kind = OUTCOME_FAILED;
		s->o->error = s->door_lost;
	}
	sandbox_has_ended(s);
}

/* ---- the outcome, and what is freed ---- */

/* `io`: NULL for a sandbox that was opened. */
static void report_own_limits(const struct spec *s, const struct run_io *io, struct outcome *o)
{
	bool capped = !io || io->out < 0 || spec_wrote(s, FIELD_OUTPUT);

	o->timeout_by = s->command.timeout ? ENFORCER_MONITOR : ENFORCER_NONE;
	o->output_by = capped ? ENFORCER_MONITOR : ENFORCER_NONE;
	if (o->out.truncated || o->err.truncated)
		outcome_hit(o, LIMIT_OUTPUT);
}

static void ended_unrecorded(struct outcome *o, const struct err *why)
{
	if (!why->code)
		return;
	o->kind = OUTCOME_FAILED;
	o->error = *why;
	o->unrecorded = true;
}

/* A run whose record ended early did not go well, whatever the command said. */
static void end_record(struct recorder *r, struct outcome *o)
{
	struct err e = { 0 };
	bool failed = recorder_end(r, o, &e) < 0;

	(void)recorder_free(r);
	if (!failed)
		return;
	o->unrecorded = true;
	if (o->kind == OUTCOME_REFUSED || (o->kind == OUTCOME_FAILED && o->error.code))
		return;
	o->kind = OUTCOME_FAILED;
	o->error = e;
}

/* With its command, if it is a run. */
static void sandbox_free_all(struct sandbox *s)
{
	if (s->plan)
		(void)s->backend->plan_free(s->plan);
	resolving_stop(&s->resolving);
	if (s->door && s->o->started)
		run_door_end(s);
	(void)egress_free(s->door);
	(void)publish_free(s->ports);
	(void)signing_free(s->signing);
	end_record(s->recorder, s->o);
	(void)loop_free(s->loop);
	kept_home_done(&s->home);
	volumes_done(&s->volumes);
	run_layer_done(s);
	image_use_done(&s->image);
	(void)fd_close(s->lives);
	(void)spec_free(s->own);
	free(s);
}

void run_end(struct command_run *r)
{
	if (!r)
		return;
	if (r->joins && r->of && !r->ended && !r->io.apart)
		run_carry(r->of, r);
	while (!r->over)
		run_turn(r, -1);
	tell_held(r);
	if (r->started) {
		pump_close(&r->out);
		pump_close(&r->err);
	}
	if (r->joins) {
		struct sandbox *of = r->of;

		run_names_count_own(r);
		run_forget(r);
		if (of && r->o->started)
			run_layer_after(of, r->o);
		ended_unrecorded(r->o, &r->unrecorded);
	} else {
		ended_unrecorded(r->o, &r->of->unrecorded);
		run_names_count(r->of);
	}
	if (r->o->started) {
		report_own_limits(r->spec, &r->io, r->o);
		explain(r->spec, r->said.text, r->said.n, r->o);
	}
	if (!r->joins) {
		sandbox_free_all(r->of);
		return;
	}
	end_record(r->recorder, r->o);
	(void)loop_free(r->loop);
	free(r);
}

void run_close(struct sandbox *s)
{
	if (!s)
		return;
	if (!s->over) {
		run_end_as(s->o, OUTCOME_EXITED, 0);
		s->cancelled = true;
		run_strike_all(s, SIGKILL);
	}
	while (!s->over)
		run_open_turn(s, -1);
	ended_unrecorded(s->o, &s->unrecorded);
	run_names_count(s);
	if (s->o->started) {
		report_own_limits(s->spec, NULL, s->o);
		explain(s->spec, "", 0, s->o);
	}
	sandbox_free_all(s);
}
