/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_start.c - the start of a sandbox, and of a command: all that a backend is given,
 * and all that comes back. */
#include "sandbox/run/run.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/sys/clock.h"
#include "egress/monitor.h"
#include "egress/unresolved.h"
#include "model/settings/spec_writes.h"
#include "sandbox/recorder.h"

#define KEEP_MAX ((size_t)1 << 30)

void run_refuse(struct outcome *o, const struct err *e)
{
	bool machine = e->kind == ERR_INTERNAL;

	o->error = *e;
	o->kind = e->code == ECANCELED ? OUTCOME_CANCELLED /* while a host was being reached */
		  : machine            ? OUTCOME_FAILED
				       : OUTCOME_REFUSED;
}

/* The command may begin once its start is on the record. From here on what it may write is nobody's
 * word any more; a run that was refused before has written nothing. */
static int permit(void *arg, struct err *e)
{
	struct sandbox *s = arg;
	int got;

	if (spec_note_writes(s->spec, s->backend->can & BACKEND_REMOTE, &s->lives, e) < 0)
		return -e->code;
	got = recorder_begin(s->recorder, s->o->id, s->backend->name, e);
	s->o->unrecorded |= got < 0;
	return got;
}

/* ---- a command ---- */

static void command_wants(struct command_run *r, struct job_want *w)
{
	struct winsize size = { .ws_row = r->io.rows, .ws_col = r->io.cols };

	w->command = r->command;
	w->no_input = r->io.in < 0;
	w->wake[0] = r->io.signals;
	w->wake[1] = r->io.cancel;
	if (job_has_tty(w) && (size.ws_row || ioctl(r->io.out, TIOCGWINSZ, &size) == 0)) {
		w->rows = size.ws_row;
		w->cols = size.ws_col;
	}
}

static void set_pump(struct command_run *r, struct pump *p, struct stream *keep,
		     struct vtfilter *filter, int to)
{
	bool wrote = spec_wrote(r->spec, FIELD_OUTPUT), tty = r->command->tty;

	*p = (struct pump){ .keep = keep,
			    .both = &r->o->both,
			    .tail = keep == &r->o->err || tty ? &r->said : NULL,
			    .which = keep == &r->o->err ? 2 : 1,
			    .limit = to < 0 || wrote ? r->command->output : 0,
			    .on_output = r->io.on_output,
			    .tells = r->io.tells && to < 0,
			    .arg = r->io.arg };
	keep->data.max = r->o->both.data.max = KEEP_MAX;
	if (to >= 0 && isatty(to) && !tty) {
		vtfilter_init(filter);
		p->filter = filter;
	}
	p->raw = to >= 0 && tty && isatty(to);
}

/* Its outcome says since when. */
static void command_runs(struct command_run *r, const struct job_io *io)
{
	r->started = r->o->phases.started;
	if (r->command->timeout)
		loop_at(r->loop, &r->deadline.t, r->started + r->command->timeout * 1000);
	if (r->joins && r->recorder && r->spec->audit.on_error == AUDIT_END)
		loop_at(r->loop, &r->look.t, r->started);
	set_pump(r, &r->out, &r->o->out, &r->out_filter, r->io.out);
	set_pump(r, &r->err, &r->o->err, &r->err_filter, r->io.err);
	r->master = r->command->tty ? io->out : -1;
	pump_open(&r->out, io->out, r->io.out);
	pump_open(&r->err, io->err, r->io.err);
	feed_open(&r->in, r->io.in, io->in, io->in_peer, r->command->tty);
	r->over = false;
}

static void has_started(struct outcome *o, uint64_t from, uint64_t at)
{
	o->phases.started = at;
	o->started = true;
	o->setup_us = at - from;
}

