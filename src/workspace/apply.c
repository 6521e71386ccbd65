/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/apply.c - the order of an apply, and what is found of one that was killed. */
#include "workspace/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "base/files/exposed.h"
#include "base/files/exposed_notes.h"
#include "base/files/claim.h"
#include "base/files/lives.h"
#include "base/files/state.h"
#include "base/text/str.h"
#include "model/settings/paths.h"
#include "workspace/apply_internal.h"

#define UNDO_KEPT_S (7 * 24 * 3600)
#define RECORDS "records" /* where every run that lives has a lock */
#define LOOKED_LESS_S 2

struct apply {
	struct layer *layer;
	struct apply_place place;
	int workspace;
	struct timespec looked;
	struct look_known *known;
	size_t known_count;
	struct look_known *own;
	size_t own_count;
	struct change_list list;
	enum apply_verdict *verdicts;
	bool paths; /* named */
	apply_step *step;
	void *arg;
};

/* ---- undoing ---- */

static int open_upper(const char *layer, const struct layer *held)
{
	CLEANUP(fd) int folder = -1;

	if (held && str_eq(held->path, layer))
		return fcntl(held->upper, F_DUPFD_CLOEXEC, 3);
	folder = fd_open_nolinks(AT_FDCWD, layer, O_RDONLY | O_DIRECTORY, 0);
	if (folder < 0)
		return -ENOENT;
	if (!claim_lock(folder, 0)) /* who looks at it now would see halves */
		return -EBUSY;
	return openat(folder, LAYER_UPPER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* What belongs to nobody else is kept: old files whose place was taken, and what somebody has put
 * into folders that are gone again. */
static int keep_lost(const struct apply_list *l, struct err *e)
{
	char kept[PATH_MAX];
	int n = snprintf(kept, sizeof(kept), "%s-kept-%llx", l->items,
			 (unsigned long long)l->items_ino);

	if (n > 0 && n < (int)sizeof(kept) && rename(l->items, kept) < 0)
		return err_sys(e, "cannot keep what is in '%.200s'", l->items);
	return err_refuse(e, ERR_POLICY, EBUSY, "look there, and remove it when nothing is missing",
			  "not all changes in '%.100s' could be taken back; what is left is in "
			  "'%.200s'",
			  l->workspace, kept);
}

/* Nothing of it is in the workspace any more; the layer's files wait in the stage until nobody has
 * the layer. */
static int stay_staged(const struct apply_place *p, const char *state, const struct apply_list *l,
		       bool steps, struct err *e)
{
	if (steps && apply_place_write(p, APPLIED_PLAN, l, e) < 0)
		return -e->code;
	if (steps && unlinkat(p->folder, state, 0) < 0)
		return err_sys(e, "cannot note that an apply was undone");
	return err_refuse(e, ERR_UNAVAILABLE, EBUSY,
			  "the workspace is as it was; try again, so that the layer gets its files",
			  "somebody looks at the layer '%.200s'", l->layer);
}

/* Is there anything that goes back to the layer? */
static bool any_moved(const struct apply_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->ops[i].moved)
			return true;
	return false;
}

/* `steps`: some of the list may have been done; else it was only staged. */
static int undo_list(const struct apply_place *p, const char *state, struct apply_list *l,
		     int workspace, const struct layer *held, struct err *e)
{
	struct apply_ends x = { .list = l, .workspace = workspace };
	const bool steps = !str_eq(state, APPLIED_PLAN);
	size_t lost = 0;
	int r;

	x.items = apply_items_open(l);
	x.back = calloc(3 * l->n + 1, sizeof(*x.back));
	if (!x.back) {
		(void)fd_close(x.items);
		return err_nomem(e);
	}
	if (x.items < 0 && str_eq(state, APPLIED_DONE)) {
		free(x.back);
		return err_set(e, ERR_INTERNAL, ESTALE, "what was replaced in '%.200s' is gone",
			       l->workspace);
	}
	x.upper = x.items < 0 || !any_moved(l) ? -1 : open_upper(l->layer, held);
	if (steps && x.items >= 0)
		lost = apply_unsteps(&x);
	apply_note_folders(&x);
	r = apply_stamps_add(p->folder, APPLIED_UNDONE, x.back, x.back_n, e);
	if (x.upper == -EBUSY) {
		(void)fd_close(x.items);
		free(x.back);
		return stay_staged(p, state, l, steps, e);
	}
	apply_unstage(&x);
	(void)fd_close(x.upper);
	(void)fd_close(x.items);
	free(x.back);
	if (r == 0 && (unlinkat(p->folder, state, 0) < 0 || fsync(p->folder) < 0))
		r = err_sys(e, "cannot note that an apply was undone");
	if (r == 0 && (!apply_items_end(l) || lost))
		return keep_lost(l, e);
	return r;
}

static int recover_in(const struct apply_place *p, int workspace, const struct layer *held,
		      struct err *e)
{
	static const char *const states[] = { APPLIED_LIST, APPLIED_PLAN };

	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		CLEANUP(apply_list) struct apply_list l = { 0 };
		int r = apply_place_read(p, states[i], &l, e);

		if (r == -ENOENT)
			continue;
		if (r < 0)
			return r;
		if (undo_list(p, states[i], &l, workspace, held, e) < 0)
			return err_wrap(e, "an apply that was ended in the middle");
	}
	return 0;
}

