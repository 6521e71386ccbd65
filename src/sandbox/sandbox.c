/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/sandbox.c - a run in one call, and the plan of one. */
#include "sandbox/sandbox.h"

#include <limits.h>

#include "sandbox/home/kept_home.h"
#include "sandbox/home/volumes.h"
#include "sandbox/image_use.h"

void sandbox_run(const struct spec *s, const struct run_io *io, note_fn *note, void *note_arg,
		 struct outcome *o)
{
	run_end(run_begin(s, io, note, note_arg, o));
}

static void choice_json(const struct backend_choice *c, struct json *j)
{
	json_reopen(j);
	json_karray(j, "passed_over");
	for (size_t i = 0; i < c->passed_count; i++) {
		json_object(j);
		json_kstr(j, "backend", c->passed[i].backend->name);
		json_kstr(j, "reason", c->passed[i].why.what);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

int sandbox_plan(const struct spec *s, struct json *j, struct err *e)
{
	CLEANUP(image_use) struct image_use image = IMAGE_USE_NONE;
	CLEANUP(spec) struct spec *own = NULL;
	struct backend_plan *p = NULL;
	struct backend_choice c;
	char home[PATH_MAX];
	bool missing;

	if (backend_choose(s, &c, e) < 0)
		return -e->code;
	if (s->home == HOME_KEEP && kept_home_find(s, c.backend->name, home) == 0 &&
	    kept_home_spec(s, home, NULL, &own, e) < 0)
		return -e->code;
	if (volumes_of(s)) {
		if (!own && !(own = spec_clone(s, e)))
			return -e->code;
		own->command.argv = s->command.argv;
		if (volumes_find(own, c.backend->name, own->arena, &own->volume_folders, &missing,
				 e) < 0)
			return -e->code;
	}
	if (image_use_open(own ? own : s, c.backend, &image, &own, e) < 0)
		return -e->code;
	if (c.backend->plan(own ? own : s, &p, NULL, e) < 0)
		return -e->code;
	c.backend->plan_json(p, j);
	choice_json(&c, j);
	(void)c.backend->plan_free(p);
	return 0;
}
