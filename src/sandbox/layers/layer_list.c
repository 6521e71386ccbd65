/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/layers/layer_list.c - layers that are there: found, listed, taken away. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/random.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/str.h"
#include "sandbox/layers/layer_internal.h"

#define LISTED_MAX 65536
#define PRUNED ".pruned" /* its time is when somebody pruned last */
#define PRUNE_S 600
#define RELEASE_MS 5000 /* of who looks, or applies */

int layer_store_find(char path[PATH_MAX])
{
	return cache_find(LAYERS, path, PATH_MAX);
}

/* One that was found by its name. */
struct layer_found {
	char name[CLAIM_ID + 16], sandbox[LAYER_SANDBOX];
	int64_t began, began_ns;
};

struct layer_names {
	struct layer_found *v;
	size_t n;
};

static bool is_gone(const char *name)
{
	return str_starts(name, LAYER_GONE);
}

/* The youngest first; of one moment by name, so that the order stays. */
static int by_age(const void *a, const void *b)
{
	const struct layer_found *x = a, *y = b;

	if (x->began != y->began)
		return x->began < y->began ? 1 : -1;
	if (x->began_ns != y->began_ns)
		return x->began_ns < y->began_ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* A folder's own time is its age: `about` is written into it with the first moment and the last. */
static int names_add(struct layer_names *l, int layers, const char *name)
{
	struct layer_found *more = realloc(l->v, (l->n + 1) * sizeof(*more));
	struct layer_about a = { 0 };
	struct stat st;
	CLEANUP(fd) int folder = openat(layers, name, LAYER_FOLDER);

	if (!more)
		return -ENOMEM;
	l->v = more;
	if (folder < 0 || fstat(folder, &st) < 0)
		return 0;
	(void)snprintf(more[l->n].name, sizeof(more[l->n].name), "%s", name);
	more[l->n].began = layer_about_read(folder, &a) == 0 ? a.began : st.st_mtim.tv_sec;
	more[l->n].began_ns = a.began_ns;
	memcpy(more[l->n].sandbox, a.sandbox, sizeof(a.sandbox));
	l->n++;
	return 0;
}

static int names_read(int layers, struct layer_names *l)
{
	const struct fd_entry *en;
	struct folder d;
	int r = 0;

	folder_begin(&d, layers);
	while (r == 0 && l->n < LISTED_MAX && (en = folder_next(&d)))
		if (claim_is_id(en->name) ||
		    (is_gone(en->name) && strlen(en->name) < CLAIM_ID + 16))
			r = names_add(l, layers, en->name);
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_age);
	return r;
}

/* ---- one of them ---- */