int apply_recover(int workspace, struct err *e)
{
	struct apply_place p = APPLY_PLACE_NONE;
	int r = apply_place_open(workspace, false, &p, e);

	if (r == -ENOENT || r == -EBUSY) /* none; or one that lives */
		return 0;
	if (r == 0)
		r = recover_in(&p, workspace, NULL, e);
	apply_place_done(&p);
	return r;
}

int apply_known(int workspace, struct look_known **ret, size_t *n)
{
	struct apply_place p = APPLY_PLACE_NONE;
	struct err unused;
	int r = apply_place_open(workspace, false, &p, &unused);

	*ret = NULL;
	*n = 0;
	if (r == 0)
		r = apply_stamps_read(p.folder, APPLIED_UNDONE, ret, n);
	apply_place_done(&p);
	return r;
}

int apply_own(const struct layer *l, struct look_known **ret, size_t *n)
{
	return apply_stamps_read(l->folder, LAYER_APPLIED, ret, n);
}

int apply_undo(int workspace, bool force, size_t *done, struct err *e)
{
	CLEANUP(apply_list) struct apply_list l = { 0 };
	struct apply_place p = APPLY_PLACE_NONE;
	struct apply_ends x = { .list = &l, .workspace = workspace };
	const char *touched = NULL;
	struct stat st;
	int r = apply_place_open(workspace, false, &p, e);

	if (r == 0)
		r = recover_in(&p, workspace, NULL, e);
	if (r == 0)
		r = apply_place_read(&p, APPLIED_DONE, &l, e);
	x.items = r == 0 ? apply_items_open(&l) : -1;
	if (r == 0 && !force && fstatat(p.folder, APPLIED_DONE, &st, 0) == 0)
		touched = apply_touched(&x, &st.st_ctim);
	(void)fd_close(x.items);
	if (touched)
		r = err_refuse(e, ERR_POLICY, EBUSY,
			       "brig apply --undo --force undoes it all the same: what is there "
			       "now goes to the layer",
			       "'%.200s' was changed since it was applied", touched);
	*done = l.n;
	if (r == 0)
		r = undo_list(&p, APPLIED_DONE, &l, workspace, NULL, e);
	apply_place_done(&p);
	return r != -ENOENT ? r
			    : err_refuse(e, ERR_NOT_FOUND, ENOENT,
					 "an undo is kept until the next apply, or 7 days",
					 "there is nothing to undo in this workspace");
}

/* ---- beginning ---- */

/* The clock of the workspace's file system. */
static void note_look(int workspace, struct timespec *ret)
{
	CLEANUP(fd) int fd = openat(workspace, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0) {
		*ret = st.st_ctim;
		return;
	}
	(void)clock_gettime(CLOCK_REALTIME, ret);
	ret->tv_sec -= LOOKED_LESS_S;
}

static int apply_prepare(struct apply *a, struct err *e)
{
	struct look_want w;

	if (!a->layer->about.finished && !a->layer->still)
		return err_refuse(e, ERR_POLICY, EINVAL,
				  "brig diff shows what is there, brig discard throws it away",
				  "the layer of run '%.32s' is damaged: its run did not end",
				  a->layer->about.id);
	if (layer_workspace(a->layer, &a->workspace, e) < 0 ||
	    apply_place_open(a->workspace, true, &a->place, e) < 0 ||
	    recover_in(&a->place, a->workspace, a->layer, e) < 0)
		return -e->code;
	(void)apply_stamps_read(a->place.folder, APPLIED_UNDONE, &a->known, &a->known_count);
	(void)apply_stamps_read(a->layer->folder, LAYER_APPLIED, &a->own, &a->own_count);
	note_look(a->workspace, &a->looked);
	w = apply_look(a);
	if (look_list(&w, &a->list, e) < 0)
		return -e->code;
	guard_obeyed(a->layer->about.workspace, &a->list);
	a->verdicts = calloc(a->list.n + 1, sizeof(*a->verdicts));
	return a->verdicts ? 0 : err_nomem(e);
}

