/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_layer.c - the layer that takes what a run writes to its workspace: made before
 * the plan, finished when nothing of the run lives any more. */
#include "sandbox/run/run.h"

#include <fcntl.h>

#include "base/files/fd.h"
#include "model/settings/fields.h"
#include "workspace/apply.h"

#define CLAIM_MS 1000 /* of who only looks */

/* An apply that was killed in this workspace is undone before anything is looked at. What cannot be
 * is told by the verbs. */
static void run_layer_settle(const struct spec *s)
{
	CLEANUP(fd) int folder = -1;
	struct err unused;

	if (!s->workdir)
		return;
	folder = fd_open_nolinks(AT_FDCWD, s->workdir, O_RDONLY | O_DIRECTORY, 0);
	if (folder >= 0)
		(void)apply_recover(folder, &unused);
}

int run_layer_make(struct sandbox *s, struct err *e)
{
	struct layer_want w = { .id = s->spec->layer_id ? s->spec->layer_id : s->o->id,
				.workspace = s->spec->workdir,
				.sandbox = s->only             ? NULL
					   : s->spec->layer_of ? s->spec->layer_of
							       : s->o->id };
	CLEANUP(fd) int folder = -1;

	run_layer_settle(s->spec);
	if (!spec_has_layer(s->spec))
		return 0;
	folder = fd_open_nolinks(AT_FDCWD, s->spec->workdir, O_PATH | O_DIRECTORY, 0);
	if (folder < 0)
		return 0; /* the plan refuses it, and says why */
	if (!s->own) {
		s->own = spec_clone(s->spec, e);
		if (!s->own)
			return -e->code;
		s->own->command.argv = s->spec->command.argv;
	}
	if ((s->spec->layer_id ? layer_take_up : layer_make)(&w, &s->layer, e) < 0)
		return -e->code;
	s->own->layer_folder = arena_strdup(s->own->arena, s->layer.path);
	if (!s->own->layer_folder)
		return err_nomem(e);
	s->spec = s->own;
	if (s->only)
		s->only->spec = s->own;
	s->o->workspace = fields[FIELD_WORKSPACE_MODE].words[WORKSPACE_OVERLAY];
	if (!s->layer.about.same_place && s->note)
		s->note(s->note_arg, "the layer is on another file system than the workspace: to "
				     "apply it copies what was written");
	return 0;
}

/* A run whose layer is not whole has lost what it wrote, whatever the command said. */
static void layer_is_lost(struct outcome *o, const struct err *why)
{
	if (o->kind == OUTCOME_REFUSED || (o->kind == OUTCOME_FAILED && o->error.code))
		return;
	o->kind = OUTCOME_FAILED;
	o->error = *why;
}

static void look_at(void *outcome, const char *path, const char *reason)
{
	outcome_trust(outcome, path, reason);
}

/* What the rules allow goes into the folder; the rest, and all where something is in conflict,
 * stays in the layer for who is there to judge it. */
static void apply_all(struct layer *l, struct outcome *o)
{
	struct apply_told t;

	o->layer_tried = true;
	if (apply_auto(l, &t, look_at, o, &o->layer_kept) == 0)
		err_clear(&o->layer_kept);
	o->layer_applied = t.done;
	o->layer_left = t.left;
}

static void apply_at_end(struct sandbox *s)
{
	if (claim_lock(s->layer.folder, CLAIM_MS)) {
		apply_all(&s->layer, s->o);
		return;
	}
	s->o->layer_tried = true;
	(void)err_set(&s->o->layer_kept, ERR_UNAVAILABLE, EBUSY, "somebody else has its layer");
}

/* A command of an open sandbox has ended, and no other runs. What it has left running stands still
 * meanwhile: nothing is written while it is looked at. */
void run_layer_after(struct sandbox *s, struct outcome *o)
{
	const bool lives = run_living(s) > 0;
	struct err e = { 0 };

	if (s->layer.folder < 0 || s->ended || s->commands ||
	    s->spec->workspace_apply != APPLY_AUTO)
		return;
	o->workspace = s->o->workspace;
	o->layer = arena_strdup(o->arena, s->layer.about.id);
	if (lives && run_stand_still(s, true, &e) < 0) {
		o->layer_tried = true;
		o->layer_kept = e;
		return;
	}
	s->layer.still = true;
	apply_all(&s->layer, o);
	s->layer.still = false;
	o->layer_changed = o->layer_applied + o->layer_left;
	if (lives && run_stand_still(s, false, &e) < 0)
		o->layer_kept = e;
}

void run_layer_end(struct sandbox *s)
{
	struct err e = { 0 };

	if (s->layer.folder < 0 || !s->o->started)
		return;
	s->lives = fd_close(s->lives); /* nothing of it writes any more */
	if (layer_finish(&s->layer, &e) < 0)
		layer_is_lost(s->o, &e);
	else if (s->spec->workspace_apply == APPLY_AUTO && s->layer.about.changed)
		apply_at_end(s);
	s->o->layer = arena_strdup(s->o->arena, s->layer.about.id);
	s->o->layer_changed = s->layer.about.changed;
	s->o->layer_more = s->layer.about.more;
	layer_done(&s->layer);
	(void)layer_prune(s->spec->layers_size, &e);
}

void run_layer_done(struct sandbox *s)
{
	struct err unused;

	if (s->layer.folder < 0)
		return;
	if (s->o->started) /* not heard to its end: what is there is damaged */
		layer_done(&s->layer);
	else
		(void)layer_drop(&s->layer, &unused);
}
