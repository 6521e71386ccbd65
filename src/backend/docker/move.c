/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/move.c - a workspace that the image does not let be at its own path.
 *
 * That is known only when the image has been looked at, in the guard. Nobody asked for the place,
 * and so it is at WORKSPACE_PLACE instead, with all that lies in it. Both brig and the guard change
 * their plan, each its own. */
#include <string.h>

#include "backend/docker/docker.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

bool docker_is_work(const struct backend_plan *p, const char *target)
{
	const char *around = p->box->repository;

	return str_eq(target, p->box->cwd) ||
	       (around && str_eq(target, around) && !p->shows_repository);
}

/* What else shows it shows it with the plan's covers: not without them at the old place. */
static bool is_movable(const struct backend_plan *p)
{
	const char *from = p->box->cwd;

	if (!p->box->workspace || !p->movable || str_eq(from, WORKSPACE_PLACE))
		return false;
	for (size_t i = 0; i < p->box->op_count; i++) {
		const struct op *o = &p->box->ops[i];

		if (o->kind == OP_BIND && path_under(from, o->dst) && !docker_is_work(p, o->dst))
			return false;
	}
	return true;
}

/* Somebody asked for it, or for what it lies in, below the repository. */
static bool is_asked(const struct backend_plan *p, const char *dst)
{
	for (size_t i = 0; i < p->asked_count; i++)
		if (path_under(dst, p->asked[i]))
			return true;
	return false;
}

/* The repository stays behind: what git would find around the workspace is not there. What else
 * was asked for in that tree is. */
static void drop_repository(const struct backend_plan *p)
{
	struct box_plan *b = p->box;

	for (size_t i = 0; b->repository && i < b->op_count; i++)
		if (path_under(b->ops[i].dst, b->repository) &&
		    !path_under(b->ops[i].dst, b->cwd) && !is_asked(p, b->ops[i].dst))
			b->ops[i].kind = OP_DIR; /* which the image has, or not */
	b->repository = NULL;
}

bool docker_plan_move(struct backend_plan *p)
{
	struct box_plan *b = p->box;
	size_t n = strlen(b->cwd);

	if (!is_movable(p))
		return false;
	drop_repository(p);
	for (size_t i = 0; i < b->op_count; i++) {
		struct op *o = &b->ops[i];

		if (!path_under(o->dst, b->cwd))
			continue;
		o->dst = arena_printf(b->arena, WORKSPACE_PLACE "%s", o->dst + n);
		if (!o->dst)
			return false;
	}
	b->cwd = WORKSPACE_PLACE;
	return true;
}
