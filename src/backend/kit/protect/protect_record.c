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

#include "backend/kit/protect/dead.h"
#include "backend/kit/protect/journal.h"
#include "backend/kit/protect/protect_internal.h"
#include "backend/kit/survey/protected_names.h"
#include "backend/kit/survey/seen.h"
#include "backend/kit/survey/survey.h"
#include "base/files/folder.h"
#include "base/files/lives.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "base/text/arena.h"
#include "base/text/str.h"

#define FOREIGN_MAX 64 /* trees that one run looks at again */

/* Files with other names have become private copies since. */
static void restamp(const struct protect *t, struct tree *tree)
{
	for (size_t i = 0; i < t->plan->shared_count; i++) {
		const struct shared_file *f = &t->plan->shared[i];
		struct stat st;

		if (str_eq(f->tree, tree->path) &&
		    fstatat(tree->fd, f->path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			known_restamp(&tree->known, f->path, &st);
	}
}

/* The protected names of a run in the tree, for whoever finishes its check. Names that a
 * placeholder holds are the journal's. What another run knew before stands. */
static void put_names(const struct protect *t, const struct tree *tree, struct buf *ret)
{
	struct stamp began = { 0 };

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &began.mtime);
	if (!known_name(&tree->known, ""))
		known_put_name(ret, "", &began);
	for (size_t i = 0; i < t->name_count; i++) {
		const struct live_name *l = &t->names[i];

		if (!l->placeholder && !l->n->file && l->tree == tree &&
		    !known_name(&tree->known, l->n->path))
			known_put_name(ret, l->n->path, l->n->existed ? &l->n->was : NULL);
	}
}

/* What stands in the record from now on is what was there before the command. */
static int write_down(struct protect *t, struct tree *tree, bool needed, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(RECORD_MAX);
	size_t known;
	int r = 0;

	for (size_t i = 0; i < tree->known.n; i++)
		known_keep(&text, &tree->known.v[i]);
	known = text.len;
	put_names(t, tree, &text);
	if (needed || text.len > known)
		r = record_store(tree->record, tree->fd, tree->path, &text, false);
	record_share(tree->record);
	if (r == 0)
		return 0;
	(void)err_errno(e, r, "cannot write down what the run must not change in '%s'", tree->path);
	return err_hint(e, "make room where brig keeps its state; brig doctor names the folder");
}

static int protect_record_join(struct protect *t, struct survey *s, struct tree *tree,
			       struct err *e)
{
	bool alone, whole = true;
	int r;

	tree->ident = s->ident;
	tree->seen = TAKE_PTR(s->seen);
	tree->record = record_open(t->live, &s->ident, e);
	if (tree->record < 0)
		return -e->code;
	r = record_join(tree->record, &alone);
	if (r < 0)
		return err_errno(e, r, "cannot lock brig's record of '%s'", tree->path);
	tree->joined = !s->fresh || !alone;
	if (!t->plan->workspace ||
	    !str_eq(tree->path, t->plan->workspace)) /* which is marked already */
		(void)record_mark(t->live, RECORD_LIVE, &tree->ident);
	if (!tree->joined) {
		tree->known = s->known;
		s->known = (struct known_list)KNOWN_LIST_NONE;
	} else if (!record_load(tree->record, &tree->known, &whole, NULL)) {
		return err_refuse(e, ERR_UNAVAILABLE, EAGAIN, "start again",
				  "another run did not get to write brig's record of '%s'",
				  tree->path);
	}
	restamp(t, tree);
	return write_down(t, tree, alone || whole, e);
}

int protect_records_begin(struct protect *t, struct err *e)
{
	for (size_t i = 0; i < t->plan->survey_count; i++) {
		struct plan_survey *s = &t->plan->surveys[i];

		struct tree *tree = protect_tree(t, s->tree, e);

		if (!tree || protect_record_join(t, &s->survey, tree, e) < 0)
			return -e->code;
	}
	t->beat = clock_us();
	return 0;
}

void protect_records_touch(struct protect *t)
{
	t->beat = clock_us();
	for (size_t i = 0; i < t->tree_count; i++)
		if (t->trees[i].record >= 0)
			(void)futimens(t->trees[i].record, NULL);
}

/* ---- names ---- */

/* Of a run that is dead: `beat` was its last sign of life; NULL: others lived on, and look at what
 * there was themselves. */
static void judge_name(struct protect *t, const struct tree *tree, const struct known_thing *k,
		       const struct timespec *beat)
{
	const char *path = k->path + 1;
	bool existed = k->was.ident.type;
	CLEANUP(name_parent) struct name_parent at = protect_parent(tree->fd, path);
	struct stamp now;
	struct stat st;

	if (at.dir < 0 || fstatat(at.dir, at.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    S_ISSOCK(st.st_mode) || (!existed && S_ISDIR(st.st_mode) && name_points(path)))
		return;
	now = stamp_of(&st);
	if (!existed && (!beat || !time_before(beat, &st.st_ctim)))
		quarantine(t, tree, path, "made during the run");
	else if (!existed)
		protect_deny(t, tree, path,
			     "made during the run or after it; left in place: look at it before "
			     "you use it");
	else if (beat && (S_ISDIR(st.st_mode) ? !ident_same(&now.ident, &k->was.ident)
					      : !stamp_same(&now, &k->was)))
		protect_deny(t, tree, path,
			     "changed during the run or after it; left in place: look at it before "
			     "you use it");
}

static void judge_names(struct protect *t, const struct tree *tree, const struct timespec *beat)
{
	for (size_t i = 0; i < tree->known.n; i++)
		if (tree->known.v[i].kind == RECORD_NAME && tree->known.v[i].path[1])
			judge_name(t, tree, &tree->known.v[i], beat);
}

/* ---- the end ---- */

/* The next record; nobody else writes there. */
static void store(struct protect *t, const struct tree *tree, const struct buf *text, bool made)
{
	int r = record_store(tree->record, tree->fd, tree->path, text, true);

	if (r < 0)
		outcome_deny(t->o, "protected-path", ".",
			     "brig's record of the repositories in here could not be written: the "
			     "next run takes those that runs have made for yours");
	record_seen_store(t->live, &tree->ident, tree->seen);
	if (made && lives_others(t->live, t->life))
		(void)record_mark(t->live, RECORD_OPEN, &tree->ident);
	else
		record_unmark(t->live, RECORD_OPEN, &tree->ident);
}

void protect_records_judge(struct protect *t, bool last)
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
		made = judge_tree(t, tree, &text);
		tree->left = last;
		tree->last = last && record_last(tree->record);
		if (!tree->last)
			continue;
		if (tree->joined) /* those that had begun before may be dead */
			judge_names(t, tree, NULL);
		store(t, tree, &text, made);
	}
}

