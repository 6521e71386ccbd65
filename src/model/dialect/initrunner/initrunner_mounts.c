/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/initrunner/initrunner_mounts.c - which folders of the host a role may show, and
 * where.
 *
 * Three questions for each source, by text alone: is it a place of the system, does it lie below a
 * permitted root (the role's folder, the working folder, mount_roots of trusted configuration), is
 * it the socket of a container engine. Links are refused when the sandbox is built. */
#include <string.h>

#include "base/text/str.h"
#include "model/dialect/foreign.h"
#include "model/dialect/initrunner/initrunner.h"
#include "model/settings/paths.h"

#define MOUNTS_MAX 256 /* of one role; each is compared with all before it */

struct wish {
	const char *source, *target;
	bool writable;
};

static int initrunner_mounts_refuse(const struct role_reader *r, const struct node *at,
				    const char *path, const char *why, struct err *e)
{
	(void)node_error(r->src->name, at, e, "%s%s'%.100s' %s", at->key ? at->key : "",
			 at->key ? ": " : "", path, why);
	e->kind = ERR_POLICY;
	e->code = EPERM;
	return -EPERM;
}

/* A root of "/" would permit everything, which is nobody's intention. */
static bool initrunner_mounts_below(const char *path, const char *root)
{
	return root && root[0] == '/' && root[1] && path_under(path, root);
}

static bool permitted(const struct role_reader *r, const char *path)
{
	bool home = r->cwd && r->src->home && str_eq(r->cwd, r->src->home);

	if (initrunner_mounts_below(path, r->src->folder) ||
	    initrunner_mounts_below(path, r->s->workdir))
		return true;
	/* A home folder is never shown as the workspace, so it is not a root either. */
	if (!r->s->workdir && !home && initrunner_mounts_below(path, r->cwd))
		return true;
	for (size_t i = 0; i < r->s->mount_roots.n; i++)
		if (initrunner_mounts_below(path, r->s->mount_roots.v[i]))
			return true;
	return false;
}

static int check_source(const struct role_reader *r, const struct node *at, const struct wish *w,
			struct err *e)
{
	if (strchr(w->source, ':'))
		return initrunner_mounts_refuse(r, at, w->source,
						"contains ':' and cannot be mounted", e);
	if (foreign_source(r->src, at, w->source, w->writable, e) < 0)
		return -e->code;
	if (!permitted(r, w->source)) {
		(void)initrunner_mounts_refuse(r, at, w->source,
					       "is outside the role's permitted folders", e);
		return err_hint(e,
				"these are the role's folder, the working folder and mount_roots "
				"in the user's own configuration");
	}
	return 0;
}

static int check_target(const struct role_reader *r, const struct node *at, const char *target,
			struct err *e)
{
	if (strchr(target, ':'))
		return initrunner_mounts_refuse(r, at, target, "contains ':' and cannot be mounted",
						e);
	if (str_eq(target, "/work/_run.py"))
		return initrunner_mounts_refuse(r, at, target, "is where brig puts Python code", e);
	return target_check(target, "/work", e) < 0 ? read_failed(r->src, at, e) : 0;
}

/* What this file has asked for so far, to find two mounts at one place. */
struct targets {
	const char **v;
	size_t n;
};

static int add_target(const struct role_reader *r, struct targets *t, const struct node *at,
		      const char *target, struct err *e)
{
	const char **slot;

	if (t->n == MOUNTS_MAX)
		return node_error(r->src->name, at, e, "more than %d mounts", MOUNTS_MAX);
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(t->v[i], target))
			return node_error(r->src->name, at, e, "two mounts at '%.100s'", target);
	slot = ARENA_PUSH(r->s->arena, t->v, t->n);
	if (!slot)
		return err_nomem(e);
	*slot = target;
	return 0;
}

static int read_paths(struct role_reader *r, const struct node *list, enum field_id id,
		      struct targets *t, struct err *e)
{
	struct wish w = { .writable = id == FIELD_WRITE };

	if (!list)
		return 0;
	if (list->kind == NODE_LIST)
		for (const struct node *n = list->first; n; n = n->next)
			if (read_path(r->s, r->src, n, &w.source, e) < 0 ||
			    check_source(r, n, &w, e) < 0 || check_target(r, n, w.source, e) < 0 ||
			    add_target(r, t, n, w.source, e) < 0)
				return -e->code;
	return read_list(r->s, r->src, id, list, e);
}

/* A member that must be there and must be text. */
static int need_text(const struct role_reader *r, const struct node *map, const char *key,
		     const struct node **at, const char **ret, struct err *e)
{
	*at = node_get(map, key);
	if (!*at)
		return node_error(r->src->name, map, e, "bind_mounts: '%s' is missing", key);
	if (read_text(r->src, *at, ret, e) < 0)
		return -e->code;
	return *ret && **ret ? 0 : node_error(r->src->name, *at, e, "%s: it is empty", key);
}

static int read_bind(struct role_reader *r, const struct node *map, struct targets *t,
		     struct err *e)
{
	static const char *const keys[] = { "source", "target", "read_only", NULL };
	const struct node *source, *target, *ro = node_get(map, "read_only");
	bool read_only = true;
	const char *text;
	struct wish w;

	if (map->kind != NODE_MAP)
		return node_error(r->src->name, map, e,
				  "bind_mounts: expected a map of source and target, not %s",
				  node_kind_name(map->kind));
	if (read_only_keys(r->src, map, keys, "bind_mounts", e) < 0 ||
	    need_text(r, map, "source", &source, &text, e) < 0 ||
	    need_text(r, map, "target", &target, &w.target, e) < 0)
		return -e->code;
	if (ro && ro->kind != NODE_NULL && node_bool(r->src->name, ro, &read_only, e) < 0)
		return -e->code;
	w.writable = !read_only;
	if (read_path(r->s, r->src, source, &w.source, e) < 0 ||
	    check_source(r, source, &w, e) < 0 || check_target(r, target, w.target, e) < 0 ||
	    add_target(r, t, target, w.target, e) < 0)
		return -e->code;
	return read_mount(r->s, r->src, map, w.source, w.target, w.writable, e);
}

static int read_binds(struct role_reader *r, const struct node *list, struct targets *t,
		      struct err *e)
{
	if (!list)
		return 0;
	if (list->kind != NODE_LIST && list->kind != NODE_NULL)
		return node_error(r->src->name, list, e, "bind_mounts: expected a list, not %s",
				  node_kind_name(list->kind));
	(void)spec_list_begin(r->s, FIELD_MOUNT, r->src->origin);
	for (const struct node *n = list->first; n; n = n->next)
		if (read_bind(r, n, t, e) < 0)
			return -e->code;
	return read_where(r->s, r->src, FIELD_MOUNT, list, e);
}

int role_read_mounts(struct role_reader *r, const struct node *sandbox, struct err *e)
{
	struct targets t = { 0 };

	if (read_paths(r, node_get(sandbox, "allowed_read_paths"), FIELD_READ, &t, e) < 0 ||
	    read_paths(r, node_get(sandbox, "allowed_write_paths"), FIELD_WRITE, &t, e) < 0)
		return -e->code;
	return read_binds(r, node_get(sandbox, "bind_mounts"), &t, e);
}