int apply_begin(struct layer *l, struct apply **ret, struct err *e)
{
	struct apply *a = calloc(1, sizeof(*a));

	if (!a)
		return err_nomem(e);
	*a = (struct apply){ .layer = l, .place = APPLY_PLACE_NONE, .workspace = -1 };
	if (apply_prepare(a, e) < 0) {
		(void)apply_end(a);
		return -e->code;
	}
	*ret = a;
	return 0;
}

struct apply *apply_end(struct apply *a)
{
	if (!a)
		return NULL;
	apply_place_done(&a->place);
	(void)fd_close(a->workspace);
	change_list_done(&a->list);
	free(a->known);
	free(a->own);
	free(a->verdicts);
	free(a);
	return NULL;
}

const struct change_list *apply_changes(const struct apply *a)
{
	return &a->list;
}

enum apply_verdict apply_verdict_of(const struct apply *a, size_t i)
{
	return a->verdicts[i];
}

struct guard_says apply_guard_of(const struct apply *a, size_t i)
{
	return guard_change(&a->list.v[i]);
}

struct look_want apply_look(const struct apply *a)
{
	return (struct look_want){ .upper = a->layer->upper,
				   .workspace = a->workspace,
				   .about = &a->layer->about,
				   .known = a->known,
				   .known_count = a->known_count,
				   .own = a->own,
				   .own_count = a->own_count };
}

void apply_on_step(struct apply *a, apply_step *fn, void *arg)
{
	a->step = fn;
	a->arg = arg;
}

size_t apply_count(const struct apply *a, enum apply_verdict v)
{
	size_t n = 0;

	for (size_t i = 0; i < a->list.n; i++)
		n += a->verdicts[i] == v;
	return n;
}

/* ---- judging ---- */

/* Does one of the paths mean what the guard is about: is it that, or below it? */
static bool named(const struct apply_asked *asked, const struct change *c, size_t at)
{
	for (size_t i = 0; i < asked->count; i++)
		if (change_path_below(c->path, asked->paths[i]) && strlen(asked->paths[i]) >= at)
			return true;
	return false;
}

static enum apply_verdict judge_one(const struct apply_asked *asked, const struct change *c)
{
	const struct guard_says says = guard_change(c);
	bool wanted = !asked->count || named(asked, c, 0);

	if (!wanted)
		return VERDICT_NOT_ASKED;
	if (c->kind == CHANGE_OTHER)
		return VERDICT_NEVER;
	if (says.at && !named(asked, c, says.at))
		return VERDICT_GUARDED;
	return c->conflict != CONFLICT_NONE && !(asked->force && asked->count) ? VERDICT_CONFLICT
									       : VERDICT_TAKE;
}

/* The new folders on the way to what is taken come along; what cannot be made keeps out what is in
 * it. */
static void judge_folders(struct apply *a, const struct apply_asked *asked)
{
	const struct change *v = a->list.v;

	for (size_t i = a->list.n; i-- > 0;) {
		bool folder = S_ISDIR(v[i].now.mode) && v[i].kind != CHANGE_MODE;

		for (size_t k = i + 1; folder && a->verdicts[i] == VERDICT_NOT_ASKED &&
				       k < a->list.n && change_path_below(v[k].path, v[i].path);
		     k++)
			if (a->verdicts[k] == VERDICT_TAKE)
				a->verdicts[i] = v[i].conflict != CONFLICT_NONE && !asked->force
							 ? VERDICT_CONFLICT
							 : VERDICT_TAKE;
	}
	for (size_t i = 0; i < a->list.n; i++) {
		bool out = S_ISDIR(v[i].now.mode) && v[i].kind != CHANGE_MODE &&
			   a->verdicts[i] != VERDICT_TAKE && a->verdicts[i] != VERDICT_NOT_ASKED;

		for (size_t k = i + 1;
		     out && k < a->list.n && change_path_below(v[k].path, v[i].path); k++)
			if (a->verdicts[k] == VERDICT_TAKE)
				a->verdicts[k] = a->verdicts[i];
	}
}

static int check_paths(const struct apply *a, const struct apply_asked *asked, struct err *e)
{
	if (asked->force && !asked->count)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "brig apply RUN PATH --force, for each that shall win",
				  "--force takes the paths of what it is for");
	for (size_t i = 0; i < asked->count; i++) {
		bool any = false;

		for (size_t k = 0; !any && k < a->list.n; k++)
			any = change_path_below(a->list.v[k].path, asked->paths[i]);
		if (!any)
			return err_refuse(e, ERR_NOT_FOUND, ENOENT,
					  "brig diff --stat lists what the layer changes",
					  "the layer changes nothing at '%.200s'", asked->paths[i]);
	}
	return 0;
}