/* The start failed: a refusal, unless the command was let go: then the record says that it ran. */
static void start_failed(struct outcome *o, const struct isolation *got, uint64_t from,
			 const struct err *e)
{
	if (o->kind != OUTCOME_CANCELLED)
		run_refuse(o, e);
	if (!o->started)
		return;
	o->phases.started = o->phases.ended = clock_us();
	o->setup_us = o->phases.started - from;
	outcome_contain(o, got);
	if (o->kind == OUTCOME_REFUSED)
		o->kind = OUTCOME_FAILED;
}

static const struct job_io no_io = { .in = -1,
				     .out = -1,
				     .err = -1,
				     .in_peer = -1,
				     .events = -1,
				     .alarm = -1,
				     .names = -1,
				     .agent = -1 };

void run_join(struct command_run *r, uint64_t from, struct err *e)
{
	struct sandbox *s = r->of;
	struct job_want w = {
		.id = r->o->id,
		.outcome = r->o,
		.host = { .asked_to_stop = run_asked_to_stop, .note = run_tell, .arg = r }
	};
	struct job_io io = no_io;
	int got = recorder_begin(r->recorder, r->o->id, s->backend->name, e);

	command_wants(r, &w);
	r->o->unrecorded |= got < 0;
	if (got < 0 || s->backend->exec(s->job, &w, &io, &r->number, e) < 0) {
		start_failed(r->o, &s->isolation, from, e);
		return;
	}
	has_started(r->o, from, clock_us());
	r->events = io.events;
	command_runs(r, &io);
	run_arrange(r);
}

/* ---- a sandbox ---- */

/* What its door gives to the start; one that cannot wait for the certificate has it now. */
static int bring_door(struct sandbox *s, struct job_want *w, struct err *e)
{
	if (!s->door)
		return 0;
	w->variables = egress_variables(s->door);
	w->host.authority = run_door_authority;
	w->there = egress_there(s->door);
	if (w->there || (s->backend->can & BACKEND_AWAITS && !egress_is_waiting(s->door)))
		return 0;
	w->authority = egress_authority(s->door, e);
	return w->authority ? 0 : -e->code;
}

/* All that came back but the streams. */
static void sandbox_runs(struct sandbox *s, const struct job_io *io)
{
	struct err unused;

	if (s->door)
		egress_there_taken(s->door);
	if (run_door_attach(s, io, &unused) < 0)
		run_door_lost(s, NULL);
	s->started = clock_us();
	if (s->recorder && s->spec->audit.on_error == AUDIT_END)
		loop_at(s->loop, &s->look.t, s->started);
	if (io->names >= 0)
		s->unresolved = unresolved_new(io->names);
	run_agent_start(s, io->agent);
	s->image_command = io->image_command;
	s->image_folder = io->image_folder;
	run_ports_start(s);
	s->events = io->events;
	s->alarm = io->alarm;
	s->over = false;
}

void run_start(struct sandbox *s, uint64_t from, struct err *e)
{
	struct job_want w = {
		.no_input = true,
		.id = s->o->id,
		.outcome = s->o,
		.isolation = &s->isolation,
		.wake = { -1, s->cancel },
		.seat = s->seat,
		.line = s->line,
		.learn = s->learn,
		.host = { .asked_to_stop = run_open_asked_to_stop, .note = run_open_tell, .arg = s }
	};
	bool asks = s->backend->can & BACKEND_PERMITS;
	struct job_io io = no_io;

	if (s->only)
		command_wants(s->only, &w);
	if (asks)
		w.host.permit = permit;
	if (bring_door(s, &w, e) < 0 || (!asks && permit(s, e) < 0) ||
	    s->backend->start(s->plan, &w, &io, &s->job, e) < 0) {
		start_failed(s->o, &s->isolation, from, e);
		return;
	}
	sandbox_runs(s, &io);
	has_started(s->o, from, s->started);
	if (s->only) {
		command_runs(s->only, &io);
		run_arrange(s->only);
		return;
	}
	outcome_contain(s->o, &s->isolation); /* for who asks meanwhile */
	run_open_arrange(s);
}