/* ---- trees of others ---- */

/* A tree that is not this run's, its record, and what looks at them. */
struct other {
	struct protect p;
	struct box_plan plan;
	struct buf path;
	struct stat record; /* its last beat */
	bool whole;
};

#define OTHER_NONE                                                                                 \
	{                                                                                          \
		.p = { .claim = -1, .live = -1, .life = -1, .lifeline = -1 },                      \
		.path = BUF_INIT(PATH_MAX),                                                        \
	}

/* Where the tree is: where it was or, if that is another folder now, where somebody has found it.
 */
static void protect_record_place(struct other *x, const struct ident *ident, const char *here)
{
	struct stat st;

	if (!here || (stat(buf_str(&x->path), &st) == 0 && st.st_ino == ident->ino))
		return;
	x->path.len = 0;
	buf_add(&x->path, here, strlen(here) + 1);
}

/* Many devices have another number when the machine has been started again. Then it is known by
 * its inode and by when it was made. */
static bool is_tree(const struct tree *tree, const struct known_list *known,
		    const struct ident *ident, const struct stat *st)
{
	return st->st_ino == ident->ino && record_is_of(known, tree->fd, st->st_dev != ident->dev);
}

/* 0 or -errno: -EBUSY where somebody writes, -ENOENT where there is no such tree or record. */
static int open_other(struct other *x, const struct ident *ident, const char *id, const char *here)
{
	struct known_list known = KNOWN_LIST_NONE;
	CLEANUP(fd) int record = record_open(x->p.live, ident, &(struct err){ 0 });
	struct tree *tree = &x->p.trees[0];
	struct stat st;
	int r = 0;

	if (record < 0 || !record_alone(record))
		return -EBUSY;
	if (fstat(record, &x->record) < 0 || !record_load(record, &known, &x->whole, &x->path))
		r = -ENOENT;
	if (r == 0)
		protect_record_place(x, ident, here);
	x->p.plan = &x->plan;
	x->p.id = id;
	x->plan.workspace = x->p.asker.avoid = buf_str(&x->path);
	if (r == 0 && (!protect_tree(&x->p, buf_str(&x->path), &(struct err){ 0 }) ||
		       fstat(tree->fd, &st) < 0 || !is_tree(tree, &known, ident, &st)))
		r = -ENOENT;
	if (r < 0) {
		known_done(&known);
		return r;
	}
	tree->ident = ident_of(&st);
	known_move(&known, ident->dev, st.st_dev);
	tree->record = TAKE_FD(record);
	tree->known = known;
	return 0;
}