int apply_judge(struct apply *a, const struct apply_asked *asked, struct err *e)
{
	if (check_paths(a, asked, e) < 0)
		return -e->code;
	for (size_t i = 0; i < a->list.n; i++)
		a->verdicts[i] = judge_one(asked, &a->list.v[i]);
	judge_folders(a, asked);
	return 0;
}

/* ---- doing it ---- */

struct used_by {
	const char *id;
	bool other;
};

static int look_used(void *arg, const struct layer_row *row)
{
	struct used_by *u = arg;

	u->other |= row->used && !str_eq(row->about->id, u->id);
	return u->other;
}

/* Another run may have got a descriptor of one of the layer's files, and write to it later. */
static bool anybody_lives(const struct apply *a)
{
	CLEANUP(fd) int records = state_find(RECORDS, NULL, 0);
	struct used_by u = { .id = a->layer->about.id };
	struct err unused;

	if (records >= 0 && lives_others(records, -1))
		return true;
	return layer_list(look_used, &u, &unused) < 0 || u.other;
}

static enum apply_what what_of(const struct change *c)
{
	switch (c->kind) {
	case CHANGE_DELETED:
		return APPLY_REMOVE;
	case CHANGE_MODE:
		return S_ISDIR(c->now.mode) ? APPLY_MODE : APPLY_SWAP;
	default:
		return c->was.mode ? APPLY_SWAP : APPLY_ADD;
	}
}

static int make_list(struct apply *a, struct apply_list *l, bool renames)
{
	size_t root = 0;
	bool in_root = false;

	l->arena = arena_new((size_t)256 << 20);
	l->ops = l->arena ? arena_alloc(l->arena, (a->list.n + 1) * sizeof(*l->ops)) : NULL;
	if (!l->ops)
		return -ENOMEM;
	for (size_t i = 0; i < a->list.n; i++) {
		const struct change *c = &a->list.v[i];
		struct apply_op *o = &l->ops[l->n];

		if (a->verdicts[i] != VERDICT_TAKE)
			continue;
		in_root = in_root && change_path_below(c->path, l->ops[root].path);
		*o = (struct apply_op){ .path = c->path,
					.made = c->now,
					.was = c->was,
					.what = in_root ? APPLY_INNER : what_of(c),
					.root = in_root ? root : l->n,
					.origin = c->origin,
					.same_bytes = c->kind == CHANGE_MODE };
		o->moved = renames && !c->more_names && c->kind != CHANGE_DELETED &&
			   !S_ISDIR(c->now.mode);
		if (!in_root && S_ISDIR(c->now.mode) && c->kind != CHANGE_MODE) {
			root = l->n;
			in_root = true;
		}
		l->n++;
	}
	return 0;
}

/* The last one cannot be undone from here on. */
static void forget_last(const struct apply_place *p)
{
	CLEANUP(apply_list) struct apply_list l = { 0 };
	struct err unused;

	if (apply_place_read(p, APPLIED_DONE, &l, &unused) == 0)
		apply_items_drop(&l);
	(void)unlinkat(p->folder, APPLIED_DONE, 0);
}

static int apply_write(struct apply *a, struct apply_list *l, struct apply_ends *x, struct err *e)
{
	struct err undo = { 0 };
	int r;

	if (apply_place_write(&a->place, APPLIED_PLAN, l, e) < 0)
		return -e->code;
	r = apply_stage(x, &a->layer->about, e);
	if (r == 0)
		r = apply_place_write(&a->place, APPLIED_LIST, l, e);
	if (r == 0 && unlinkat(a->place.folder, APPLIED_PLAN, 0) < 0)
		r = err_sys(e, "cannot note what is applied");
	if (r == 0)
		r = apply_steps(x, e);
	if (r == 0 && (renameat(a->place.folder, APPLIED_LIST, a->place.folder, APPLIED_DONE) < 0 ||
		       fsync(a->place.folder) < 0))
		r = err_sys(e, "cannot note that all was applied");
	if (r < 0 && recover_in(&a->place, a->workspace, a->layer, &undo) < 0)
		*e = undo;
	if (r < 0)
		return -e->code;
	/* The rest of the layer may come later: what this has changed is no conflict with it. */
	x->back = calloc(3 * l->n + 1, sizeof(*x->back));
	if (x->back) {
		apply_note_folders(x);
		if (a->layer->still)
			apply_note_made(x);
		(void)apply_stamps_add(a->place.folder, APPLIED_UNDONE, x->back, x->back_n, &undo);
		if (a->layer->still)
			(void)apply_stamps_add(a->layer->folder, LAYER_APPLIED, x->back, x->back_n,
					       &undo);
	}
	free(x->back);
	return 0;
}

