/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_start.c - the start of a command: all that a backend is given, and all that comes
 * back. */
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
	struct run *r = arg;
	int got;

	if (!r->joins &&
	    spec_note_writes(r->spec, r->backend->can & BACKEND_REMOTE, &r->lives, e) < 0)
		return -e->code;
	got = recorder_begin(r->recorder, r->o->id, r->backend->name, e);
	r->o->unrecorded |= got < 0;
	return got;
}

/* The start failed after the command was let go: no refusal, and the record says that it ran. */
static void was_started(struct run *r, uint64_t from)
{
	r->o->phases.started = r->o->phases.ended = clock_us();
	r->o->setup_us = r->o->phases.started - from;
	outcome_contain(r->o, &r->isolation);
	if (r->o->kind == OUTCOME_REFUSED)
		r->o->kind = OUTCOME_FAILED;
}

static int run_start_carry_out(struct run *r, const struct job_want *w, struct job_io *io,
			       struct err *e)
{
	struct backend_job *j = r->of ? r->of->job : NULL;
	int got;

	if (!r->joins)
		return r->backend->start(r->plan, w, io, &r->job, e);
	got = r->backend->exec(j, w, io, &r->number, e);
	r->job = got == 0 ? j : NULL;
	return got;
}

static bool has_tty(const struct run *r)
{
	return r->command && r->command->tty;
}

static void set_pump(struct run *r, struct pump *p, struct stream *keep, struct vtfilter *filter,
		     int to)
{
	bool wrote = spec_wrote(r->spec, FIELD_OUTPUT);

	*p = (struct pump){ .keep = keep,
			    .both = &r->o->both,
			    .tail = keep == &r->o->err || has_tty(r) ? &r->said : NULL,
			    .which = keep == &r->o->err ? 2 : 1,
			    .limit = r->command && (to < 0 || wrote) ? r->command->output : 0,
			    .on_output = r->io.on_output,
			    .tells = r->io.tells && to < 0,
			    .arg = r->io.arg };
	keep->data.max = r->o->both.data.max = KEEP_MAX;
	if (to >= 0 && isatty(to) && !has_tty(r)) {
		vtfilter_init(filter);
		p->filter = filter;
	}
	p->raw = to >= 0 && has_tty(r) && isatty(to);
}

static void open_streams(struct run *r, struct job_io *io)
{
	set_pump(r, &r->out, &r->o->out, &r->out_filter, r->io.out);
	set_pump(r, &r->err, &r->o->err, &r->err_filter, r->io.err);
	r->master = has_tty(r) ? io->out : -1;
	pump_open(&r->out, io->out, r->io.out);
	pump_open(&r->err, io->err, r->io.err);
	feed_open(&r->in, r->io.in, io->in, io->in_peer, has_tty(r));
}

void run_start(struct run *r, uint64_t from, struct err *e)
{
	struct job_want w = {
		.command = r->command,
		.no_input = r->io.in < 0,
		.id = r->o->id,
		.outcome = r->o,
		.isolation = &r->isolation,
		.wake = { r->io.signals, r->io.cancel },
		.seat = r->io.seat,
		.line = r->io.line,
		.host = { .asked_to_stop = run_asked_to_stop, .note = run_tell, .arg = r }
	};
	bool asks = r->backend->can & BACKEND_PERMITS && !r->joins;
	bool awaits = r->backend->can & BACKEND_AWAITS;
	struct job_io io = { .in = -1,
			     .out = -1,
			     .err = -1,
			     .in_peer = -1,
			     .events = -1,
			     .alarm = -1,
			     .names = -1,
			     .agent = -1 };
	struct winsize size = { .ws_row = r->io.rows, .ws_col = r->io.cols };

	if (job_has_tty(&w) && (size.ws_row || ioctl(r->io.out, TIOCGWINSZ, &size) == 0)) {
		w.rows = size.ws_row;
		w.cols = size.ws_col;
	}
	if (asks)
		w.host.permit = permit;
	if (r->door) {
		w.variables = egress_variables(r->door);
		w.host.authority = run_door_authority;
		w.there = egress_there(r->door);
		if (!awaits && !w.there)
			w.authority = egress_authority(r->door, e);
	}
	if ((r->door && !awaits && !w.there && !w.authority) || (!asks && permit(r, e) < 0) ||
	    run_start_carry_out(r, &w, &io, e) < 0) {
		if (r->o->kind != OUTCOME_CANCELLED)
			run_refuse(r->o, e);
		if (r->o->started)
			was_started(r, from);
		return;
	}
	if (r->door)
		egress_there_taken(r->door);
	if (run_door_attach(r, &io, e) < 0)
		run_door_lost(r, NULL);
	r->started = r->o->phases.started = clock_us();
	r->o->started = true;
	r->o->setup_us = r->started - from;
	if (!r->command) /* for who asks meanwhile */
		outcome_contain(r->o, &r->isolation);
	if (r->command && r->command->timeout)
		loop_at(r->loop, &r->deadline.t, r->started + r->command->timeout * 1000);
	if (r->recorder && r->spec->audit.on_error == AUDIT_END)
		loop_at(r->loop, &r->look.t, r->started);
	if (io.names >= 0)
		r->unresolved = unresolved_new(io.names);
	run_agent_start(r, io.agent);
	r->image_command = io.image_command;
	r->image_folder = io.image_folder;
	run_ports_start(r);
	r->events = io.events;
	r->alarm = io.alarm;
	open_streams(r, &io);
	r->over = false;
	run_arrange(r);
}
