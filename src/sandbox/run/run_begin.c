/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_begin.c - from a spec to the started command, or to a refusal. */
#include "sandbox/run/run.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes/random.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "egress/unresolved.h"
#include "model/dialect/credentials.h"
#include "model/settings/spec_writes.h"
#include "sandbox/recorder.h"

#define HELD_MAX 16384 /* of notes that wait for the end of a run */

/* What auto did not take is told with the result and, because it is unusual, at once. */
static int run_begin_choose(struct run *r, note_fn *note, void *note_arg, struct err *e)
{
	struct backend_choice c;
	int result = backend_choose(r->spec, &c, e);

	for (size_t i = 0; i < c.passed_count; i++) {
		const char *name = c.passed[i].backend->name;
		char line[768];

		outcome_pass(r->o, name, c.passed[i].why.what);
		if (result < 0 || !note)
			continue;
		(void)snprintf(line, sizeof(line), "auto chose %s and passed over %s: %s%s%s",
			       c.backend->name, name, c.passed[i].why.what,
			       c.passed[i].why.hint[0] ? "; " : "", c.passed[i].why.hint);
		note(note_arg, line);
	}
	r->backend = c.backend;
	return result;
}

/* A credential that was asked for by name and can go nowhere. */
static void note_unreachable(struct run *r)
{
	const struct spec *s = r->spec;
	struct credentiallist l;
	struct err e;

	if (!r->note || s->network != NETWORK_PROXY || !s->use_credentials.n ||
	    credentials_granted(r->o->arena, s, &l, &e) < 0)
		return;
	for (size_t i = 0; i < l.n; i++) {
		char line[768];

		if (credential_reachable(r->o->arena, s, &l.v[i]))
			continue;
		if (credential_of_service(r->o->arena, &l.v[i]))
			(void)snprintf(
				line, sizeof(line),
				"credential '%.60s' is for host.brig.internal, where none is "
				"ever put in: with a certificate the server can have a name "
				"of its own (--allow NAME --set "
				"egress.resolve=NAME=127.0.0.1:PORT --set egress.roots=FILE)",
				l.v[i].name);
		else
			(void)snprintf(line, sizeof(line),
				       "credential '%.60s' is for %.200s, which is not allowed: "
				       "--allow %.200s",
				       l.v[i].name, l.v[i].hosts.v[0], l.v[i].hosts.v[0]);
		r->note(r->note_arg, line);
	}
}

/* A run that is refused anyway, as one that may write to the cache folder, leaves no folder there.
 * A plan that is asked for no notes is whole: every guard has looked. */
static int may_make_home(const struct run *r, struct err *e)
{
	struct backend_plan *p = NULL;
	char folder[PATH_MAX];

	if (kept_home_find(r->spec, r->backend->name, folder) == 0)
		return 0;
	if (r->backend->plan(r->spec, &p, NULL, e) < 0)
		return -e->code;
	(void)r->backend->plan_free(p);
	return 0;
}

/* Made before the plan, which changes nothing, and locked until the run has ended. */
static int keep_home(struct run *r, struct err *e)
{
	if (r->spec->home != HOME_KEEP)
		return 0;
	if (may_make_home(r, e) < 0 || kept_home_open(r->spec, r->backend->name, &r->home, e) < 0 ||
	    kept_home_spec(r->spec, r->home.folder, r->home.has_secret ? r->home.secret : NULL,
			   &r->own, e) < 0)
		return -e->code;
	r->spec = r->own;
	return 0;
}

/* From choosing to the started command, or to a refusal, which *r->o tells. */
static void conduct(struct run *r)
{
	const char *const *notes = NULL;
	uint64_t from = clock_us();
	struct err e = { 0 };

	if (run_begin_choose(r, r->note, r->note_arg, &e) < 0) {
		run_refuse(r->o, &e);
		return;
	}
	r->o->backend = r->backend->name;
	if (!r->command && !r->backend->exec) {
		(void)err_refuse(&e, ERR_UNAVAILABLE, ENOTSUP,
				 "open it on native or bwrap, or run each command by itself",
				 "backend '%s' cannot keep a sandbox open for commands",
				 r->backend->name);
		run_refuse(r->o, &e);
		return;
	}
	if (r->spec->companions.n && !r->spec->members.n) {
		(void)err_refuse(
			&e, ERR_UNAVAILABLE, ENOTSUP,
			"brig sandbox create makes one, brig sandbox exec runs commands in it",
			"companions are beside a long-lived sandbox of the daemon alone");
		run_refuse(r->o, &e);
		return;
	}
	backends_tidy(r->spec->workdir ? r->spec->workdir : ".");
	/* The door's processes start while the plan is made. */
	if (spec_check_inputs(r->spec, &e) < 0 || run_ask_check(r, &e) < 0 ||
	    keep_home(r, &e) < 0 || run_door_start(r, &e) < 0 ||
	    r->backend->plan(r->spec, &r->plan, &notes, &e) < 0) {
		run_refuse(r->o, &e);
		return;
	}
	r->o->phases.planned = clock_us();
	if (!(r->backend->can & (BACKEND_BARE | BACKEND_REMOTE)))
		r->o->workspace_target = arena_strdup(r->o->arena, r->spec->inside);
	for (const char *const *n = notes; r->note && n && *n; n++)
		r->note(r->note_arg, *n);
	note_unreachable(r);
	run_note_keys(r);
	if (run_agent_open(r, &e) < 0 || run_ports_open(r, &e) < 0) {
		run_refuse(r->o, &e);
		return;
	}
	run_start(r, from, &e);
}

