/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_store.c - what of a long-lived sandbox outlives a stop, as it is shown
 * inside.
 *
 * The enemy wrote what is in them. One that things of the host's are mounted into is shown only by
 * who makes mount points without following a link: others would follow one that was left there. */
#include "backend/kit/plan/plan_internal.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

static bool plan_store_below(const char *target, const char *dst)
{
	return target && path_under(target, dst) && !str_eq(target, dst);
}

static bool any_below(const struct strlist *l, const char *dst)
{
	for (size_t i = 0; i < l->n; i++)
		if (plan_store_below(l->v[i], dst))
			return true;
	return false;
}

/* Is anything mounted in there? */
static bool is_mounted_into(struct box_plan *p, const char *dst)
{
	const struct spec *s = p->spec;

	for (size_t i = 0; i < s->mounts.n; i++)
		if (plan_store_below(s->mounts.v[i].target, dst))
			return true;
	return plan_store_below(s->inside, dst) || plan_store_below(s->data_target, dst) ||
	       plan_store_below(p->repository, dst) || any_below(&s->read, dst) ||
	       any_below(&s->write, dst) ||
	       (s->git != GIT_NONE && plan_store_below(plan_git_goal(p), dst)) ||
	       (s->toolchains && str_eq(dst, p->home));
}

static int in_memory(struct box_plan *p, const char *dst, struct err *e)
{
	const char *text =
		arena_printf(p->arena,
			     "what is written to '%s' is in memory, and a stop drops it: something "
			     "is mounted in there, and backend '%s' would follow a link left there",
			     dst, p->backend);

	if (!text)
		return err_nomem(e);
	plan_note(p, text);
	return 0;
}

static bool follows_links(const struct box_plan *p)
{
	return !str_eq(p->backend, "native");
}

int plan_check_stored(const struct box_plan *p, struct err *e)
{
	for (size_t i = 0; p->store && follows_links(p) && i < p->op_count; i++)
		for (size_t k = 0; p->ops[i].stored && k < p->op_count; k++)
			if (plan_store_below(p->ops[k].dst, p->ops[i].dst))
				return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
						  "use backend native, or set limits.tmp",
						  "'%.200s' is to be shown in what outlives a "
						  "stop, where backend '%s' would follow a link",
						  p->ops[k].dst, p->backend);
	return 0;
}

int plan_stored(struct box_plan *p, enum store_place place, const char *dst, struct err *e)
{
	const char *folder;

	if (!p->spec->store)
		return 0;
	if (follows_links(p) && is_mounted_into(p, dst))
		return in_memory(p, dst, e);
	folder = arena_printf(p->arena, "%s/%s", p->spec->store, store_folders[place].name);
	if (!folder)
		return err_nomem(e);
	if (plan_bind_stored(p, folder, dst, e) < 0)
		return err_wrap(e, "store");
	p->store = arena_strdup(p->arena, p->spec->store);
	if (!p->store)
		return err_nomem(e);
	p->keeps |= 1U << place;
	if (place == STORE_LAYER) {
		p->stored_layer = true;
		p->writable_count--; /* it is gone before anybody enters the new root */
	}
	return 1;
}

/* No engine mounts a bound folder noexec. */
static bool is_noexec(const struct spec *s)
{
	return s->origin[FIELD_TMP_EXEC] != ORIGIN_DEFAULT && !s->tmp_exec;
}

/* Somebody asked for something else at that very place. */
static bool is_taken(const struct spec *s, const char *dst)
{
	for (size_t i = 0; i < s->mounts.n; i++)
		if (str_eq(s->mounts.v[i].target, dst))
			return true;
	for (size_t i = 0; i < s->read.n; i++)
		if (str_eq(s->read.v[i], dst))
			return true;
	for (size_t i = 0; i < s->write.n; i++)
		if (str_eq(s->write.v[i], dst))
			return true;
	return str_eq(s->inside, dst) || (s->data_target && str_eq(s->data_target, dst));
}

static int stored_tree(struct box_plan *p, enum store_place place, const char *dst, struct err *e)
{
	return is_taken(p->spec, dst) || plan_stored(p, place, dst, e) >= 0 ? 0 : -e->code;
}

int plan_stored_trees(struct box_plan *p, struct err *e)
{
	const struct spec *s = p->spec;

	if (!s->store)
		return 0;
	if (is_noexec(s))
		plan_note(p, "what is written to '/tmp' is in memory, and a stop drops it: "
			     "limits.tmp_exec is false, which the engine does not enforce on disk");
	else if (stored_tree(p, STORE_TMP, "/tmp", e) < 0)
		return -e->code;
	return s->home_folder ? 0 : stored_tree(p, STORE_HOME, p->home, e);
}

const char *plan_on_disk(const struct box_plan *p)
{
	if (p->layer)
		return p->layer;
	if (p->workspace || p->store)
		return p->workspace ? p->workspace : p->store;
	for (size_t i = 0; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];

		if ((o->kind == OP_BIND || o->kind == OP_BIND_FD) && o->writable && !o->fixed)
			return o->src;
	}
	return NULL;
}
