/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/covered_check.c - what lies in covered folders, entry by entry, before a run
 * and afterwards.
 *
 * Through a cover nothing in there can be changed. But that there is no way around it was believed
 * three times and was wrong three times; and where the mounts are not locked there is one. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/protect/protect_internal.h"
#include "backend/kit/survey/covered.h"
#include "base/text/str.h"

struct covered_check {
	struct protect *t;
	const struct live_name *l;
	bool changed;
};

/* Not a git folder as a whole: the user's own git changes that, and others look at its parts. */
static bool is_listed(const struct live_name *l)
{
	char path[PATH_MAX];

	if (!l->n->covered || !l->n->existed || !S_ISDIR(l->n->was.ident.type))
		return false;
	return snprintf(path, sizeof(path), "%s/HEAD", l->n->path) < (int)sizeof(path) &&
	       faccessat(l->tree->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

static void look_at_all(struct covered_check *c,
			int (*each)(void *ctx, const char *path, const struct stat *st))
{
	struct covered_look look = { .left = COVERED_ENTRIES, .each = each, .ctx = c };

	for (size_t i = 0; i < c->t->name_count; i++) {
		c->l = &c->t->names[i];
		look.tree = c->l->tree->fd;
		if (is_listed(c->l) && covered_look(&look, c->l->n->path))
			return;
	}
}

/* As a name of the host's. false: it is longer than any that could be opened. */
static bool host_path(const struct covered_check *c, const char *path, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s/%s", c->l->tree->path + 1, path) < PATH_MAX;
}

static int covered_check_remember(void *ctx, const char *path, const struct stat *st)
{
	struct covered_check *c = ctx;
	const struct stamp now = stamp_of(st);
	char host[PATH_MAX];

	if (host_path(c, path, host))
		known_put_name(&c->t->covered.text, host, &now);
	return 0;
}

void protect_covered_begin(struct protect *t)
{
	struct covered_check c = { .t = t };

	known_done(&t->covered);
	t->listed = true;
	look_at_all(&c, covered_check_remember);
	(void)known_read(&t->covered); /* of what is not in the list is told that it changed */
}

/* Who changes what is in a git folder's hooks does not do so by the way. In other folders editors
 * keep their own notes, and write them all the time: where the kernel holds the covers it was them.
 */
static bool is_taken(const struct protect *t, const struct protected_name *n)
{
	bool git = false;

	for (size_t i = 0; i < t->plan->git_count; i++) {
		const struct git_folder *g = &t->plan->gits[i];

		git |= str_eq(g->tree, n->tree) && str_starts(n->path, g->path);
	}
	return git || t->unlocked;
}

/* A socket is a placeholder: they come and go. */
static int covered_check_compare(void *ctx, const char *path, const struct stat *st)
{
	struct covered_check *c = ctx;
	const struct stamp now = stamp_of(st);
	const struct known_thing *k;
	char host[PATH_MAX];

	k = host_path(c, path, host) ? known_name(&c->t->covered, host) : NULL;
	if (S_ISSOCK(st->st_mode) ||
	    (k && (S_ISDIR(st->st_mode) ? ident_same(&now.ident, &k->was.ident)
					: stamp_same(&now, &k->was))))
		return 0;
	c->changed = true;
	if (is_taken(c->t, c->l->n))
		quarantine(c->t, c->l->tree, path,
			   "changed during the run, in a folder that was covered");
	else
		protect_trust(c->t, c->l->tree, path,
			      "changed during the run, from outside: inside it was covered");
	return 0;
}

void protect_covered(struct protect *t)
{
	struct covered_check c = { .t = t };

	if (!t->listed) /* of a run that is dead */
		return;
	look_at_all(&c, covered_check_compare);
	if (c.changed) /* told once */
		protect_covered_begin(t);
}

void protect_unlocked(struct protect *t)
{
	if (t)
		t->unlocked = true;
}
