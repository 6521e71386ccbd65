/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/apply_obeyed.c - what the settings and links of one workspace lead to, and no table of
 * names has: the folder of core.hooksPath, the files that git includes, what a hook is a link to,
 * brig's own settings.
 *
 * The plan of a direct run knows it, and is asked: what such a run is refused comes by name only.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend/kit/plan/plan.h"
#include "backend/kit/survey/gitdirs.h"
#include "backend/kit/survey/protected_names.h"
#include "base/text/str.h"
#include "model/settings/paths.h"
#include "workspace/apply_guard.h"

#define REASON "a setting or link that the host obeys leads there"
#define UNSAID "git does not say what the settings of this repository lead to"
#define UNKNOWN "what the host obeys here cannot be told"

/* Sorted, by letters: in others it may be the same file. */
struct name_set {
	const char **v;
	size_t n;
};

struct obeyed {
	struct arena *arena;
	struct name_set names, above, unsaid; /* above: the folders that names lie in */
};

static int by_letters(const void *a, const void *b)
{
	return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

static bool in_set(const struct name_set *s, const char *name)
{
	return s->n && bsearch(&name, s->v, s->n, sizeof(*s->v), by_letters);
}

static int set_add(struct obeyed *o, struct name_set *s, const char *name)
{
	const char **slot = ARENA_PUSH(o->arena, s->v, s->n);

	if (!slot)
		return -ENOMEM;
	*slot = name;
	return 0;
}

static void set_sort(struct name_set *s)
{
	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_letters);
}

/* The tables' own have rules of their own, which know a folder from a file. */
static bool has_a_rule(const char *path)
{
	for (size_t i = 0; i < guarded_name_count; i++)
		if (strcasecmp(path, guarded_names[i].name) == 0)
			return true;
	return gitdir_named(path);
}

static int obeyed_add(struct obeyed *o, const char *path)
{
	int r = set_add(o, &o->names, path);

	for (const char *slash = strchr(path, '/'); r == 0 && slash;
	     slash = strchr(slash + 1, '/')) {
		const char *folder = arena_printf(o->arena, "%.*s", (int)(slash - path), path);

		r = folder ? set_add(o, &o->above, folder) : -ENOMEM;
	}
	return r;
}

/* Below the working tree whose settings they are, or else in the git folder. */
static int add_unsaid(struct obeyed *o, const struct box_plan *p, const struct git_config *c)
{
	const char *at = c->root ? c->root : c->git;
	size_t n = strlen(p->workspace);

	return set_add(o, &o->unsaid,
		       at && path_under(at, p->workspace) && at[n] ? at + n + 1 : "");
}

static int obeyed_take(struct obeyed *o, const struct box_plan *p)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->protected_count; i++)
		if (str_eq(p->protected[i].tree, p->workspace) && !has_a_rule(p->protected[i].path))
			r = obeyed_add(o, p->protected[i].path);
	for (size_t i = 0; r == 0 && i < p->config_count; i++)
		if (p->configs[i].unsaid)
			r = add_unsaid(o, p, &p->configs[i]);
	set_sort(&o->names);
	set_sort(&o->above);
	set_sort(&o->unsaid);
	return r;
}

static void obeyed_set(struct change *c, const char *why, size_t at)
{
	c->obeyed = why;
	c->obeyed_at = at;
}

/* Is it one of the names, or in one, or does it take away a folder that one is in? */
static void obeyed_one(const struct obeyed *o, struct change *c)
{
	const size_t n = strlen(c->path);
	char part[PATH_MAX];

	obeyed_set(c, in_set(&o->unsaid, "") ? UNSAID : NULL, n);
	if (n >= sizeof(part)) {
		obeyed_set(c, UNKNOWN, n);
		return;
	}
	memcpy(part, c->path, n + 1);
	if ((c->kind == CHANGE_DELETED || c->kind == CHANGE_TYPE || S_ISLNK(c->now.mode)) &&
	    in_set(&o->above, part))
		obeyed_set(c, REASON, n);
	for (char *slash = part; slash; slash = strrchr(part, '/')) {
		if (slash != part)
			*slash = '\0';
		if (in_set(&o->names, part))
			obeyed_set(c, REASON, strlen(part));
		else if (!c->obeyed && in_set(&o->unsaid, part))
			obeyed_set(c, UNSAID, n);
	}
}

static int obeyed_plan(const char *workspace, struct spec **s, struct box_plan **p, struct err *e)
{
	*s = spec_new(e);
	if (!*s)
		return -e->code;
	(*s)->workdir = (*s)->inside = workspace;
	(*s)->policy = POLICY_WORKSPACE_WRITE;
	(*s)->git = GIT_WRITE;
	(*s)->workspace_mode = WORKSPACE_DIRECT;
	return box_plan_obeyed(*s, p, e);
}

void guard_obeyed(const char *workspace, struct change_list *l)
{
	CLEANUP(spec) struct spec *s = NULL;
	CLEANUP(box_plan) struct box_plan *p = NULL;
	struct obeyed o = { 0 };
	const char *unknown = NULL;
	struct err e = { 0 };

	if (!l->n)
		return;
	if (obeyed_plan(workspace, &s, &p, &e) < 0) {
		unknown = arena_printf(l->arena, UNKNOWN ": %s", e.what);
		unknown = unknown ? unknown : UNKNOWN;
	} else {
		o.arena = p->arena;
		unknown = obeyed_take(&o, p) < 0 ? UNKNOWN : NULL;
	}
	for (size_t i = 0; i < l->n; i++)
		if (unknown)
			obeyed_set(&l->v[i], unknown, strlen(l->v[i].path));
		else
			obeyed_one(&o, &l->v[i]);
}
