/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/made.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/kit/survey/gitdirs.h"
#include "base/files/fd.h"
#include "base/files/mounts.h"
#include "base/files/state.h"
#include "base/text/arena.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

struct made_look {
	const struct known_list *was;
	size_t odd;
};

/* Counts what a plain one has not. */
static void count_odd(void *ctx, const struct git_part *part UNUSED, const char *path,
		      const struct stat *st)
{
	struct made_look *l = ctx;

	if (!known_same(l->was, path, st) && !str_ends_nocase(path, ".sample"))
		l->odd++;
}

bool made_still(const struct known_list *was, int tree, const char *git)
{
	const struct known_thing *k = known_find(was, git);
	struct made_look l = { .was = was };

	if (!k || k->kind != RECORD_MADE)
		return false;
	if (tree >= 0)
		gitdir_parts(tree, git, count_odd, &l);
	return !l.odd;
}

/* By the record of one tree, if it has one; `path` is that of the `.git` in it. */
static bool made_in(int records, const char *tree, const char *path)
{
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, tree, O_PATH | O_DIRECTORY, 0);
	CLEANUP(fd) int record = -1;
	struct known_list l = KNOWN_LIST_NONE;
	struct ident ident;
	bool whole, made = false;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	ident = ident_of(&st);
	record = record_find(records, &ident);
	if (record >= 0 && record_load(record, &l, &whole, NULL) && record_is_of(&l, fd, false))
		made = made_still(&l, whole ? fd : -1, path) || (!whole && !known_find(&l, path));
	known_done(&l);
	return made;
}

/* By the records of that folder and of all above it, by this path. */
static bool made_along(int records, const char *folder)
{
	char tree[PATH_MAX], path[PATH_MAX + 8];
	char *slash;

	if (snprintf(path, sizeof(path), "%s/.git", folder) >= (int)sizeof(path))
		return false;
	for (slash = strrchr(path, '/'); slash > path;
	     slash = memrchr(path, '/', (size_t)(slash - path))) {
		(void)snprintf(tree, sizeof(tree), "%.*s", (int)(slash - path), path);
		if (made_in(records, tree, slash + 1))
			return true;
	}
	return false;
}

/* The run may have known the folder by another mount of it. */
static bool made_elsewhere(int records, const char *folder)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)32 << 20);
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, folder, O_PATH | O_DIRECTORY, 0);
	char path[PATH_MAX];
	struct mounts m;
	struct where w;
	struct err e;

	if (!a || fd < 0 || mounts_read(a, &m, &e) < 0 || mounts_where(&m, a, fd, &w) < 0)
		return true;
	for (size_t i = 0; i < m.n; i++) {
		const struct mount *v = &m.v[i];
		const char *rest = w.path + (str_eq(v->root, "/") ? 0 : strlen(v->root));

		if (v->dev == w.dev && path_under(w.path, v->root) &&
		    snprintf(path, sizeof(path), "%s%s", str_eq(v->point, "/") ? "" : v->point,
			     rest) < (int)sizeof(path) &&
		    !str_eq(path, folder) && made_along(records, path))
			return true;
	}
	return false;
}

bool made_by_run(const char *folder)
{
	CLEANUP(fd) int records = state_find(RECORD_FOLDER, NULL, 0);

	return records >= 0 && (made_along(records, folder) || made_elsewhere(records, folder));
}
