/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/covered.c - what lies in covered folders, entry by entry, before a run and
 * afterwards.
 *
 * Through a cover nothing in there can be changed. But that there is no way around it was believed
 * three times and was wrong three times; and where the mounts are not locked there is one. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/protect/covered.h"
#include "backend/kit/protect/gitdirs.h"
#include "backend/kit/protect/protect_internal.h"
#include "base/folder.h"
#include "base/str.h"

#define DEPTH_MAX 12

static bool is_left_out(const struct covered_look *l, const char *folder, const struct fd_entry *e)
{
	if (str_eq(folder, ".git/hooks"))
		return gitdir_is_sample(e->type, e->name);
	return l->git && str_ends_nocase(folder, "/objects") &&
	       (str_eq(e->name, "pack") ||
		(strspn(e->name, "0123456789abcdef") == 2 && !e->name[2]));
}

static int look_in(struct covered_look *l, const char *folder, int depth)
{
	CLEANUP(fd) int fd = fd_open_nolinks(l->tree, folder, O_RDONLY | O_DIRECTORY, FD_BENEATH);
	const struct fd_entry *en;
	char path[PATH_MAX];
	struct folder d;
	struct stat st;
	int r = 0;

	folder_begin(&d, fd);
	while (fd >= 0 && r == 0 && l->left > 0 && (en = folder_next(&d))) {
		if (is_left_out(l, folder, en) ||
		    snprintf(path, sizeof(path), "%s/%s", folder, en->name) >= (int)sizeof(path) ||
		    fstatat(fd, en->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		l->left--;
		r = l->each(l->ctx, path, &st);
		l->deep |= S_ISDIR(st.st_mode) && depth == DEPTH_MAX;
		if (r == 0 && S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			r = look_in(l, path, depth + 1);
	}
	return r;
}

int covered_look(struct covered_look *l, const char *folder)
{
	return look_in(l, folder, 1);
}

/* ---- of a run ---- */

struct covered_check {
	struct protect *t;
	struct outcome *o;
	const struct protected_name *name;
	int tree;
	bool changed;
};

/* Not a git folder as a whole: the user's own git changes that, and others look at its parts. */
static bool is_listed(int tree, const struct protected_name *n)
{
	char path[PATH_MAX];

	if (tree < 0 || !n->covered || !n->existed || !S_ISDIR(n->was.ident.type))
		return false;
	return snprintf(path, sizeof(path), "%s/HEAD", n->path) < (int)sizeof(path) &&
	       faccessat(tree, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

static void look_at_all(struct covered_check *c,
			int (*each)(void *ctx, const char *path, const struct stat *st))
{
	struct covered_look l = { .left = COVERED_ENTRIES, .each = each, .ctx = c };
	struct err e;

	for (size_t i = 0; i < c->t->plan->protected_count; i++) {
		c->name = &c->t->plan->protected[i];
		l.tree = c->tree = protect_tree(c->t, c->name->tree, &e);
		if (is_listed(c->tree, c->name) && covered_look(&l, c->name->path))
			return;
	}
}

/* As a name of the host's. false: it is longer than any that could be opened. */
static bool host_path(const struct covered_check *c, const char *path, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s/%s", c->name->tree + 1, path) < PATH_MAX;
}

static int remember(void *ctx, const char *path, const struct stat *st)
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
	look_at_all(&c, remember);
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
static int compare(void *ctx, const char *path, const struct stat *st)
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
	if (is_taken(c->t, c->name))
		quarantine(c->t, c->o, c->tree, path,
			   "changed during the run, in a folder that was covered");
	else if (c->o)
		outcome_trust(c->o, path,
			      "changed during the run, from outside: inside it was covered");
	return 0;
}

void protect_covered(struct protect *t, struct outcome *o)
{
	struct covered_check c = { .t = t, .o = o };

	if (!t->listed) /* of a run that is dead */
		return;
	look_at_all(&c, compare);
	if (c.changed) /* told once */
		protect_covered_begin(t);
}

void protect_unlocked(struct protect *t)
{
	if (t)
		t->unlocked = true;
}
