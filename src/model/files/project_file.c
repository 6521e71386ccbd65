/* SPDX-License-Identifier: Apache-2.0 */
#include "model/files/project_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/exposed.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define NAME ".brig.yaml"
#define BOUND ".git"

static bool exists(struct arena *a, const char *folder, const char *name, const char **ret)
{
	const char *path = arena_printf(a, "%s/%s", str_eq(folder, "/") ? "" : folder, name);

	if (!path || faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (ret)
		*ret = path;
	return true;
}

/* The current folder has no links in its path, HOME may: both forms count. */
static bool is_home(const char *home, const char *real, const char *folder)
{
	return home && (str_eq(folder, home) || (real && str_eq(folder, real)));
}

/* To the folder above; false: there is none. */
static bool go_up(char *folder)
{
	char *slash = strrchr(folder, '/');

	if (!slash || slash == folder)
		return false;
	*slash = '\0';
	return true;
}

const char *project_file_find(struct arena *a, const char *home, const char *start)
{
	CLEANUP(mem) char *real = home ? realpath(home, NULL) : NULL;
	const char *found = NULL;
	char *folder = arena_strdup(a, start);

	if (!folder || str_eq(start, "/") || is_home(home, real, start))
		return NULL;
	if (exists(a, start, NAME, &found))
		return found;
	while (!exists(a, folder, BOUND, NULL)) {
		if (!go_up(folder))
			return NULL;
		if (is_home(home, real, folder))
			return found;
		if (!found)
			(void)exists(a, folder, NAME, &found);
	}
	return found;
}

static bool is_guests(const char *path)
{
	struct err why = { 0 };

	return exposed_path(path, NULL, 0, &why);
}

static int project_file_add(struct arena *a, struct strlist *l, const char *path, const char *but,
			    struct err *e)
{
	const char **slot;

	if (but && str_eq(path, but))
		return 0;
	slot = ARENA_PUSH(a, l->v, l->n);
	if (!slot)
		return err_nomem(e);
	*slot = path;
	return 0;
}

/* All up to the last bound. With `ask` a bound that no guest can have made is the last one. */
static int gather(struct arena *a, const char *home, const char *start, const char *nearest,
		  bool ask, struct strlist *ret, struct err *e)
{
	CLEANUP(mem) char *real = home ? realpath(home, NULL) : NULL;
	char *folder = arena_strdup(a, start);
	struct strlist l = { 0 };
	const char *path;

	ret->n = 0;
	if (!folder)
		return err_nomem(e);
	do {
		if (is_home(home, real, folder)) {
			*ret = l;
			return 0;
		}
		if (exists(a, folder, NAME, &path) && project_file_add(a, &l, path, nearest, e) < 0)
			return -e->code;
		if (exists(a, folder, BOUND, &path)) {
			*ret = l;
			if (ask && !is_guests(path))
				return 0;
		}
	} while (go_up(folder));
	return 0;
}

int project_file_above(struct arena *a, const char *home, const char *folder, const char *nearest,
		       struct strlist *ret, struct err *e)
{
	*ret = (struct strlist){ 0 };
	if (gather(a, home, folder, nearest, false, ret, e) < 0)
		return -e->code;
	if (!ret->n) /* as a rule */
		return 0;
	if (nearest && !is_guests(nearest)) {
		ret->n = 0;
		return 0;
	}
	return gather(a, home, folder, nearest, true, ret, e);
}