/* Is what is locked still at its name? It may have been dropped meanwhile. */
static bool still_there(int layers, const char *name, int folder)
{
	struct ident was, now;
	struct stat st;

	if (fstat(folder, &st) < 0)
		return false;
	was = ident_of(&st);
	if (fstatat(layers, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	now = ident_of(&st);
	return ident_same(&was, &now);
}

static int no_such(const char *which, struct err *e)
{
	return err_refuse(e, ERR_NOT_FOUND, ENOENT,
			  "brig run --workspace overlay leaves one, for 7 days",
			  "there is no layer of run '%.64s'", which);
}

/* A sandbox that is paused has let go of it, and goes on only when it can have it again. */
static bool take_live(struct layer *l, enum layer_hold hold)
{
	l->live = openat(l->folder, LAYER_LIVE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	l->still = l->live >= 0 && flock(l->folder, LOCK_SH | LOCK_NB) == 0 &&
		   flock(l->live, (hold == LAYER_SHARED ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
	return l->still;
}

static int take(int layers, const char *store, const char *name, enum layer_hold hold,
		struct layer *ret, struct err *e)
{
	struct layer l = LAYER_NONE;
	bool alone;

	l.folder = openat(layers, name, LAYER_FOLDER);
	if (l.folder < 0)
		return errno == ENOENT ? no_such(name, e) : err_sys(e, "cannot open the layer");
	/* A run has it shared: whoever can have it alone for a moment knows that none does. */
	alone = claim_lock(l.folder, LAYER_LOOK_MS);
	if (alone && hold == LAYER_SHARED && flock(l.folder, LOCK_SH | LOCK_NB) < 0)
		alone = false;
	if (!alone)
		alone = take_live(&l, hold);
	if (!alone || !still_there(layers, name, l.folder)) {
		layer_done(&l);
		return alone ? no_such(name, e)
			     : err_refuse(e, ERR_UNAVAILABLE, EBUSY,
					  "wait until it has ended, or end it; a sandbox can be "
					  "paused",
					  "run '%.32s' still has its layer, or somebody else looks "
					  "at it",
					  name);
	}
	if (layer_about_read(l.folder, &l.about) < 0)
		(void)snprintf(l.about.id, sizeof(l.about.id), "%s", name);
	l.upper = openat(l.folder, LAYER_UPPER, LAYER_FOLDER);
	if (l.upper < 0 && errno == EACCES && fchmodat(l.folder, LAYER_UPPER, 0700, 0) == 0)
		l.upper = openat(l.folder, LAYER_UPPER, LAYER_FOLDER);
	if (l.upper < 0) {
		layer_done(&l);
		return err_sys(e, "cannot open the layer of run '%.32s'", name);
	}
	(void)snprintf(l.path, sizeof(l.path), "%s", store);
	(void)fd_real_path(l.folder, l.path);
	*ret = l;
	return 0;
}

/* The youngest finished one of a workspace; *passed: a younger one has not been finished. */
static const char *find_last(int layers, const struct layer_names *l, const char *workspace,
			     bool *passed)
{
	for (size_t i = 0; i < l->n; i++) {
		CLEANUP(fd) int folder = openat(layers, l->v[i].name, LAYER_FOLDER);
		struct layer_about a;

		if (is_gone(l->v[i].name) || folder < 0 || layer_about_read(folder, &a) < 0 ||
		    !str_eq(a.workspace, workspace))
			continue;
		if (a.finished)
			return l->v[i].name;
		*passed = true;
	}
	return NULL;
}

static int find_id(const struct layer_names *l, const char *which, const char **ret, struct err *e)
{
	const char *found = NULL;

	for (size_t i = 0; i < l->n; i++) {
		if (is_gone(l->v[i].name) ||
		    (!str_starts(l->v[i].name, which) && !str_eq(l->v[i].sandbox, which)))
			continue;
		if (found)
			return err_refuse(e, ERR_USAGE, EINVAL, "give more digits of the id",
					  "'%.32s' is the beginning of more than one run's id",
					  which);
		found = l->v[i].name;
	}
	*ret = found;
	return found ? 0 : no_such(which, e);
}

int layer_open(const char *which, const char *workspace, enum layer_hold hold, struct layer *ret,
	       struct err *e)
{
	char store[PATH_MAX] = "";
	CLEANUP(fd) int layers = layer_store_find(store);
	struct layer_names l = { 0 };
	const char *name = NULL;
	bool passed = false;
	int r;

	if (layers < 0)
		return errno == ENOENT ? no_such(which, e)
				       : err_sys(e, "cannot open brig's cache folder");
	r = names_read(layers, &l);
	if (r < 0)
		r = err_nomem(e);
	else if (!str_eq(which, "last"))
		r = which[0] ? find_id(&l, which, &name, e) : no_such(which, e);
	else if (!workspace || !(name = find_last(layers, &l, workspace, &passed)))
		r = err_refuse(e, ERR_NOT_FOUND, ENOENT,
			       "brig run --workspace overlay leaves one; give a run's id for "
			       "that of another folder",
			       "there is no layer of this folder");
	if (r == 0)
		r = take(layers, store, name, hold, ret, e);
	if (r == 0)
		ret->passed = passed;
	free(l.v);
	return r;
}

int layer_workspace(const struct layer *l, int *fd, struct err *e)
{
	const struct layer_about *a = &l->about;
	CLEANUP(fd) int now = -1;
	struct statx x;
	struct stat st;

	if (!a->workspace[0])
		return err_set(e, ERR_POLICY, ENOENT, "the layer does not say whose it is");
	now = fd_open_nolinks(AT_FDCWD, a->workspace, O_RDONLY | O_DIRECTORY, 0);
	if (now < 0)
		return err_errno(e, now, "cannot open the workspace '%.200s'", a->workspace);
	if (fstat(now, &st) < 0 || statx(now, "", AT_EMPTY_PATH, STATX_BTIME, &x) < 0)
		return err_sys(e, "cannot look at the workspace '%.200s'", a->workspace);
	if (st.st_dev != a->dev || st.st_ino != a->ino ||
	    (a->made.tv_sec && x.stx_mask & STATX_BTIME &&
	     (x.stx_btime.tv_sec != a->made.tv_sec ||
	      (long)x.stx_btime.tv_nsec != a->made.tv_nsec)))
		return err_refuse(e, ERR_POLICY, ESTALE,
				  "brig discard throws the layer away; brig diff cannot tell what "
				  "another folder was",
				  "'%.200s' is another folder than the one the run began with",
				  a->workspace);
	*fd = TAKE_FD(now);
	return 0;
}

/* ---- all of them ---- */

static int list_one(int layers, const char *name,
		    int (*each)(void *arg, const struct layer_row *row), void *arg)
{
	CLEANUP(fd) int folder = openat(layers, name, LAYER_FOLDER);
	struct layer_about a = { 0 };
	struct layer_row row = { .about = &a, .leftover = is_gone(name) };

	if (folder < 0)
		return 0;
	if (row.leftover || layer_about_read(folder, &a) < 0)
		(void)snprintf(a.id, sizeof(a.id), "%.32s", name);
	row.used = !claim_lock(folder, 0);
	(void)flock(folder, LOCK_UN);
	row.damaged = !row.leftover && !row.used && !a.finished;
	row.bytes = a.bytes;
	if (!a.finished && tree_size(folder, (uint64_t)1 << 40, &row.bytes) < 0)
		row.bytes = 0;
	return each(arg, &row);
}

int layer_list(int (*each)(void *arg, const struct layer_row *row), void *arg, struct err *e)
{
	char store[PATH_MAX];
	CLEANUP(fd) int layers = layer_store_find(store);
	struct layer_names l = { 0 };
	int r;

	if (layers < 0)
		return errno == ENOENT ? 0 : err_sys(e, "cannot open brig's cache folder");
	r = names_read(layers, &l);
	if (r < 0)
		r = err_nomem(e);
	for (size_t i = 0; r == 0 && i < l.n; i++)
		r = list_one(layers, l.v[i].name, each, arg);
	free(l.v);
	return r;
}

int layer_remove(int layers, const char *name, struct err *e)
{
	char gone[48], hex[33];
	int r;

	if (is_gone(name)) {
		(void)snprintf(gone, sizeof(gone), "%s", name);
	} else {
		if (random_hex(hex, sizeof(hex), e) < 0)
			return -e->code;
		(void)snprintf(gone, sizeof(gone), LAYER_GONE "%s", hex);
		if (renameat(layers, name, layers, gone) < 0)
			return errno == ENOENT ? 0 : err_sys(e, "cannot take the layer away");
	}
	r = tree_remove(layers, gone);
	if (r == 0)
		return 0;
	(void)err_errno(e, r, "cannot remove all of a layer");
	return err_hint(e, "what is left is '%s' in the folder 'layers' of brig's cache", gone);
}

int layer_drop(struct layer *l, struct err *e)
{
	char store[PATH_MAX];
	CLEANUP(fd) int layers = layer_store_find(store);
	const char *name = strrchr(l->path, '/');
	int r;

	if (l->still) {
		layer_done(l);
		return err_refuse(e, ERR_UNAVAILABLE, EBUSY, "stop it first: brig sandbox stop ID",
				  "a sandbox stands on it");
	}
	r = layers < 0 || !name ? err_set(e, ERR_INTERNAL, ENOENT, "the layer has no place")
				: layer_remove(layers, name + 1, e);

	layer_done(l);
	return r;
}

/* ---- of a sandbox that is no more ---- */

void layer_release(const char *id)
{
	char store[PATH_MAX], name[33];
	CLEANUP(fd) int layers = layer_store_find(store);
	CLEANUP(fd)
	int folder = layers < 0 || !claim_is_id(id) ? -1 : openat(layers, id, LAYER_FOLDER);
	struct layer_about a;
	struct err unused;
	struct timespec now;

	if (folder < 0 || !claim_lock(folder, RELEASE_MS) || layer_about_read(folder, &a) < 0)
		return;
	if (a.finished && !a.changed && !a.more) {
		(void)layer_remove(layers, id, &unused);
		return;
	}
	(void)clock_gettime(CLOCK_REALTIME, &now);
	a.sandbox[0] = '\0';
	a.began = now.tv_sec; /* its age is counted from now on */
	a.began_ns = now.tv_nsec;
	if (layer_about_draft(folder, &a, name, &unused) == 0)
		(void)layer_about_take(folder, name, &unused);
}

/* ---- what is too old, or too much ---- */

/* Nobody else is at it: taken away. One that was made this moment may not be locked yet. */
static bool prune_one(int layers, const char *name)
{
	CLEANUP(fd) int folder = openat(layers, name, LAYER_FOLDER);
	struct err unused;
	struct stat st;

	if (folder < 0 || !claim_lock(folder, 0) || !still_there(layers, name, folder) ||
	    fstat(folder, &st) < 0 || st.st_mtim.tv_sec + PRUNE_S > time(NULL))
		return false;
	return layer_remove(layers, name, &unused) == 0;
}

static uint64_t bytes_of(int layers, const char *name)
{
	CLEANUP(fd) int folder = openat(layers, name, LAYER_FOLDER);
	struct layer_about a = { 0 };
	uint64_t n = 0;

	if (folder < 0)
		return 0;
	if (layer_about_read(folder, &a) == 0 && a.finished)
		return a.bytes;
	return tree_size(folder, (uint64_t)1 << 40, &n) < 0 ? 0 : n;
}

/* From the youngest on: what no longer fits goes, and so does what is older. */
static void prune_all(int layers, const struct layer_names *l, uint64_t most)
{
	time_t now = time(NULL);
	uint64_t sum = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct layer_found *f = &l->v[i];
		uint64_t bytes = bytes_of(layers, f->name);

		sum = sum + bytes < sum ? UINT64_MAX : sum + bytes;
		if (f->sandbox[0]) {
			sum -= bytes;
			continue;
		}
		if ((is_gone(f->name) || f->began + LAYER_KEPT_S < now || sum > most) &&
		    prune_one(layers, f->name))
			sum -= bytes;
	}
}

int layer_prune(uint64_t most, struct err *e)
{
	char store[PATH_MAX];
	CLEANUP(fd) int layers = layer_store_find(store), stamp = -1;
	struct layer_names l = { 0 };
	struct stat st;
	int r;

	if (layers < 0)
		return 0;
	if (fstatat(layers, PRUNED, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_mtim.tv_sec + PRUNE_S > time(NULL) && st.st_mtim.tv_sec <= time(NULL))
		return 0;
	stamp = openat(layers, PRUNED, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (stamp >= 0)
		(void)futimens(stamp, NULL);
	r = names_read(layers, &l);
	if (r == 0)
		prune_all(layers, &l, most);
	free(l.v);
	return r < 0 ? err_nomem(e) : 0;
}
