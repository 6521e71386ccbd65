/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/native.c - namespaces made by brig itself, with no program in between. */
#include <linux/sched.h>
#include <sched.h>
#include <stdlib.h>

#include "backend/kit/net/user_cable.h"
#include "backend/native/child.h"
#include "backend/native/mount.h"
#include "image/store/image_store.h"
#include "model/dialect/companions.h"

#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

/* The plan of a native run is the world alone. */
struct backend_plan {
	struct box_plan *box;
};

static struct backend_plan *native_plan_free(struct backend_plan *p)
{
	if (p)
		(void)box_plan_free(p->box);
	free(p);
	return NULL;
}
DEFINE_CLEANUP(native_plan, struct backend_plan *, native_plan_free)

static int native_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
		       struct err *e)
{
	CLEANUP(native_plan) struct backend_plan *p = calloc(1, sizeof(*p));

	if (!p)
		return err_nomem(e);
	if ((notes ? box_plan_begin : box_plan_new)(s, "native", &p->box, e) < 0)
		return -e->code;
	if (notes)
		*notes = p->box->notes;
	*ret = TAKE_PTR(p);
	return 0;
}

static void native_plan_json(const struct backend_plan *p, struct json *j)
{
	box_plan_json(p->box, j);
}

static void native_enter(const struct box_start *c)
{
	child_main(c);
}

static int native_spawn(struct backend_job *j, struct box_start *c, struct err *e)
{
	uint64_t flags = NAMESPACES;

	if (j->plan->network != NETWORK_HOST)
		flags |= CLONE_NEWNET;
	/* A cgroup namespace made by clone would show the name of our own leaf inside. */
	if (!j->cgroup)
		flags |= CLONE_NEWCGROUP;
	return box_clone(j, c, flags, native_enter, e);
}

static const struct box_kind kind = { .waits = mount_can_wait, .spawn = native_spawn };

static int native_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
			struct backend_job **ret, struct err *e)
{
	return box_start(&kind, p->box, NULL, w, io, ret, e);
}

static int native_probe(const struct spec *s, struct isolation *ret, struct err *e)
{
	(void)s; /* what a machine can do does not depend on what is asked of it */
	if (!ret && box_tried())
		return 0;
	if (box_probe(&backend_native, ret, e) < 0)
		return -e->code;
	if (!ret)
		box_note_trial();
	return 0;
}

/* What an image needs and cannot have is told before anything begins. */
static int check_image(const struct spec *s, struct err *e)
{
	if (!s->image)
		return 0;
	if (!image_is_here(s->image))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "brig image import FILE adds one; --backend docker pulls it",
				  "image '%.100s' is not among brig's own", s->image);
	if (spec_wrote(s, FIELD_GPUS))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "backend 'docker' can",
				  "backend 'native' shows no GPUs in an image");
	return 0;
}

static int native_check(const struct spec *s, struct err *e)
{
	const char *path;

	if (check_image(s, e) < 0)
		return -e->code;
	if (companions_check(s, false, e) < 0)
		return -e->code;
	return s->network == NETWORK_BRIDGE ? user_cable_find(&path, e) : 0;
}

const struct backend backend_native = {
	.name = "native",
	.kind = BACKEND_NATIVE,
	.bit = ON_NATIVE,
	.can = BACKEND_SHOWS_CODE | BACKEND_LEARNS | BACKEND_AWAITS | BACKEND_PERMITS |
	       BACKEND_PROXY | BACKEND_BRIDGE | BACKEND_FILES | BACKEND_IMAGES,
	.open = &box_open_ops,
	.probe = native_probe,
	.check = native_check,
	.plan = native_plan,
	.plan_json = native_plan_json,
	.plan_free = native_plan_free,
	.start = native_start,
	.event = box_event,
	.signal = box_signal,
	.finish = box_finish,
	.exec = box_exec,
	.ended = box_ended,
	.began = box_began,
};