/* The same for a command of a sandbox that is there. */
static void conduct_command(struct run *r)
{
	uint64_t from = clock_us();
	struct err e = { 0 };

	r->backend = r->of->backend;
	r->o->backend = r->backend->name;
	r->o->phases.planned = from;
	if (r->of->ended || loop_fd(r->of->loop) < 0) {
		(void)err_set(&e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
		run_refuse(r->o, &e);
		return;
	}
	r->questions = unresolved_questions(r->of->unresolved);
	run_start(r, from, &e);
	if (r->over)
		return;
	r->next = r->of->commands;
	r->of->commands = r;
}

/* Journals and the record where nobody would look for them are told of. */
static void note_state(note_fn *note, void *note_arg)
{
	char path[PATH_MAX], line[PATH_MAX + 128];

	if (!note || !state_displaced(path, sizeof(path)))
		return;
	(void)snprintf(line, sizeof(line),
		       "brig's own state and record are in '%.*s', which may not outlive the "
		       "session: set XDG_STATE_HOME to a folder of yours",
		       (int)strlen(path) - 2, path); /* without "/." */
	note(note_arg, line);
}

static void run_begin_prepare(struct run *r)
{
	run_set_watches(r);
	run_set_timers(r);
	r->out.from = r->out.to = r->err.from = r->err.to = r->in.to = r->in.peer = -1;
	r->events = r->alarm = r->master = r->lives = -1;
	r->home = KEPT_HOME_NONE;
	r->over = true; /* until something runs */
}

static int make_recorder(struct run *r, struct err *e)
{
	return r->joins ? recorder_join(r->spec, r->of->recorder, &r->recorder, e)
			: recorder_new(r->spec, &r->recorder, e);
}

static struct run *run_begin_like(const struct run *like, struct outcome *o)
{
	struct run *r = calloc(1, sizeof(*r));
	struct err e = { 0 };

	o->dialect = like->spec->dialect_used;
	o->timeout_ms = like->command ? like->command->timeout : 0;
	if (!r) {
		(void)err_nomem(&e);
		run_refuse(o, &e);
		return NULL;
	}
	*r = *like;
	r->o = o;
	r->held = (struct buf)BUF_INIT(HELD_MAX);
	run_begin_prepare(r);
	if (random_hex(o->id, sizeof(o->id), &e) < 0 || make_recorder(r, &e) < 0) {
		o->unrecorded = true;
		run_refuse(o, &e);
		return r;
	}
	if (loop_new_small(&r->loop, &e) < 0) {
		run_refuse(o, &e);
		return r;
	}
	if (r->joins) {
		conduct_command(r);
		return r;
	}
	note_state(r->note, r->note_arg);
	conduct(r);
	return r;
}

struct run *run_begin(const struct spec *s, const struct run_io *io, note_fn *note, void *note_arg,
		      struct outcome *o)
{
	return run_begin_like(&(struct run){ .spec = s,
					     .command = &s->command,
					     .io = *io,
					     .note = note,
					     .note_arg = note_arg },
			      o);
}

struct run *run_open(const struct spec *s, int cancel, const struct run_io *io, note_fn *note,
		     void *note_arg, struct outcome *o)
{
	const struct run_io none = { .in = -1,
				     .out = -1,
				     .err = -1,
				     .signals = -1,
				     .cancel = cancel,
				     .asker = io->asker,
				     .seat = io->seat,
				     .line = io->line };

	return run_begin_like(
		&(struct run){ .spec = s, .io = none, .note = note, .note_arg = note_arg }, o);
}

struct run *run_exec(struct run *sandbox, const struct spec *s, const struct run_io *io,
		     note_fn *note, void *note_arg, struct outcome *o)
{
	struct run *r = run_begin_like(&(struct run){ .spec = s,
						      .command = &s->command,
						      .joins = true,
						      .of = sandbox,
						      .io = *io,
						      .note = note,
						      .note_arg = note_arg },
				       o);

	/* One that was refused is not in the sandbox's list, and may outlive it. */
	if (r && r->over)
		r->of = NULL;
	return r;
}