static int refuse_conflict(const struct apply *a, struct err *e)
{
	for (size_t i = 0; i < a->list.n; i++) {
		const struct change *c = &a->list.v[i];

		if (a->verdicts[i] != VERDICT_CONFLICT)
			continue;
		(void)err_refuse(e, ERR_POLICY, EEXIST,
				 "brig diff shows both; brig apply RUN PATH... takes others alone, "
				 "--force with the path takes the run's",
				 "'%.200s' is %s", c->path, change_conflict_text(c->conflict));
		if (c->git && str_eq(c->path + c->git - 1, "/index"))
			(void)err_hint(e, "let the run commit, and fetch from its repository: git "
					  "indexes cannot be merged");
		return -e->code;
	}
	return 0;
}

/* A stage beside the workspace may lie where commands write, as one whose workspace is the folder
 * above: then nobody may live who could, and nobody begins until the descriptor that is returned is
 * closed. -1: it lies where no command writes. */
static int keep_others_out(const struct apply *a, const char *items, int *lock, struct err *e)
{
	struct err why, unused;

	*lock = -1;
	if (path_under(items, a->place.path) || !exposed_path(items, NULL, 0, &why))
		return 0;
	*lock = exposed_lock(&unused);
	if (*lock >= 0)
		return 0;
	return err_refuse(
		e, ERR_UNAVAILABLE, EBUSY,
		"wait until no other run lives, or set XDG_CACHE_HOME to a folder on the "
		"workspace's file system",
		"what is applied would be staged in '%.160s', where another run may write", items);
}

int apply_commit(struct apply *a, size_t *done, struct err *e)
{
	CLEANUP(apply_list)
	struct apply_list l = { .layer = a->layer->path, .workspace = a->layer->about.workspace };
	struct apply_ends x = { .list = &l,
				.workspace = a->workspace,
				.items = -1,
				.upper = a->layer->upper,
				.looked = a->looked,
				.step = a->step,
				.arg = a->arg };
	CLEANUP(fd) int lock = -1;
	char items[PATH_MAX];
	struct stat st;
	int r = 0;

	*done = 0;
	if (refuse_conflict(a, e) < 0)
		return -e->code;
	if (make_list(a, &l, a->layer->about.same_place && !a->layer->still && !anybody_lives(a)) <
	    0)
		return err_nomem(e);
	if (!l.n)
		return 0;
	/* From now on a command's files may lie there, as after a direct run. */
	if (exposed_note(l.workspace, EXPOSED_AS_WORKSPACE, e) < 0)
		return -e->code;
	forget_last(&a->place);
	x.items = apply_items_make(&a->place, a->workspace, l.workspace, items, e);
	if (x.items < 0)
		return x.items;
	l.items = items;
	l.items_ino = fstat(x.items, &st) == 0 ? st.st_ino : 0;
	l.began = (uint64_t)time(NULL);
	r = keep_others_out(a, items, &lock, e);
	if (r == 0)
		r = apply_write(a, &l, &x, e);
	else
		(void)apply_items_end(&l);
	(void)fd_close(x.items);
	if (r == 0)
		*done = l.n;
	apply_place_prune(time(NULL) - UNDO_KEPT_S);
	return r;
}

static void tell_looks(const struct apply *a, apply_look_at *look, void *arg)
{
	for (size_t i = 0; look && i < a->list.n; i++) {
		const char *reason = guard_change(&a->list.v[i]).reported;

		if (a->verdicts[i] == VERDICT_TAKE && reason)
			look(arg, a->list.v[i].path, reason);
	}
}

int apply_auto(struct layer *l, struct apply_told *ret, apply_look_at *look, void *arg,
	       struct err *e)
{
	const struct apply_asked all = { 0 };
	CLEANUP(apply) struct apply *a = NULL;

	*ret = (struct apply_told){ 0 };
	if (apply_begin(l, &a, e) < 0)
		return -e->code;
	if (apply_judge(a, &all, e) < 0)
		return -e->code;
	ret->left = apply_count(a, VERDICT_GUARDED) + apply_count(a, VERDICT_NEVER);
	if (apply_commit(a, &ret->done, e) < 0)
		return -e->code;
	tell_looks(a, look, arg);
	return 0;
}
