/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_begin.c - from a spec to a sandbox or a started command, or to a refusal. */
#include "sandbox/run/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/random.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "egress/unresolved.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "model/dialect/credentials.h"
#include "model/known/login_file.h"
#include "model/settings/spec_writes.h"
#include "sandbox/recorder.h"

#define HELD_MAX 16384 /* of notes that wait for the end of a run */

/* What auto did not take is told with the result and, because it is unusual, at once. */
static int run_begin_choose(struct sandbox *s, note_fn *note, void *note_arg, struct err *e)
{
	struct backend_choice c;
	int result = backend_choose(s->spec, &c, e);

	for (size_t i = 0; i < c.passed_count; i++) {
		const char *name = c.passed[i].backend->name;
		char line[768];

		outcome_pass(s->o, name, c.passed[i].why.what);
		if (result < 0 || !note)
			continue;
		(void)snprintf(line, sizeof(line), "auto chose %s and passed over %s: %s%s%s",
			       c.backend->name, name, c.passed[i].why.what,
			       c.passed[i].why.hint[0] ? "; " : "", c.passed[i].why.hint);
		note(note_arg, line);
	}
	s->backend = c.backend;
	return result;
}

/* No rule takes all names of a vendor's customers: one of them must be named. */
static void unreachable_line(const char *name, const char *host, char *line, size_t n)
{
	if (host[0] == '*')
		(void)snprintf(line, n,
			       "credential '%.60s' is for %.200s, and none of these is allowed: "
			       "--allow NAME%.200s",
			       name, host, host + 1);
	else
		(void)snprintf(line, n,
			       "credential '%.60s' is for %.200s, which is not allowed: "
			       "--allow %.200s",
			       name, host, host);
}

/* Of one that logs in, the host where it does. */
static const char *first_host(const struct credential_spec *c, struct url *u)
{
	const struct strlist *urls = token_urls_of(c);
	struct err e;

	if (!urls)
		return c->hosts.v[0];
	return url_parse(urls->v[0], u, &e) < 0 ? "" : u->host;
}

/* A credential that was asked for by name and can go nowhere. */
static void note_unreachable(struct sandbox *s)
{
	const struct spec *spec = s->spec;
	struct credentiallist l;
	struct url u;
	struct err e;

	if (!s->note || spec->network != NETWORK_PROXY || !spec->use_credentials.n ||
	    credentials_granted(s->o->arena, spec, &l, &e) < 0)
		return;
	for (size_t i = 0; i < l.n; i++) {
		const char *name = l.v[i].service ? l.v[i].service : l.v[i].name;
		char line[768];

		if ((i && l.v[i - 1].service && str_eq(l.v[i - 1].service, name)) ||
		    credential_reachable(s->o->arena, spec, &l.v[i]))
			continue;
		if (credential_of_service(s->o->arena, &l.v[i]))
			(void)snprintf(
				line, sizeof(line),
				"credential '%.60s' is for host.brig.internal, where none is "
				"ever put in: with a certificate the server can have a name "
				"of its own (--allow NAME --set "
				"egress.resolve=NAME=127.0.0.1:PORT --set egress.roots=FILE)",
				name);
		else if (spec->egress.learn)
			continue; /* every public name is open */
		else
			unreachable_line(name, first_host(&l.v[i], &u), line, sizeof(line));
		s->note(s->note_arg, line);
	}
}

/* Nobody needs to hear of it before a refusal. */
static void note_open_door(const struct sandbox *s)
{
	if (s->note && s->spec->egress.learn)
		s->note(s->note_arg,
			"every public host is open while brig learns: what the command can read "
			"it can send away");
}

/* A run that is refused anyway, as one that may write to the cache folder, leaves no folder there.
 * A plan that is asked for no notes is whole: every guard has looked. */
static int may_make_folders(const struct sandbox *s, struct err *e)
{
	const char *const *unused = NULL;
	struct backend_plan *p = NULL;
	char folder[PATH_MAX];
	bool missing = false;

	if (volumes_find(s->spec, s->backend->name, s->o->arena, &unused, &missing, e) < 0)
		return -e->code;
	if (!missing &&
	    (s->spec->home != HOME_KEEP || kept_home_find(s->spec, s->backend->name, folder) == 0))
		return 0;
	if (s->backend->plan(s->spec, &p, NULL, e) < 0)
		return -e->code;
	(void)s->backend->plan_free(p);
	return 0;
}

static int keep_home(struct sandbox *s, struct err *e)
{
	if (s->spec->home != HOME_KEEP)
		return 0;
	if (kept_home_open(s->spec, s->backend->name, &s->home, e) < 0 ||
	    kept_home_spec(s->spec, s->home.folder, s->home.has_secret ? s->home.secret : NULL,
			   &s->own, e) < 0)
		return -e->code;
	s->spec = s->own;
	return 0;
}