static void close_other(struct other *x)
{
	for (size_t i = 0; i < x->p.tree_count; i++) {
		(void)fd_close(x->p.trees[i].fd);
		(void)fd_close(x->p.trees[i].record);
		known_done(&x->p.trees[i].known);
	}
	buf_done(&x->path);
}

/* By its path on the host where it is not this run's workspace. */
static void tell_of(struct protect *t, const char *path, const struct outcome *there)
{
	bool own = t->plan->workspace && str_eq(t->plan->workspace, path);
	char target[PATH_MAX];

	for (size_t i = 0; i < there->denial_count; i++) {
		const struct denial *d = &there->denials[i];

		(void)snprintf(target, sizeof(target), "%s%s%s", own ? "" : path, own ? "" : "/",
			       d->target);
		outcome_deny(t->o, "protected-path", target, d->reason);
	}
}

static void look_again(struct protect *t, const struct ident *ident)
{
	CLEANUP(outcome) struct outcome *there = outcome_new();
	CLEANUP(buf) struct buf text = BUF_INIT(RECORD_MAX);
	struct other x = OTHER_NONE;
	int r;

	x.p.o = there;
	x.p.live = t->live;
	x.p.life = t->life;
	x.p.moved = t->moved;
	r = there ? open_other(&x, ident, t->id, NULL) : -ENOMEM;
	if (r == 0 && x.whole) {
		judge_made(&x.p, &x.p.trees[0], &text);
		store(&x.p, &x.p.trees[0], &text, true);
		tell_of(t, buf_str(&x.path), there);
	} else if (r == -ENOENT) {
		record_unmark(t->live, RECORD_OPEN, ident);
	}
	t->moved = x.p.moved;
	close_other(&x);
}

void protect_records_others(struct protect *t)
{
	CLEANUP(fd) int marks = t->live < 0 ? -1 : record_marks(RECORD_OPEN);
	size_t left = FOREIGN_MAX, more = 0;
	const struct fd_entry *en;
	struct ident ident;
	char reason[128];
	struct folder d;

	folder_begin(&d, marks);
	while (marks >= 0 && (en = folder_next(&d))) {
		if (left && record_ident(en->name, &ident))
			look_again(t, &ident);
		more += !left;
		left -= left > 0;
	}
	if (!more || lives_others(t->live, t->life))
		return;
	(void)snprintf(reason, sizeof(reason),
		       "%llu more workspaces in which runs made repositories at the same time were "
		       "not looked at again",
		       (unsigned long long)more);
	outcome_deny(t->o, "protected-path", ".", reason);
}

static void protect_record_finish(struct other *x)
{
	CLEANUP(buf) struct buf text = BUF_INIT(RECORD_MAX);
	const struct tree *tree = &x->p.trees[0];
	const struct known_thing *run = known_name(&tree->known, "");
	bool made;

	if (run)
		x->p.began = run->was.mtime;
	judge_names(&x->p, tree, &x->record.st_mtim);
	made = judge_tree(&x->p, tree, &text);
	protect_unasked(&x->p);
	store(&x->p, tree, &text, made);
	told_keep(&tree->ident, x->p.o);
}

bool protect_records_dead(const struct ident *ident, const char *here)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(fd) int records = state_find(RECORD_FOLDER, NULL, 0), live = -1, life = -1;
	CLEANUP(fd) int record = record_find(records, ident);
	struct other x = OTHER_NONE;
	char name[RECORD_NAME_SIZE], id[96];
	struct stat st;
	int r;

	if (!o || (record >= 0 && record_locked(record)) || journal_held(ident))
		return false;
	if (record < 0 || fstat(record, &st) < 0)
		return true;
	record_name(ident, name); /* with its last beat it is nobody else's name in quarantine */
	(void)snprintf(id, sizeof(id), "%s-%llx.%lx", name, (unsigned long long)st.st_mtim.tv_sec,
		       (unsigned long)st.st_mtim.tv_nsec);
	x.p.o = o;
	live = x.p.live = record_live(&life, &(struct err){ 0 });
	x.p.life = life;
	r = live < 0 ? -EBUSY : open_other(&x, ident, id, here);
	if (r == 0 && !x.whole)
		protect_record_finish(&x);
	if (r == 0 && x.p.trees[0].ident.dev != ident->dev)
		record_rename(live, ident, &x.p.trees[0].ident);
	close_other(&x);
	return r != -EBUSY;
}
