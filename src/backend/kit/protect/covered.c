/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/covered.c - what lies in covered folders, entry by entry, before a run and
 * afterwards.
 *
 * Through a cover nothing in there can be changed. But that there is no way around it was believed
 * three times and was wrong three times; and where the mounts are not locked there is one. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kit/protect/gitdirs.h"
#include "backend/kit/protect/protect_internal.h"
#include "base/folder.h"
#include "base/str.h"

#define ENTRIES_MAX 2000
#define DEPTH_MAX 12

struct covered_entry {
	const char *tree, *path;
	struct stamp stamp;
};

/* Calls `each` for all that a folder holds; false from it ends the walk. */
struct covered_walk {
	struct protect *t;
	struct outcome *o;
	const struct protected_name *name;
	int tree, left;
	bool (*each)(struct covered_walk *w, const char *path, const struct stat *st);
	bool changed;
};

static bool look_in(struct covered_walk *w, const char *folder, int depth)
{
	CLEANUP(fd) int fd = fd_open_nolinks(w->tree, folder, O_RDONLY | O_DIRECTORY, FD_BENEATH);
	bool go_on = true, hooks = str_eq(folder, ".git/hooks");
	const struct fd_entry *en;
	char path[PATH_MAX];
	struct folder d;
	struct stat st;

	folder_begin(&d, fd);
	while (go_on && fd >= 0 && (en = folder_next(&d))) {
		if ((hooks && gitdir_is_sample(en->type, en->name)) ||
		    snprintf(path, sizeof(path), "%s/%s", folder, en->name) >= (int)sizeof(path) ||
		    fstatat(fd, en->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    S_ISSOCK(st.st_mode)) /* runs' placeholders come and go */
			continue;
		go_on = w->left-- > 0 && w->each(w, path, &st) &&
			(!S_ISDIR(st.st_mode) || depth == DEPTH_MAX || look_in(w, path, depth + 1));
	}
	return go_on;
}

/* Not a git folder as a whole: the user's own git changes that, and others look at its parts. */
static bool is_listed(int tree, const struct protected_name *n)
{
	char path[PATH_MAX];

	if (tree < 0 || !n->covered || !n->existed || !S_ISDIR(n->was.ident.type))
		return false;
	return snprintf(path, sizeof(path), "%s/HEAD", n->path) < (int)sizeof(path) &&
	       faccessat(tree, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

static void walk_all(struct covered_walk *w)
{
	struct err e;

	w->left = ENTRIES_MAX;
	for (size_t i = 0; i < w->t->plan->protected_count; i++) {
		w->name = &w->t->plan->protected[i];
		w->tree = protect_tree(w->t, w->name->tree, &e);
		if (is_listed(w->tree, w->name) && !look_in(w, w->name->path, 1))
			return;
	}
}

static bool remember(struct covered_walk *w, const char *path, const struct stat *st)
{
	struct arena *a = w->t->plan->arena;
	struct covered_entry *slot = ARENA_PUSH(a, w->t->covered, w->t->covered_count);
	const char *copy = slot ? arena_strdup(a, path) : NULL;

	if (!copy) {
		w->t->covered_count -= slot != NULL;
		return false;
	}
	*slot = (struct covered_entry){ .tree = w->name->tree,
					.path = copy,
					.stamp = stamp_of(st) };
	return true;
}

static int by_place(const void *a, const void *b)
{
	const struct covered_entry *x = a, *y = b;
	int r = strcmp(x->tree, y->tree);

	return r ? r : strcmp(x->path, y->path);
}

void protect_covered_begin(struct protect *t)
{
	struct covered_walk w = { .t = t, .each = remember };

	t->covered = NULL;
	t->covered_count = 0;
	t->listed = true;
	walk_all(&w);
	if (t->covered_count)
		qsort(t->covered, t->covered_count, sizeof(*t->covered), by_place);
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

static bool compare(struct covered_walk *w, const char *path, const struct stat *st)
{
	const struct covered_entry key = { .tree = w->name->tree, .path = path };
	const struct covered_entry *was =
		w->t->covered_count
			? bsearch(&key, w->t->covered, w->t->covered_count, sizeof(key), by_place)
			: NULL;
	struct stamp now = stamp_of(st);

	if (was && (S_ISDIR(st->st_mode) ? ident_same(&now.ident, &was->stamp.ident)
					 : stamp_same(&now, &was->stamp)))
		return true;
	w->changed = true;
	if (is_taken(w->t, w->name))
		quarantine(w->t, w->o, w->tree, path,
			   "changed during the run, in a folder that was covered");
	else if (w->o)
		outcome_trust(w->o, path,
			      "changed during the run, from outside: inside it was covered");
	return true;
}

void protect_covered(struct protect *t, struct outcome *o)
{
	struct covered_walk w = { .t = t, .o = o, .each = compare };

	if (!t->listed) /* of a run that is dead */
		return;
	walk_all(&w);
	if (w.changed) /* told once */
		protect_covered_begin(t);
}

void protect_unlocked(struct protect *t)
{
	if (t)
		t->unlocked = true;
}
