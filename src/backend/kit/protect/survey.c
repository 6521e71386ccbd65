/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/survey.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/protect/gitdirs.h"
#include "backend/kit/protect/neighbours.h"
#include "backend/kit/protect/pointer.h"
#include "backend/kit/protect/protect_internal.h"
#include "backend/kit/protect/seen.h"
#include "backend/kit/protect/walk.h"
#include "base/str.h"

struct surveyor {
	struct survey *s;
	int tree;
	const struct known_list *was;
	struct buf text;
	size_t more; /* times that a budget was too small, or paths too long */
	bool open;   /* what runs have made may be in the hands of one that lives */
	struct neighbours beside;
};

static void put_part(void *ctx, const struct git_part *part, const char *path,
		     const struct stat *st)
{
	struct surveyor *s = ctx;

	(void)part;
	if (neighbours_know(&s->beside, RECORD_PART, path, st))
		known_put(&s->text, RECORD_PART, path, st);
}

/* Counts what a plain one has not. */
static void count_odd(void *ctx, const struct git_part *part, const char *path,
		      const struct stat *st)
{
	struct {
		const struct known_list *was;
		size_t odd;
	} *c = ctx;

	(void)part;
	if (!known_same(c->was, path, st) && !str_ends_nocase(path, ".sample"))
		c->odd++;
}

/* One that a run has made stays so unless the user has changed it since. */
static bool still_made(const struct surveyor *s, const char *git)
{
	const struct known_thing *k = known_find(s->was, git);
	struct {
		const struct known_list *was;
		size_t odd;
	} c = { .was = s->was };

	if (!k || k->kind != RECORD_MADE)
		return false;
	if (!s->open)
		gitdir_parts(s->tree, git, count_odd, &c);
	return !c.odd;
}

static void on_git(struct git_walk *w, int fd, const char *git, unsigned parts)
{
	struct surveyor *s = w->ctx;
	bool made;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return;
	made = still_made(s, git) || !neighbours_know(&s->beside, RECORD_GIT, git, &st);
	if (gitdir_obeyed(parts) || gitdir_named(git))
		known_put(&s->text, made ? RECORD_MADE : RECORD_GIT, git, &st);
	gitdir_parts(s->tree, git, put_part, s);
}

static void on_thing(struct git_walk *w, enum walk_what what, const char *git, const char *path,
		     const struct stat *st)
{
	struct surveyor *s = w->ctx;

	(void)git;
	if (!neighbours_know(&s->beside, RECORD_PART, path, st))
		return;
	if (what == WALK_POINTER)
		pointer_put(&s->text, s->tree, path, st);
	else if (what == WALK_WRITTEN)
		known_put(&s->text, RECORD_PART, path, st);
}

static void on_more(struct git_walk *w, const char *git)
{
	struct surveyor *s = w->ctx;

	(void)git;
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

static int finish(struct surveyor *s, struct err *e)
{
	known_done(&s->s->known);
	s->s->known.text = s->text;
	return known_read(&s->s->known) ? 0 : err_nomem(e);
}

/* Of the tree as it is, by the same walk as afterwards: what it finds then and not now was made in
 * between. */
static int look(struct surveyor *s, struct err *e)
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

	record_seen_load(&s->s->ident, w.seen);
	put_top(s);
	walk_tree(&w);
	s->s->partial = s->more > w.more; /* nobody's work has paths that git cannot open */
	if (s->s->partial)
		known_put_partial(&s->text);
	s->s->seen = w.seen;
	s->s->fresh = true;
	return finish(s, e);
}

int survey_take(int tree, const struct ident *ident, struct survey *ret, struct err *e)
{
	CLEANUP(fd) int record = record_find(ident);
	CLEANUP(fd) int own = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct known_list was = KNOWN_LIST_NONE;
	struct surveyor s = { .s = ret, .tree = own, .was = &was, .text = BUF_INIT(RECORD_MAX) };
	bool there, whole = false;
	int r;

	*ret = (struct survey){ .ident = *ident, .known = KNOWN_LIST_NONE };
	if (own < 0)
		return err_sys(e, "cannot look through the workspace");
	if (record >= 0 && record_written_by_others(record)) {
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
	s.open = there && record_is_open(ident);
	r = neighbours_begin(&s.beside, own) ? look(&s, e) : err_nomem(e);
	neighbours_done(&s.beside);
	known_done(&was);
	return r;
}
