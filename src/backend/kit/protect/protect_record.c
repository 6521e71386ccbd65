/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/protect_record.c - a run and the records: of the trees that it may write to,
 * and of those in which something was made while it lived.
 *
 * A descriptor can be given to any other run of the user's and written to when the check of the one
 * that made the file is over. So what a run has made while others lived is looked at again when
 * each of them ends, whatever its policy and wherever it is. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/protect_internal.h"
#include "backend/kit/protect/seen.h"
#include "backend/kit/protect/survey.h"
#include "base/arena.h"
#include "base/str.h"

#define FOREIGN_MAX 64 /* trees that one run looks at again */

static void name_of(const struct ident *i, char out[64])
{
	(void)snprintf(out, 64, "%llx-%llx", (unsigned long long)i->dev,
		       (unsigned long long)i->ino);
}

/* Files with other names have become private copies since. */
static int restamp(const struct protect *t, struct tree *tree, struct err *e)
{
	for (size_t i = 0; i < t->plan->shared_count; i++) {
		const struct shared_file *f = &t->plan->shared[i];
		struct stat st;

		if (str_eq(f->tree, tree->path) &&
		    fstatat(tree->fd, f->path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !known_restamp(&tree->known, f->path, &st))
			return err_nomem(e);
	}
	return 0;
}

/* What stands in the record from now on is what was there before the command. */
static int join(struct protect *t, struct survey *s, struct tree *tree, struct err *e)
{
	bool alone, whole;
	int r;

	tree->ident = s->ident;
	tree->seen = TAKE_PTR(s->seen);
	tree->record = record_open(t->live, &s->ident, e);
	if (tree->record < 0)
		return -e->code;
	r = record_join(tree->record, &alone);
	if (r < 0)
		return err_errno(e, r, "cannot lock brig's record of '%s'", tree->path);
	if (s->fresh && alone) {
		tree->known = s->known;
		s->known = (struct known_list)KNOWN_LIST_NONE;
	} else if (!record_load(tree->record, &tree->known, &whole, NULL)) {
		return err_refuse(e, ERR_UNAVAILABLE, EAGAIN, "start again",
				  "another run did not get to write brig's record of '%s'",
				  tree->path);
	}
	if (restamp(t, tree, e) < 0)
		return -e->code;
	if (!alone)
		return 0;
	r = record_store(tree->record, tree->path, &tree->known.text, false);
	record_share(tree->record);
	return r < 0 ? err_errno(e, r, "cannot write brig's record of '%s'", tree->path) : 0;
}

int protect_records_begin(struct protect *t, struct err *e)
{
	t->live = record_live(e);
	if (t->live < 0)
		return -e->code;
	for (size_t i = 0; t->writable && i < t->plan->survey_count; i++) {
		struct plan_survey *s = &t->plan->surveys[i];

		if (protect_tree(t, s->tree, e) < 0)
			return -e->code;
		for (size_t k = 0; k < t->tree_count; k++)
			if (str_eq(t->trees[k].path, s->tree) &&
			    join(t, &s->survey, &t->trees[k], e) < 0)
				return -e->code;
	}
	return 0;
}

/* The next record, if nobody else writes there. */
static void store(int live, const struct tree *tree, const struct buf *text, bool made,
		  struct outcome *o)
{
	char name[64];
	int r;

	if (!record_alone(tree->record))
		return;
	r = record_store(tree->record, tree->path, text->failed ? &tree->known.text : text, true);
	if (r < 0 && o)
		outcome_deny(o, "protected-path", ".",
			     "brig's record of the repositories in here could not be written: the "
			     "next run takes those that runs have made for yours");
	record_seen_store(live, &tree->ident, tree->seen);
	name_of(&tree->ident, name);
	if (made && record_others(live))
		record_leave_open(live, &tree->ident);
	else
		record_close(live, name);
}

void protect_records_judge(struct protect *t, struct outcome *o, bool last)
{
	for (size_t i = 0; i < t->tree_count; i++) {
		CLEANUP(buf) struct buf text = BUF_INIT(RECORD_MAX);
		struct tree *tree = &t->trees[i];
		bool made;

		if (tree->record < 0)
			continue;
		if (last)
			seen_freeze(tree->seen);
		else if (!tree->seen)
			tree->seen = seen_new(tree->fd);
		made = judge_tree(t, o, tree, &text);
		if (last)
			store(t->live, tree, &text, made, o);
	}
}

/* ---- trees of others ---- */

/* A tree that is not this run's, with its record; nobody writes there. */
static struct tree *foreign_tree(struct protect *f, const char *path, const struct ident *ident,
				 int record)
{
	struct err e;
	int fd = protect_tree(f, path, &e);
	struct tree *tree = fd < 0 ? NULL : &f->trees[f->tree_count - 1];
	struct stat st;

	if (!tree || fstat(fd, &st) < 0 || st.st_dev != ident->dev || st.st_ino != ident->ino)
		return NULL;
	tree->ident = *ident;
	tree->record = record;
	return tree;
}

/* By its path on the host where it is not this run's workspace. */
static void tell_of(const struct protect *t, struct outcome *o, const char *path,
		    const struct outcome *there)
{
	bool own = t->plan->workspace && str_eq(t->plan->workspace, path);
	char target[PATH_MAX];

	for (size_t i = 0; o && i < there->denial_count; i++) {
		const struct denial *d = &there->denials[i];

		(void)snprintf(target, sizeof(target), "%s%s%s", own ? "" : path, own ? "" : "/",
			       d->target);
		outcome_deny(o, "protected-path", target, d->reason);
	}
}

static void look_again(struct protect *t, struct outcome *o, const char *name)
{
	CLEANUP(outcome) struct outcome *there = outcome_new();
	CLEANUP(buf) struct buf path = BUF_INIT(PATH_MAX), text = BUF_INIT(RECORD_MAX);
	struct box_plan plan = { 0 };
	struct protect f = { .plan = &plan, .id = t->id, .moved = t->moved };
	struct known_list known = KNOWN_LIST_NONE;
	struct ident ident;
	struct tree *tree;
	struct err e;
	int record = record_ident(name, &ident) ? record_open(t->live, &ident, &e) : -1;
	bool whole = false;

	if (record >= 0 && there && record_alone(record) &&
	    record_load(record, &known, &whole, &path) && whole) {
		plan.workspace = f.asker.avoid = buf_str(&path);
		tree = foreign_tree(&f, buf_str(&path), &ident, record);
		if (tree) {
			tree->known = known;
			judge_made(&f, there, tree, &text);
			store(t->live, tree, &text, true, there);
			tell_of(t, o, buf_str(&path), there);
		} else {
			record_close(t->live, name); /* it is gone */
		}
	}
	t->moved = f.moved;
	(void)fd_close(record);
	known_done(&known);
	for (size_t i = 0; i < f.tree_count; i++)
		(void)fd_close(f.trees[i].fd);
}

void protect_records_others(struct protect *t, struct outcome *o)
{
	CLEANUP(buf) struct buf names = BUF_INIT(FOREIGN_MAX * 64);
	char reason[128];
	size_t more;

	if (t->live < 0)
		return;
	more = record_open_ones(t->live, &names, FOREIGN_MAX);
	for (const char *name = NULL; (name = gitsay_next(&names, name));)
		look_again(t, o, name);
	if (!more || !o || record_others(t->live))
		return;
	(void)snprintf(reason, sizeof(reason),
		       "%llu more workspaces in which runs made repositories at the same time were "
		       "not looked at again",
		       (unsigned long long)more);
	outcome_deny(o, "protected-path", ".", reason);
}

void protect_records_dead(struct protect *t, struct outcome *o, const char *path, const char *name)
{
	CLEANUP(fd) int live = -1, record = -1;
	CLEANUP(buf) struct buf text = BUF_INIT(RECORD_MAX);
	struct ident ident;
	struct tree *tree;
	bool whole, made;
	struct err e;

	if (!record_ident(name, &ident) || (live = record_live(&e)) < 0 ||
	    (record = record_open(live, &ident, &e)) < 0 || !record_alone(record))
		return; /* who writes there judges it */
	tree = foreign_tree(t, path, &ident, record);
	if (!tree)
		return;
	if (record_load(record, &tree->known, &whole, NULL) && !whole) {
		made = judge_tree(t, o, tree, &text);
		store(live, tree, &text, made, o);
	}
	tree->record = -1; /* closed here */
}
