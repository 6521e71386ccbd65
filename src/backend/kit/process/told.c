/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/process/told.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text/cleanup.h"
#include "base/text/str.h"

#define TOLD_MAX 256 /* the others are told each time */

struct told {
	char *path;
	struct stamp was; /* all zero: it was not there */
};

void told_done(struct told_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
	*l = (struct told_list){ 0 };
}

static struct told *told_find(struct told_list *l, const char *path)
{
	struct told *more;

	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].path, path))
			return &l->v[i];
	more = l->n < TOLD_MAX ? realloc(l->v, (l->n + 1) * sizeof(*more)) : NULL;
	if (!more)
		return NULL;
	l->v = more;
	l->v[l->n] = (struct told){ .path = strdup(path) };
	return l->v[l->n].path ? &l->v[l->n++] : NULL;
}

/* Was it told, and as it is now? */
static bool known(struct told_list *l, int tree, const char *path)
{
	size_t before = l->n;
	struct told *t = told_find(l, path);
	struct stamp now = { 0 };
	struct stat st;
	bool same;

	if (!t)
		return false;
	if (fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		now = stamp_of(&st);
	same = l->n == before && stamp_same(&now, &t->was);
	t->was = now;
	return same;
}

void told_filter(struct told_list *l, const char *workspace, struct outcome *o, size_t from)
{
	CLEANUP(fd) int tree = -1;
	size_t left = from;

	if (from < o->trust_count)
		tree = fd_open_nolinks(AT_FDCWD, workspace, O_PATH | O_DIRECTORY, 0);
	for (size_t i = from; tree >= 0 && i < o->trust_count; i++)
		/* A commit is new each time: the file of that name says nothing of it. */
		if (str_starts(o->trust[i].reason, "in commit ") ||
		    !known(l, tree, o->trust[i].path))
			o->trust[left++] = o->trust[i];
	if (tree >= 0)
		o->trust_count = left;
}
