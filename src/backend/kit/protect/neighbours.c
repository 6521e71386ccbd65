/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/neighbours.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/state.h"
#include "base/str.h"

struct neighbour {
	char at[PATH_MAX];   /* its path in the tree; "" when that lies in it */
	char from[PATH_MAX]; /* the tree's path in it; "" when it lies in the tree */
	struct known_list known;
};

/* One more, if somebody writes there. */
static bool look_at(struct neighbours *b, const struct stat *st, const char *at, const char *from)
{
	const struct ident ident = ident_of(st);
	CLEANUP(fd) int record = record_find(&ident);
	struct neighbour *more;
	bool whole;

	if (record < 0 || !record_written_by_others(record))
		return true;
	more = realloc(b->v, (b->n + 1) * sizeof(*more));
	if (!more)
		return false;
	b->v = more;
	more += b->n++;
	*more = (struct neighbour){ .known = KNOWN_LIST_NONE };
	(void)snprintf(more->at, sizeof(more->at), "%s", at);
	(void)snprintf(more->from, sizeof(more->from), "%s", from);
	/* One that cannot be read has nothing of the user's. */
	(void)record_load(record, &more->known, &whole, NULL);
	return true;
}

/* Each folder above, with the way down from it. */
static bool look_above(struct neighbours *b)
{
	CLEANUP(fd) int at = openat(b->tree, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char link[32], real[PATH_MAX];
	struct stat st;
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", b->tree);
	n = readlink(link, real, sizeof(real) - 1);
	if (n <= 1 || real[0] != '/')
		return true;
	real[n] = '\0';
	for (char *cut = real + n; at >= 0 && cut > real;) {
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		(void)fd_close(at);
		at = up;
		while (*--cut != '/')
			;
		if (at < 0 || fstat(at, &st) < 0 || !look_at(b, &st, "", cut + 1))
			return at < 0;
	}
	return true;
}

/* Does anybody live? The folder of records is locked by all. */
static bool others_live(void)
{
	CLEANUP(fd) int folder = state_find(RECORD_FOLDER, NULL, 0);

	return folder >= 0 && record_others(folder);
}

bool neighbours_begin(struct neighbours *b, int tree)
{
	*b = (struct neighbours){ .tree = tree, .any = others_live() };
	return !b->any || look_above(b);
}

/* The folders from the tree down to what the path names, but for those that were asked for with the
 * path before. */
static bool look_below(struct neighbours *b, const char *path)
{
	char part[PATH_MAX];
	struct stat st;

	for (size_t n = 0; path[n]; n++) {
		n += strcspn(path + n, "/");
		(void)snprintf(part, sizeof(part), "%.*s", (int)n, path);
		if (strncmp(b->looked, part, n) != 0 || (b->looked[n] && b->looked[n] != '/')) {
			if (fstatat(b->tree, part, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			    S_ISDIR(st.st_mode) && !look_at(b, &st, part, ""))
				return false;
			(void)snprintf(b->looked, sizeof(b->looked), "%s", part);
		}
		if (!path[n])
			break;
	}
	return true;
}

/* The path as the neighbour's record has it; false: it does not lie there. */
static bool path_there(const struct neighbour *n, const char *path, char out[2 * PATH_MAX])
{
	size_t len = strlen(n->at);

	if (len && (strncmp(path, n->at, len) != 0 || (path[len] && path[len] != '/')))
		return false;
	path += len + (len && path[len] == '/');
	(void)snprintf(out, 2 * PATH_MAX, "%s%s%s", n->from, *n->from && *path ? "/" : "", path);
	return true;
}

static bool knows(const struct neighbour *n, enum record_kind kind, const char *path,
		  const struct stat *st)
{
	const struct known_thing *k = known_find(&n->known, path);

	if (kind == RECORD_PART)
		return known_same(&n->known, path, st);
	return k && k->kind == kind && k->was.ident.dev == st->st_dev &&
	       k->was.ident.ino == st->st_ino;
}

bool neighbours_know(struct neighbours *b, enum record_kind kind, const char *path,
		     const struct stat *st)
{
	char there[2 * PATH_MAX];

	if (!b->any)
		return true;
	if (!look_below(b, path))
		return false;
	for (size_t i = 0; i < b->n; i++)
		if (path_there(&b->v[i], path, there) && !knows(&b->v[i], kind, there, st))
			return false;
	return true;
}

void neighbours_done(struct neighbours *b)
{
	for (size_t i = 0; i < b->n; i++)
		known_done(&b->v[i].known);
	free(b->v);
	b->v = NULL;
	b->n = 0;
}
