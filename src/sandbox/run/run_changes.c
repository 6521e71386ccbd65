/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_changes.c - what a layer would change, for who asks through the library: of an
 * open sandbox, which stands still meanwhile, or of a run that is over. */
#include "sandbox/run/run.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text/str.h"
#include "workspace/apply.h"

static int tell_changes(const struct layer *l, run_changes_put *put, void *arg, struct err *e)
{
	struct look_known *known = NULL, *own = NULL;
	struct look_want w = { .upper = l->upper, .workspace = -1, .about = &l->about };
	int r;

	if (layer_workspace(l, &w.workspace, e) < 0)
		return -e->code;
	(void)apply_known(w.workspace, &known, &w.known_count);
	(void)apply_own(l, &own, &w.own_count);
	w.known = known;
	w.own = own;
	r = look_text(&w, put, arg, e);
	free(known);
	free(own);
	(void)fd_close(w.workspace);
	return r;
}

static int no_overlay(struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ENOENT, "the user chooses it: workspace.mode overlay",
			  "the workspace is the folder itself: what was changed is there");
}

int run_open_changes(struct sandbox *s, run_changes_put *put, void *arg, struct err *e)
{
	const bool lives = run_living(s) > 0;
	struct err again;
	int r;

	if (s->layer.folder < 0)
		return no_overlay(e);
	if (lives && run_stand_still(s, true, e) < 0)
		return -e->code;
	r = tell_changes(&s->layer, put, arg, e);
	if (lives && run_stand_still(s, false, &again) < 0 && r == 0) {
		*e = again;
		r = -e->code;
	}
	return r;
}

/* Layers of other workspaces are none of its business. */
int run_changes(const struct spec *s, const char *run, run_changes_put *put, void *arg,
		struct err *e)
{
	struct layer l = LAYER_NONE;
	char here[PATH_MAX];
	const char *workspace = s->workdir;
	int r;

	if (!spec_has_layer(s))
		return no_overlay(e);
	if (!workspace && !(workspace = getcwd(here, sizeof(here)))) /* nobody has looked yet */
		return err_sys(e, "cannot tell the current folder");
	r = layer_open(run ? run : "last", workspace, LAYER_SHARED, &l, e);
	if (r == 0 && !str_eq(l.about.workspace, workspace))
		r = err_set(e, ERR_NOT_FOUND, ENOENT, "there is no layer of run '%.64s' here",
			    run ? run : "last");
	if (r == 0)
		r = tell_changes(&l, put, arg, e);
	layer_done(&l);
	return r;
}