static int keep_volumes(struct sandbox *s, struct err *e)
{
	if (!volumes_of(s->spec))
		return 0;
	if (!s->own) {
		s->own = spec_clone(s->spec, e);
		if (!s->own)
			return -e->code;
		s->own->command.argv = s->spec->command.argv;
	}
	if (volumes_open(s->own, s->backend->name, s->own->arena, s->note, s->note_arg, &s->volumes,
			 &s->own->volume_folders, e) < 0)
		return -e->code;
	s->spec = s->own;
	return 0;
}

/* Made before the plan, which changes nothing, and locked until the run has ended. */
static int keep_folders(struct sandbox *s, struct err *e)
{
	if (s->spec->home != HOME_KEEP && !volumes_of(s->spec))
		return 0;
	if (may_make_folders(s, e) < 0 || keep_home(s, e) < 0 || keep_volumes(s, e) < 0)
		return -e->code;
	if (s->only)
		s->only->spec = s->own;
	return 0;
}

/* An image of brig's own cannot go while it runs. */
static int hold_image(struct sandbox *s, struct err *e)
{
	if (image_use_open(s->spec, s->backend, &s->image, &s->own, e) < 0)
		return -e->code;
	if (!s->image.arena)
		return 0;
	s->spec = s->own;
	if (s->only)
		s->only->spec = s->own;
	s->o->image = arena_strdup(s->o->arena, s->image.held.record.root.id);
	return s->o->image ? 0 : err_nomem(e);
}

