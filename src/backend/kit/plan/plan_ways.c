/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_ways.c - a second writable way to what has a place of its own.
 *
 * A cover lies over one path. The same folder may be shown by another: by a grant, or by a mount of
 * the host's in or around what is shown. Trees, and the mounts that are carried in with them, are
 * compared by their place on their file system, never by what a path looks like. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

/* The tree that decides what stands at a path inside: the innermost, and the last there. */
static const struct shown *shown_at(const struct sight *s, const char *inside)
{
	const struct shown *best = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (path_under(inside, s->v[i].inside) &&
		    (!best || strlen(s->v[i].inside) >= strlen(best->inside)))
			best = &s->v[i];
	return best;
}

/* Does the tree show `at`, which lies in it, or does another one lie over that? */
static bool is_seen(const struct sight *s, const struct shown *v, const struct where *at,
		    char inside[PATH_MAX])
{
	/* What is too long to be said counts as shown: who asks refuses it. */
	return snprintf(inside, PATH_MAX, "%s%s", v->inside, rest_of(at, &v->at)) >= PATH_MAX ||
	       shown_at(s, inside) == v;
}

static int plan_ways_refuse(const struct box_plan *p, const struct shown *v, const char *what,
			    struct err *e)
{
	(void)err_set(e, ERR_POLICY, EPERM, "'%.150s' would be a second way to write to %s",
		      v->at.real, what);
	return err_hint(e, "programs on the host obey it; the workspace is at '%s' inside",
			p->spec->inside);
}

/* As a whole, or a repository in it, which an index may name. Whoever can write to the folders
 * above the workspace puts another one in its place. */
static int guard_workspace(struct box_plan *p, const struct sight *s, struct err *e)
{
	const struct shown *own = p->workspace ? shown_at(s, p->spec->inside) : NULL;
	char git[PATH_MAX];
	struct stat st;

	for (size_t i = 0; own && i < s->n; i++) {
		const struct shown *v = &s->v[i];

		if (v == own || !v->writable)
			continue;
		if (within(&own->at, &v->at))
			return plan_ways_refuse(p, v, "the workspace", e);
		if (p->layered && within(&v->at, &own->at))
			return err_refuse(
				e, ERR_POLICY, EPERM,
				"leave it out: what is written there goes to the layer",
				"'%.200s' would be written itself, in a workspace under a "
				"layer",
				v->at.real);
		if (p->protected_count && within(&v->at, &own->at) &&
		    (snprintf(git, sizeof(git), "%s/.git", v->at.real) >= (int)sizeof(git) ||
		     lstat(git, &st) == 0))
			return plan_ways_refuse(p, v, "'.git' in the workspace", e);
	}
	return 0;
}

static int guard_name(struct box_plan *p, const struct sight *s, const struct protected_name *n,
		      struct err *e)
{
	char path[PATH_MAX], inside[PATH_MAX];
	struct where at;
	int r;

	/* No link is on the way to it, so that the list of mounts alone says where it is. */
	r = snprintf(path, sizeof(path), "%s/%s", n->tree, n->path) >= (int)sizeof(path)
		    ? -ENAMETOOLONG
		    : mounts_where_text(&s->mounts, p->arena, path, &at);
	if (r < 0)
		return err_set(e, ERR_POLICY, -r, "cannot say where '%.150s' is", n->path);
	for (size_t i = 0; i < s->n; i++) {
		const struct shown *v = &s->v[i];

		if (!v->writable || v->at.dev != at.dev)
			continue;
		/* A mount of the host's below a name is covered along with it. */
		if ((within(&at, &v->at) && is_seen(s, v, &at, inside) &&
		     !str_eq(inside, n->inside)) ||
		    (within(&v->at, &at) && !str_eq(v->at.path, at.path) &&
		     (v->asked || !path_under(v->inside, n->inside)))) {
			(void)snprintf(path, sizeof(path), "'%.150s' in the workspace", n->path);
			return plan_ways_refuse(p, v, path, e);
		}
	}
	return 0;
}

/* A protected link to a place outside: where the command may write there, by whatever grant, what
 * it leads to is compared afterwards. */
static void watch_link(struct box_plan *p, const struct sight *s, struct protected_name *n)
{
	char path[PATH_MAX];
	struct where at;

	if (n->link || !n->existed || !S_ISLNK(n->was.ident.type) ||
	    snprintf(path, sizeof(path), "%s/%s", n->tree, n->path) >= (int)sizeof(path) ||
	    mounts_find(&s->mounts, p->arena, path, &at) < 0)
		return;
	for (size_t i = 0; i < s->n; i++)
		n->link |= s->v[i].writable && within(&at, &s->v[i].at);
}

static bool is_covered(const struct box_plan *p, const char *inside)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].kind == OP_COVER && !p->ops[i].writable &&
		    str_eq(p->ops[i].dst, inside))
			return true;
	return false;
}

/* What was named to be read. */
static int guard_read(struct box_plan *p, const struct sight *s, const struct shown *read,
		      struct err *e)
{
	char inside[PATH_MAX];

	for (size_t i = 0; i < s->n; i++) {
		const struct shown *v = &s->v[i];

		/* By its own path both were asked for; plan_mounts has narrowed what is wider. */
		if (!v->writable || !within(&read->at, &v->at) ||
		    !is_seen(s, v, &read->at, inside) || str_eq(inside, read->inside) ||
		    is_covered(p, inside) || (v->asked && path_under(read->at.real, v->at.real)))
			continue;
		return err_refuse(e, ERR_POLICY, EPERM,
				  "a mount of the host's shows it there: grant a narrower folder",
				  "read: '%.150s' could be written at '%.150s' inside",
				  read->at.real, inside);
	}
	return 0;
}

/* Is something that the command could write to shown by another tree as well? Otherwise there is
 * one way to each name, and that is the name's own. */
static bool trees_meet(const struct sight *s)
{
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; s->v[i].writable && k < s->n; k++)
			if (k != i &&
			    (within(&s->v[i].at, &s->v[k].at) || within(&s->v[k].at, &s->v[i].at)))
				return true;
	return false;
}

int plan_ways(struct box_plan *p, const struct sight *s, struct err *e)
{
	const struct strlist *l = &p->spec->read;
	bool meet = trees_meet(s);

	if (guard_workspace(p, s, e) < 0)
		return -e->code;
	for (size_t i = 0; i < p->protected_count; i++) {
		watch_link(p, s, &p->protected[i]);
		if (meet && guard_name(p, s, &p->protected[i], e) < 0)
			return -e->code;
	}
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; s->v[i].asked && !s->v[i].writable && k < l->n; k++)
			if (str_eq(l->v[k], s->v[i].inside) && guard_read(p, s, &s->v[i], e) < 0)
				return -e->code;
	return 0;
}
