/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/survey.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kit/survey/gitdirs.h"
#include "backend/kit/survey/made.h"
#include "backend/kit/survey/pointer.h"
#include "backend/kit/survey/reach.h"
#include "backend/kit/survey/seen.h"
#include "backend/kit/survey/walk.h"
#include "base/files/state.h"
#include "base/text/str.h"

/* ---- the trees that other runs write to now, and that lie above this one or below it ----
 *
 * What is in one of them when a run begins may be that other run's, which has not been judged: it
 * is the user's only if the record of that tree has it as it is. */

struct neighbour {
	char at[PATH_MAX];   /* its path in the tree; "" when that lies in it */
	char from[PATH_MAX]; /* the tree's path in it; "" when it lies in the tree */
	struct known_list known;
};

struct neighbours {
	int tree, records;
	struct neighbour *v;
	size_t n;
	char looked[PATH_MAX]; /* the folders on the way there have been asked for */
};

/* One more, if somebody writes there. false: no memory. */
static bool meet_neighbour(struct neighbours *b, const struct stat *st, const char *at,
			   const char *from)
{
	const struct ident ident = ident_of(st);
	CLEANUP(fd) int record = record_find(b->records, &ident);
	struct neighbour *more;
	bool whole;

	if (record < 0 || !record_locked(record))
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
	char real[PATH_MAX];
	struct stat st;

	if (fd_real_path(b->tree, real) < 0 || real[0] != '/' || !real[1])
		return true;
	for (char *cut = real + strlen(real); at >= 0 && cut > real;) {
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		(void)fd_close(at);
		at = up;
		while (*--cut != '/')
			;
		if (at < 0 || fstat(at, &st) < 0 || !meet_neighbour(b, &st, "", cut + 1))
			return at < 0;
	}
	return true;
}

static bool neighbours_begin(struct neighbours *b, int tree, int records)
{
	*b = (struct neighbours){ .tree = tree, .records = records };
	return records < 0 || look_above(b);
}

/* The folders from the tree down to what the path names, but for those that were asked for with the
 * path before. */
static bool look_below(struct neighbours *b, const char *path)
{
	char part[PATH_MAX];
	struct stat st;

	for (size_t n = 0; path_grow(path, &n, part);) {
		if (strncmp(b->looked, part, n) == 0 && (!b->looked[n] || b->looked[n] == '/'))
			continue;
		if (fstatat(b->tree, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
		    !meet_neighbour(b, &st, part, ""))
			return false;
		(void)snprintf(b->looked, sizeof(b->looked), "%s", part);
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

/* Is it, as it is, in the record of every neighbour that it lies in? `kind` is what it must be. */
static bool neighbours_know(struct neighbours *b, enum record_kind kind, const char *path,
			    const struct stat *st)
{
	char there[2 * PATH_MAX];

	if (b->records < 0)
		return true;
	if (!look_below(b, path))
		return false;
	for (size_t i = 0; i < b->n; i++)
		if (path_there(&b->v[i], path, there) && !knows(&b->v[i], kind, there, st))
			return false;
	return true;
}

static void neighbours_done(struct neighbours *b)
{
	for (size_t i = 0; i < b->n; i++)
		known_done(&b->v[i].known);
	free(b->v);
	b->v = NULL;
	b->n = 0;
}

/* ---- the survey ---- */

struct surveyor {
	struct survey *s;
	int tree, records;
	const struct known_list *was;
	struct buf text;
	size_t more; /* times that a budget was too small, or paths too long */
	bool open;   /* what runs have made may be in the hands of one that lives */
	struct neighbours beside;
};

static void put_part(void *ctx, const struct git_part *part UNUSED, const char *path,
		     const struct stat *st)
{
	struct surveyor *s = ctx;

	if (neighbours_know(&s->beside, RECORD_PART, path, st))
		known_put(&s->text, RECORD_PART, path, st);
}

static void on_git(struct git_walk *w, int fd, const char *git, unsigned parts)
{
	struct surveyor *s = w->ctx;
	bool made;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return;
	made = made_still(s->was, s->open ? -1 : s->tree, git) ||
	       !neighbours_know(&s->beside, RECORD_GIT, git, &st);
	if (gitdir_obeyed(parts) || gitdir_named(git))
		known_put(&s->text, made ? RECORD_MADE : RECORD_GIT, git, &st);
	gitdir_parts(s->tree, git, put_part, s);
}

static void on_thing(struct git_walk *w, enum walk_what what, const char *git UNUSED,
		     const char *path, const struct stat *st)
{
	struct surveyor *s = w->ctx;

	if (!neighbours_know(&s->beside, RECORD_PART, path, st))
		return;
	if (what == WALK_POINTER)
		pointer_put(&s->text, s->tree, path, st);
	else if (what == WALK_WRITTEN)
		known_put(&s->text, RECORD_PART, path, st);
}

static void on_more(struct git_walk *w, const char *git UNUSED)
{
	struct surveyor *s = w->ctx;

	s->more++;
}

/* What would make the tree itself a git folder, and is the user's. */
static void put_top(struct surveyor *s)
{
	struct stat st;

	for (size_t i = 0; i < GIT_NAMES; i++)
		if (fstatat(s->tree, git_names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			known_put(&s->text, RECORD_PART, git_names[i], &st);
}

/* Of the tree as it is, by the same walk as afterwards: what it finds then and not now was made in
 * between. */
static int survey_look(struct surveyor *s, struct err *e)
{
	struct git_walk w = { .tree = s->tree,
			      .known = s->was,
			      .outside = WALK_OUTSIDE,
			      .inside = WALK_INSIDE,
			      .no_names = true,
			      .seen = seen_new(s->tree),
			      .on_git = on_git,
			      .on_thing = on_thing,
			      .on_more = on_more,
			      .ctx = s,
			      .gits = WALK_GITS };

	record_seen_load(s->records, &s->s->ident, w.seen);
	put_top(s);
	walk_tree(&w);
	s->s->partial = s->more > w.more; /* nobody's work has paths that git cannot open */
	if (s->s->partial)
		known_put_partial(&s->text);
	s->s->seen = w.seen;
	s->s->fresh = true;
	known_done(&s->s->known);
	s->s->known.text = s->text;
	return known_read(&s->s->known) ? 0 : err_nomem(e);
}

int survey_take(int tree, const struct ident *ident, struct survey *ret, struct err *e)
{
	CLEANUP(fd) int records = state_find(RECORD_FOLDER, NULL, 0);
	CLEANUP(fd) int record = record_find(records, ident);
	CLEANUP(fd) int own = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct known_list was = KNOWN_LIST_NONE;
	struct surveyor s = {
		.s = ret, .tree = own, .records = records, .was = &was, .text = BUF_INIT(RECORD_MAX)
	};
	bool there, whole = false;
	int r;

	*ret = (struct survey){ .ident = *ident, .known = KNOWN_LIST_NONE };
	if (own < 0)
		return err_sys(e, "cannot look through the workspace");
	if (record >= 0 && record_locked(record)) {
		(void)record_load(record, &ret->known, &whole, NULL);
		return 0;
	}
	there = record >= 0 && record_load(record, &was, &whole, NULL) &&
		record_is_of(&was, own, false);
	if (!there)
		known_done(&was);
	if (there && !whole) {
		ret->known = was;
		return 0;
	}
	s.open = there && record_is_open(records, ident);
	r = neighbours_begin(&s.beside, own, records) ? survey_look(&s, e) : err_nomem(e);
	neighbours_done(&s.beside);
	known_done(&was);
	return r;
}