/* From choosing to the started command, or to a refusal, which *s->o tells. */
static void conduct(struct sandbox *s)
{
	const char *const *notes = NULL;
	uint64_t from = clock_us();
	struct err e = { 0 };

	if (run_begin_choose(s, s->note, s->note_arg, &e) < 0) {
		run_refuse(s->o, &e);
		return;
	}
	s->o->backend = s->backend->name;
	if (!s->only && !s->backend->exec) {
		(void)err_refuse(&e, ERR_UNAVAILABLE, ENOTSUP,
				 "open it on native or bwrap, or run each command by itself",
				 "backend '%s' cannot keep a sandbox open for commands",
				 s->backend->name);
		run_refuse(s->o, &e);
		return;
	}
	if (s->learn && !(s->backend->can & BACKEND_LEARNS)) {
		(void)err_refuse(&e, ERR_UNAVAILABLE, ENOTSUP,
				 "learn with --backend native, or run it and read brig audit show",
				 "brig cannot watch what a run of backend '%s' opens",
				 s->backend->name);
		run_refuse(s->o, &e);
		return;
	}
	if (s->spec->companions.n && !s->spec->members.n) {
		(void)err_refuse(
			&e, ERR_UNAVAILABLE, ENOTSUP,
			"brig sandbox create makes one, brig sandbox exec runs commands in it",
			"companions are beside a long-lived sandbox of the daemon alone");
		run_refuse(s->o, &e);
		return;
	}
	backends_tidy(s->spec->workdir ? s->spec->workdir : ".");
	/* The door's processes start while the plan is made. */
	if (spec_check_inputs(s->spec, &e) < 0 || run_ask_check(s, &e) < 0 ||
	    keep_folders(s, &e) < 0 || hold_image(s, &e) < 0 || run_layer_make(s, &e) < 0 ||
	    run_door_start(s, &e) < 0 || s->backend->plan(s->spec, &s->plan, &notes, &e) < 0) {
		run_refuse(s->o, &e);
		return;
	}
	s->o->phases.planned = clock_us();
	if (!(s->backend->can & (BACKEND_BARE | BACKEND_REMOTE)))
		s->o->workspace_target = arena_strdup(s->o->arena, s->spec->inside);
	for (const char *const *n = notes; s->note && n && *n; n++)
		s->note(s->note_arg, *n);
	note_unreachable(s);
	note_open_door(s);
	run_note_keys(s);
	if (run_agent_open(s, &e) < 0 || run_ports_open(s, &e) < 0) {
		run_refuse(s->o, &e);
		return;
	}
	run_start(s, from, &e);
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

/* ---- a sandbox, and the run that is one with its command ---- */

static void prepare_sandbox(struct sandbox *s)
{
	run_open_set_watches(s);
	run_open_set_timers(s);
	s->events = s->alarm = s->lives = -1;
	s->home = KEPT_HOME_NONE;
	s->layer = LAYER_NONE;
	s->image = IMAGE_USE_NONE;
	s->over = true; /* until something runs */
}

static void prepare_command(struct command_run *r)
{
	run_set_watches(r);
	run_set_timers(r);
	r->held = (struct buf)BUF_INIT(HELD_MAX);
	r->out.from = r->out.to = r->err.from = r->err.to = r->in.to = r->in.peer = -1;
	r->events = r->master = -1;
	r->over = true;
	r->o->timeout_ms = r->command->timeout;
}

/* The name it has on the record, and what it waits with. */
static int name_it(struct outcome *o, struct recorder **ret, const struct spec *spec,
		   const struct sandbox *of, struct loop **loop, struct err *e)
{
	o->dialect = spec->dialect_used;
	if (random_hex(o->id, sizeof(o->id), e) < 0 ||
	    (of ? recorder_join(spec, of->recorder, ret, e) : recorder_new(spec, ret, e)) < 0) {
		o->unrecorded = true;
		run_refuse(o, e);
		return -e->code;
	}
	if (loop_new_small(loop, e) < 0)
		run_refuse(o, e);
	return *loop ? 0 : -e->code;
}

static void *no_memory(struct outcome *o)
{
	struct err e;

	(void)err_nomem(&e);
	run_refuse(o, &e);
	return NULL;
}

struct command_run *run_begin(const struct spec *s, const struct run_io *io, note_fn *note,
			      void *note_arg, struct outcome *o)
{
	struct whole_run {
		struct sandbox sandbox; /* first: it is freed by that */
		struct command_run command;
	} *whole = calloc(1, sizeof(*whole));
	struct sandbox *sandbox = &whole->sandbox;
	struct command_run *r = &whole->command;
	struct err e = { 0 };

	if (!whole)
		return no_memory(o);
	*sandbox = (struct sandbox){ .spec = s,
				     .note = note,
				     .note_arg = note_arg,
				     .only = r,
				     .asker = io->asker,
				     .seat = io->seat,
				     .learn = io->learn,
				     .cancel = -1,
				     .o = o };
	*r = (struct command_run){ .spec = s,
				   .command = &s->command,
				   .io = *io,
				   .note = note,
				   .note_arg = note_arg,
				   .of = sandbox,
				   .o = o };
	prepare_sandbox(sandbox);
	prepare_command(r);
	if (name_it(o, &sandbox->recorder, s, NULL, &sandbox->loop, &e) < 0)
		return r;
	r->recorder = sandbox->recorder;
	r->loop = sandbox->loop;
	note_state(note, note_arg);
	conduct(sandbox);
	return r;
}

struct sandbox *run_open(const struct spec *s, int cancel, const struct run_io *io, note_fn *note,
			 void *note_arg, struct outcome *o)
{
	struct sandbox *sandbox = calloc(1, sizeof(*sandbox));
	struct err e = { 0 };

	if (!sandbox)
		return no_memory(o);
	*sandbox = (struct sandbox){ .spec = s,
				     .note = note,
				     .note_arg = note_arg,
				     .asker = io->asker,
				     .seat = io->seat,
				     .line = io->line,
				     .cancel = cancel,
				     .o = o };
	prepare_sandbox(sandbox);
	if (name_it(o, &sandbox->recorder, s, NULL, &sandbox->loop, &e) < 0)
		return sandbox;
	note_state(note, note_arg);
	conduct(sandbox);
	return sandbox;
}

/* ---- a command of a sandbox that is there ---- */

static void conduct_command(struct command_run *r)
{
	struct sandbox *s = r->of;
	uint64_t from = clock_us();
	struct err e = { 0 };

	r->o->backend = s->backend->name;
	r->o->phases.planned = from;
	if (s->ended || loop_fd(s->loop) < 0) {
		(void)err_set(&e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
		run_refuse(r->o, &e);
		return;
	}
	r->questions = unresolved_questions(s->unresolved);
	run_join(r, from, &e);
	if (r->over)
		return;
	r->next = s->commands;
	s->commands = r;
}

struct command_run *run_exec(struct sandbox *s, const struct spec *spec, const struct run_io *io,
			     note_fn *note, void *note_arg, struct outcome *o)
{
	struct command_run *r = calloc(1, sizeof(*r));
	struct err e = { 0 };

	if (!r)
		return no_memory(o);
	*r = (struct command_run){ .spec = spec,
				   .command = &spec->command,
				   .joins = true,
				   .of = s,
				   .io = *io,
				   .note = note,
				   .note_arg = note_arg,
				   .o = o };
	prepare_command(r);
	if (name_it(o, &r->recorder, spec, s, &r->loop, &e) == 0)
		conduct_command(r);
	/* One that was refused is not in the sandbox's list, and may outlive it. */
	if (r->over)
		r->of = NULL;
	return r;
}
