/* SPDX-License-Identifier: Apache-2.0 */
/* backend/bwrap/bwrap.c - namespaces and mounts made by bubblewrap, everything else by brig. */
#include <stdlib.h>

#include "backend/bwrap/launch.h"
#include "base/text/str.h"
#include "model/settings/paths.h"
#include "model/settings/spec_writes.h"

struct backend_plan {
	struct box_plan *box;
	struct bwrap_program program;
};

static struct backend_plan *bwrap_plan_free(struct backend_plan *p)
{
	if (p)
		(void)box_plan_free(p->box);
	free(p);
	return NULL;
}
DEFINE_CLEANUP(bwrap_plan, struct backend_plan *, bwrap_plan_free)

/* Two values of settings that it knows are native's alone: refused when somebody wrote them. */
static int bwrap_honours(const struct spec *s, struct err *e)
{
	const char *what = NULL;

	if (spec_wrote(s, FIELD_READ_ONLY_ROOT) && !s->read_only_root)
		what = "a writable root (read_only_root: false)";
	if (spec_wrote(s, FIELD_TMP_EXEC) && !s->tmp_exec)
		what = "a /tmp without programs (limits.tmp_exec: false)";
	/* It mounts a device by its name: nobody could compare what it has found there. */
	if (spec_asks(s, FIELD_GPUS) || spec_asks(s, FIELD_GPU))
		return backend_cannot(s, "bwrap", s->gpus ? FIELD_GPUS : FIELD_GPU, NULL, e);
	if (!what)
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "backend 'native' can",
			  "backend 'bwrap' cannot honour %s", what);
}

/* bubblewrap has made all other mounts by the time the overlay is made: it would hide those that
 * lie in the workspace, and cannot be made over them. */
static int nothing_in_workspace(const struct box_plan *p, struct err *e)
{
	const char *inside = NULL;

	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].kind == OP_LAYER)
			inside = p->ops[i].dst;
	for (size_t i = 0; inside && i < p->op_count; i++) {
		const struct op *o = &p->ops[i];

		if (o->skip || o->kind == OP_LAYER || !path_under(o->dst, inside) ||
		    str_eq(o->dst, inside))
			continue;
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "backend 'native' can",
				  "backend 'bwrap' cannot show '%.200s' in an overlay workspace",
				  o->dst);
	}
	return 0;
}

/* Settings that nobody wrote, but that a dialect brings along: not refused, and not kept quiet. */
static void note_differences(struct box_plan *p, const struct spec *s)
{
	if (!s->read_only_root)
		box_plan_note(p, "backend bwrap: the root is read-only; a writable one needs "
				 "--backend native");
	if (!s->tmp_exec)
		box_plan_note(p, "backend bwrap: programs in /tmp can be run; --backend native "
				 "forbids it");
}

static int bwrap_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
		      struct err *e)
{
	CLEANUP(bwrap_plan) struct backend_plan *p = calloc(1, sizeof(*p));
	const char *const *places;

	if (!p)
		return err_nomem(e);
	/* The descriptors of its operations are made first of all. */
	if ((notes ? box_plan_begin : box_plan_new)(s, "bwrap", &p->box, e) < 0 ||
	    box_plan_names(p->box, e) < 0)
		return -e->code;
	if (spec_places(p->box->arena, s, &places, e) < 0 ||
	    bwrap_find(p->box->arena, places, &p->program, e) < 0)
		return -e->code;
	if (nothing_in_workspace(p->box, e) < 0)
		return -e->code;
	p->box->read_only_root = true;
	note_differences(p->box, s);
	if (notes)
		*notes = p->box->notes;
	*ret = TAKE_PTR(p);
	return 0;
}

static void bwrap_plan_json(const struct backend_plan *p, struct json *j)
{
	struct bwrap_args args;
	struct err e;

	json_object(j);
	box_plan_members(p->box, j);
	json_kstr(j, "program", p->program.path);
	json_karray(j, "args");
	if (bwrap_args(p->box, &p->program.has, &args, &e) == 0)
		for (size_t i = 0; i < args.n; i++)
			json_str(j, args.v[i].text);
	json_array_end(j);
	json_object_end(j);
}

static int bwrap_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		       struct backend_job **ret, struct err *e)
{
	struct launch l = LAUNCH_INIT(p->box, p->program);
	int r = box_start(&bwrap_kind, p->box, &l, w, io, ret, e);

	launch_done(&l);
	return r;
}

static int bwrap_probe(const struct spec *s, struct isolation *ret, struct err *e)
{
	(void)s; /* what a machine can do does not depend on what is asked of it */
	return box_probe(&backend_bwrap, ret, e);
}

static int bwrap_program(struct arena *a, const char **path, struct err *e)
{
	struct bwrap_program p = { 0 };

	if (bwrap_find(a, NULL, &p, e) < 0)
		return -e->code;
	*path = p.path;
	return 0;
}

static const struct maker_ops bwrap_maker_ops = { .program = bwrap_program };

const struct backend backend_bwrap = {
	.name = "bwrap",
	.can = BACKEND_SHOWS_CODE | BACKEND_LEARNS | BACKEND_PERMITS | BACKEND_PROXY |
	       BACKEND_FILES,
	.kind = BACKEND_BWRAP,
	.bit = ON_NATIVE | ON_BWRAP, /* it shows native's world, and honours the same rows */
	.maker = &bwrap_maker_ops,
	.open = &box_open_ops,
	.probe = bwrap_probe,
	.check = bwrap_honours,
	.plan = bwrap_plan,
	.plan_json = bwrap_plan_json,
	.plan_free = bwrap_plan_free,
	.start = bwrap_start,
	.event = box_event,
	.signal = box_signal,
	.finish = box_finish,
	.exec = box_exec,
	.ended = box_ended,
	.began = box_began,
};
