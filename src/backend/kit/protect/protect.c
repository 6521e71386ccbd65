/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/protect_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/kit/protect/dead.h"
#include "backend/kit/protect/journal.h"
#include "backend/kit/survey/gitdirs.h"
#include "backend/kit/survey/placeholder.h"
#include "backend/kit/survey/protected_names.h"
#include "backend/kit/survey/seen.h"
#include "base/files/mounts.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

#define MOUNTS_MAX ((size_t)4 << 20)
#define ARENA_MAX (4 * MOUNTS_MAX)
#define BEAT_US 1000000

struct protect *protect_free(struct protect *t)
{
	if (!t)
		return NULL;
	protect_dismiss(t);
	protect_reap(t);
	(void)fd_close(t->claim);
	for (size_t i = 0; i < t->tree_count; i++) {
		(void)fd_close(t->trees[i].fd);
		(void)fd_close(t->trees[i].record); /* and with it the lock that says who writes */
		known_done(&t->trees[i].known);
		t->trees[i].seen = seen_free(t->trees[i].seen);
	}
	(void)fd_close(t->live);
	(void)fd_close(t->life);
	for (size_t i = 0; i < t->kept_count; i++) {
		(void)fd_close(t->kept[i].copy);
		(void)fd_close(t->kept[i].pinned);
		(void)fd_close(t->kept[i].leased);
	}
	known_done(&t->covered);
	free(t->names);
	t->before = before_free(t->before);
	free(t);
	return NULL;
}

struct tree *protect_tree(struct protect *t, const char *path, struct err *e)
{
	struct tree *tree = &t->trees[t->tree_count];
	int fd;

	for (size_t i = 0; i < t->tree_count; i++)
		if (str_eq(t->trees[i].path, path))
			return &t->trees[i];
	if (t->tree_count == TREES_MAX) {
		(void)err_set(e, ERR_INTERNAL, E2BIG, "too many protected trees");
		return NULL;
	}
	fd = fd_open_nolinks(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0) {
		(void)err_errno(e, fd, "cannot open '%s'", path);
		return NULL;
	}
	*tree = (struct tree){ .path = path, .fd = fd, .record = -1, .known = KNOWN_LIST_NONE };
	t->tree_count++;
	return tree;
}

static const char *called(const struct protect *t, const struct tree *tree, const char *path,
			  char room[2 * PATH_MAX])
{
	if (t->plan->workspace && str_eq(tree->path, t->plan->workspace))
		return path;
	(void)snprintf(room, 2 * PATH_MAX, "%s/%s", tree->path, path);
	return room;
}

void protect_deny(struct protect *t, const struct tree *tree, const char *path, const char *reason)
{
	char room[2 * PATH_MAX];

	outcome_deny(t->o, "protected-path", called(t, tree, path, room), reason);
}

void protect_trust(struct protect *t, const struct tree *tree, const char *path, const char *reason)
{
	char room[2 * PATH_MAX];

	outcome_trust(t->o, called(t, tree, path, room), reason);
}

struct tree *protect_tree_of(struct protect *t, const char **path)
{
	for (size_t i = 0; i < t->tree_count; i++) {
		size_t n = strlen(t->trees[i].path);

		if (path_under(*path, t->trees[i].path) && (*path)[n]) {
			*path += n + 1;
			return &t->trees[i];
		}
	}
	return NULL;
}

/* The first is a node; the others are names of it where the file system can. */
static int protect_put(const struct protect *t, int dir, const char *name,
		       const struct protected_name *n, int *node)
{
	int r = n->folder ? placeholder_put(dir, name, false, false)
			  : placeholder_link(*node, dir, name);

	if (r == 0 || r == -EEXIST || n->folder)
		return r;
	r = placeholder_put(dir, name, !t->plan->no_nodes, n->file);
	if (r == 0 && *node < 0 && !t->plan->no_nodes)
		*node = placeholder_node(dir, name);
	return r;
}

/* Decides for one name whether it is ours to hold. A name that cannot be made needs no cover. */
static int protect_hold_name(struct protect *t, struct journal *j, struct live_name *l, int *node,
			     struct err *e)
{
	struct protected_name *n = l->n;
	CLEANUP(name_parent) struct name_parent at = protect_parent(l->tree->fd, n->path);
	int r = at.dir < 0 ? at.dir : protect_put(t, at.dir, at.name, n, node);
	bool first = !l->tree->held;

	if (r == 0 || r == -EEXIST) {
		l->placeholder = r == 0 || (journal_named(j, n->tree, n->path) &&
					    placeholder_is(at.dir, at.name));
		l->tree->held |= l->placeholder;
		return first && l->placeholder ? plan_letters_held(at.dir, at.name, n->tree, e) : 0;
	}
	if (n->file) {
		(void)err_errno(e, r, "the code has no place to appear at '%s'", n->inside);
		return err_hint(e, "--set code.path=/code/_run.py needs none in the workspace");
	}
	/* The place cannot be written to, or is not there. Whatever else went wrong (a full disk,
	 * no memory) says nothing about what the command could make. */
	if (r != -EROFS && r != -EACCES && r != -EPERM && r != -ENOENT && r != -ENOTDIR &&
	    r != -ELOOP) {
		(void)err_errno(e, r, "cannot hold '%s' in '%s'", n->path, n->tree);
		return err_hint(e, "make room there, or use --policy readonly");
	}
	/* Nor can it be made inside, or only once the command has opened or made the folder: then
	 * it is found afterwards. */
	t->plan->ops[n->op].skip = true;
	n->covered = false;
	return 0;
}

bool protect_look_at(const struct live_name *l, struct ident *ret)
{
	struct stat st;
	bool there = fstatat(l->tree->fd, l->n->path, &st, AT_SYMLINK_NOFOLLOW) == 0;

	*ret = there ? ident_of(&st) : (struct ident){ 0 };
	return there;
}

static int find_names(struct protect *t, struct err *e)
{
	struct box_plan *p = t->plan;

	t->names = calloc(p->protected_count, sizeof(*t->names));
	if (!t->names || !protect_tree(t, p->workspace, e))
		return t->names ? -e->code : err_nomem(e);
	for (size_t i = 0; i < p->protected_count; i++) {
		struct live_name l = { .n = &p->protected[i] };

		l.tree = protect_tree(t, l.n->tree, e);
		if (!l.tree)
			return -e->code;
		t->names[t->name_count++] = l;
	}
	return 0;
}

/* Under the lock that all workspaces share: what is quick. What may be made is written down before
 * it is; the plan looked before the lock was taken, and placeholders may have come and gone. */
static int hold_names(struct protect *t, struct err *e)
{
	CLEANUP(journal) struct journal *j = NULL;
	CLEANUP(fd) int node = -1;
	struct live_name *l;

	if (journal_open(&t->plan->workspace_ident, -1, &j, e) < 0)
		return -e->code;
	journal_clean(j);
	for (l = t->names; l < t->names + t->name_count; l++)
		if (l->n->covered && !protect_look_at(l, &l->cover))
			journal_add(j, l->n->tree, l->n->path);
	t->claim = journal_claim(j, e);
	if (t->claim < 0)
		return -e->code;
	if (t->writable)
		t->marked = record_mark(t->live, RECORD_LIVE, &t->plan->workspace_ident);
	for (l = t->names; l < t->names + t->name_count; l++) {
		if (!l->n->covered)
			continue;
		if (protect_hold_name(t, j, l, &node, e) < 0)
			return -e->code;
		(void)protect_look_at(l, &l->cover);
	}
	return 0;
}

int protect_write_down(struct protect *t, struct err *e)
{
	if (!t)
		return 0;
	if (protect_records_begin(t, e) < 0)
		return err_wrap(e, "protected names");
	if (t->plan->protected_count) {
		protect_keep_files(t);
		t->before = before_take(t);
		protect_covered_begin(t);
	}
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &t->began);
	return 0;
}

/* A run that shares no folder with another can be given nothing. */
static bool concerns(const struct box_plan *p)
{
	bool shares = p->protected_count || (p->workspace && !p->layered);

	for (size_t i = 0; !shares && i < p->op_count; i++)
		shares = p->ops[i].writable &&
			 (p->ops[i].kind == OP_BIND || p->ops[i].kind == OP_BIND_FD);
	return shares;
}

int protect_begin(struct box_plan *p, const char *id, struct protect **ret, struct err *e)
{
	CLEANUP(protect) struct protect *t = NULL;

	if (!concerns(p))
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_nomem(e);
	t->claim = t->lifeline = t->live = t->life = -1;
	t->covered = (struct known_list)KNOWN_LIST_NONE;
	t->plan = p;
	t->id = id;
	t->asker.avoid = p->workspace ? p->workspace : p->survey_count ? p->surveys[0].tree : "/";
	t->writable = p->workspace && p->policy == POLICY_WORKSPACE_WRITE && !p->layered;
	t->live = record_live(&t->life, e);
	if (t->live < 0)
		return -e->code;
	if (p->protected_count &&
	    (find_names(t, e) < 0 || protect_unshare(t, e) < 0 || hold_names(t, e) < 0)) {
		protect_end(t, false, NULL);
		return err_wrap(e, "protected names");
	}
	*ret = TAKE_PTR(t);
	return 0;
}

/* The last one there lies over the others. */
static bool shown_read_only(const struct mounts *m, const char *path)
{
	bool read_only = false;

	for (size_t i = 0; i < m->n; i++)
		if (str_eq(m->v[i].point, path))
			read_only = m->v[i].read_only;
	return read_only;
}

bool protect_has_cover(const struct protect *t, const struct live_name *l)
{
	return l->n->covered && !t->plan->ops[l->n->op].skip;
}

bool protect_covers_hold(const struct protect *t, int mountinfo)
{
	CLEANUP(arena) struct arena *a = arena_new(ARENA_MAX);
	CLEANUP(buf) struct buf list = BUF_INIT(MOUNTS_MAX);
	struct mounts mounts;

	if (!t->plan->protected_count)
		return true;
	if (!a || buf_read_file(&list, mountinfo) < 0 || mounts_parse(a, list.data, &mounts) < 0)
		return false;
	for (size_t i = 0; i < t->name_count; i++)
		if (protect_has_cover(t, &t->names[i]) &&
		    !shown_read_only(&mounts, t->names[i].n->inside))
			return false;
	return true;
}

/* The command may have closed its own folder; that moves nothing. */
bool protect_in_place(const struct live_name *l)
{
	struct ident now;

	return protect_look_at(l, &now) ? ident_same(&now, &l->cover) : errno == EACCES;
}

static bool names_in_place(struct protect *t)
{
	for (size_t i = 0; i < t->name_count; i++) {
		const struct live_name *l = &t->names[i];

		if (!protect_has_cover(t, l) || protect_in_place(l))
			continue;
		t->lost = l->n->path;
		t->lost_why = l->kept ? LOST_COVER : LOST_NAME;
		return false;
	}
	return true;
}

/* The file that turns git on the host to another folder at once. */
static bool is_redirect(const struct protected_name *n)
{
	const char *slash = strrchr(n->path, '/');

	return !n->existed && str_eq(slash ? slash + 1 : n->path, "commondir");
}

enum protect_news protect_news(struct protect *t, struct outcome *o)
{
	enum protect_news found = PROTECT_QUIET;
	struct ident now;

	t->o = o;
	if (clock_us() - t->beat >= BEAT_US)
		protect_records_touch(t);
	for (size_t i = 0; i < t->name_count; i++) {
		const struct live_name *l = &t->names[i];

		if (!is_redirect(l->n) || !protect_look_at(l, &now))
			continue;
		quarantine(t, l->tree, l->n->path, "made during the run");
		found = PROTECT_TAMPERED;
	}
	return found == PROTECT_QUIET && !(names_in_place(t) && protect_leases_hold(t))
		       ? PROTECT_LOST
		       : found;
}

/* Is it still a placeholder? It goes, unless another run needs it. */
static bool protect_take(int tree, int dir, const char *path, const char *name, bool shared)
{
	if (shared || placeholder_take(dir, name))
		return !shared || placeholder_is(dir, name);
	if (!placeholder_is(dir, name))
		return false;
	reach_reopen(tree, path); /* it cannot be moved out of a closed folder */
	return placeholder_take(dir, name);
}

static bool leads_as_before(int tree, const struct protected_name *n)
{
	struct stamp now = { 0 };
	struct stat st;

	if (fstatat(tree, n->path, &st, 0) == 0)
		now = stamp_of(&st);
	return S_ISREG(now.ident.type) ? stamp_same(&now, &n->goal)
				       : ident_same(&now.ident, &n->goal.ident);
}

/* A covered folder is compared entry by entry (covered.c): the host may have added one. A file is
 * its inode, whoever wrote to it by whichever way. */
static bool as_before(const struct protected_name *n, const struct stat *st, bool cover_lost)
{
	struct stamp now = stamp_of(st);

	if (n->covered && !cover_lost && S_ISDIR(st->st_mode))
		return ident_same(&now.ident, &n->was.ident);
	return stamp_same(&now, &n->was);
}

/* Is it compared elsewhere, or nothing there by whatever links on the way? That is asked only where
 * it spares opening a folder. */
static bool has_nothing(const struct live_name *l)
{
	const char *path = l->n->path;
	struct stat st;

	return l->n->file || l->placeholder ||
	       (strchr(path, '/') && fstatat(l->tree->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
		errno == ENOENT);
}

/* Of a name that only points elsewhere as a file. */
static bool own_folder(const char *path, const struct stat *st)
{
	return S_ISDIR(st->st_mode) && name_points(path);
}

static bool kept(struct protect *t, const struct kept_file *k, bool locked)
{
	bool plain = protect_config_kept(t, k, locked);

	if (plain)
		protect_trust(t, k->of->tree, k->of->n->path,
			      "replaced during the run, with plain settings more or less");
	return plain;
}

/* Something else than what was covered stands there. The user's git is kept out only where its work
 * would be undone. */
static void replaced(struct protect *t, const struct kept_file *k)
{
	const struct live_name *l = k->of;
	bool locked;

	if (protect_kept_same(k) && protect_kept_back(t, k, true))
		return;
	if (kept(t, k, false))
		return;
	locked = protect_config_lock(k, true);
	if (!(locked && kept(t, k, true))) {
		quarantine(t, l->tree, l->n->path, "changed during the run");
		if (protect_kept_back(t, k, false))
			protect_trust(t, l->tree, l->n->path,
				      "put back as it was before the run: if the change was yours, "
				      "it is in quarantine");
	}
	if (locked)
		(void)protect_config_lock(k, false);
}

static void changed(struct protect *t, const struct live_name *l, const struct stat *st)
{
	if (protect_host_wrote(t, l, st)) {
		l->n->was = stamp_of(st); /* told once */
		protect_trust(t, l->tree, l->n->path,
			      "changed during the run, from outside: inside it was covered");
	} else if (l->kept) {
		replaced(t, l->kept);
	} else {
		quarantine(t, l->tree, l->n->path, "changed during the run");
	}
}

static void look_after(struct protect *t, const struct live_name *l, bool cover_lost)
{
	const struct protected_name *n = l->n;
	int tree = l->tree->fd;
	CLEANUP(name_parent) struct name_parent at = protect_parent(tree, n->path);
	struct stat st;

	/* A link on the way that the plan has not seen, and something behind it. */
	if (at.dir == -ELOOP && !n->existed && fstatat(tree, n->path, &st, 0) == 0 &&
	    !own_folder(n->path, &st))
		quarantine(t, l->tree, n->path, "reached by a link made during the run");
	if (at.dir < 0 || fstatat(at.dir, at.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (!n->existed && own_folder(n->path, &st))
		return;
	if (!n->existed && !n->covered)
		quarantine(t, l->tree, n->path, "made during the run");
	else if (n->existed && !as_before(n, &st, cover_lost))
		changed(t, l, &st);
	else if (n->link && !leads_as_before(tree, n))
		quarantine(t, l->tree, n->path, "led elsewhere after the run");
}

/* A placeholder of ours. What is under a mounted file was never in reach. */
static void protect_release(struct protect *t, const struct live_name *l, const struct journal *j)
{
	const struct protected_name *n = l->n;
	CLEANUP(name_parent) struct name_parent at = protect_parent(l->tree->fd, n->path);
	struct stat st;

	if (at.dir < 0)
		return;
	if (n->file) {
		if (!journal_shared(j))
			(void)placeholder_take(at.dir, at.name);
	} else if (!protect_take(l->tree->fd, at.dir, n->path, at.name, journal_shared(j)) &&
		   fstatat(at.dir, at.name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		quarantine(t, l->tree, n->path, "made during the run");
	}
}

/* The command may have taken the owner's rights from a folder; brig needs them for a moment. */
static void open_trees(struct protect *t)
{
	struct stat st;

	for (struct tree *tree = t->trees; tree < t->trees + t->tree_count; tree++) {
		tree->mode = fstat(tree->fd, &st) == 0 ? st.st_mode & 07777 : 0700;
		tree->closed =
			(tree->mode & 0700) != 0700 && fchmod(tree->fd, tree->mode | 0700) == 0;
	}
}

static void close_trees(struct protect *t)
{
	for (size_t i = 0; i < t->tree_count; i++)
		if (t->trees[i].closed)
			(void)fchmod(t->trees[i].fd, t->trees[i].mode);
}

int protect_holder(const struct box_plan *p, int *ret)
{
	int fd = p->protected_count ? journal_holder(&p->workspace_ident) : -1;

	*ret = fd < 0 ? -1 : fd;
	return p->protected_count && fd < 0 ? fd : 0;
}

int protect_hold(const struct protect *t, int holder)
{
	return t && t->claim >= 0 ? journal_hold(&t->plan->workspace_ident, t->claim, holder) : 0;
}

int protect_let_go(int hold)
{
	struct flock all = { .l_type = F_UNLCK };

	if (hold >= 0)
		(void)fcntl(hold, F_OFD_SETLK, &all);
	return fd_close(hold);
}

/* `shared`: another run still has placeholders in the workspace, and takes the mark away with the
 * last of them. The journal is locked, so that they come one after the other. A start that failed
 * before it opened the record has run nothing, and takes its own mark. */
static void unmark(const struct protect *t, bool shared)
{
	const char *own = t->plan->workspace;

	for (size_t i = 0; i < t->tree_count; i++) {
		const struct tree *tree = &t->trees[i];
		bool here = own && str_eq(tree->path, own);
		bool unused = here && t->marked && tree->record < 0;

		if (here && shared)
			record_leave(tree->record);
		else if (unused || tree->last || (here && tree->left && record_alone(tree->record)))
			record_unmark(t->live, RECORD_LIVE,
				      here ? &t->plan->workspace_ident : &tree->ident);
	}
}

/* Short, since other workspaces wait. */
static void release_all(struct protect *t)
{
	CLEANUP(journal) struct journal *j = NULL;
	struct err e;

	if (journal_open(&t->plan->workspace_ident, TAKE_FD(t->claim), &j, &e) < 0)
		return;
	for (size_t i = 0; i < t->name_count; i++)
		if (t->names[i].placeholder)
			protect_release(t, &t->names[i], j);
	journal_clean(j);
	unmark(t, journal_shared(j));
}

void protect_unasked(struct protect *t)
{
	char reason[160];

	if (!t->asker.unasked)
		return;
	(void)snprintf(reason, sizeof(reason),
		       "git had no time for %llu more question%s about repositories that the run "
		       "left: what was asked about counts as hostile",
		       (unsigned long long)t->asker.unasked, t->asker.unasked == 1 ? "" : "s");
	outcome_deny(t->o, "protected-path", ".", reason);
}

bool protect_changed(const struct protect *t, const struct stat *st)
{
	return !S_ISSOCK(st->st_mode) && !time_before(&st->st_ctim, &t->began);
}

bool protect_tells(const struct protect *t, const struct stat *st)
{
	return protect_changed(t, st) && !time_before(&st->st_ctim, &t->let_go);
}

void protect_lets_begin(struct protect *t)
{
	if (t)
		(void)clock_gettime(CLOCK_REALTIME_COARSE, &t->let_go);
}

static void tell_gone(struct protect *t)
{
	for (struct kept_file *k = t->kept; k < t->kept + t->kept_count; k++) {
		if (k->gone)
			protect_trust(t, k->of->tree, k->of->n->path,
				      "removed on the host during the run: not covered from then "
				      "on");
		k->gone = false;
	}
}

/* What links lead to comes first: a link to a name that was taken away is as it was. */
static void protect_judge(struct protect *t, bool cover_lost, bool last)
{
	for (int links = 0; links < 2; links++)
		for (size_t i = 0; i < t->name_count; i++)
			if (t->names[i].n->link == links && !has_nothing(&t->names[i]))
				look_after(t, &t->names[i], cover_lost);
	tell_gone(t);
	protect_covered(t);
	if (t->began.tv_sec) { /* else the command cannot have begun */
		protect_records_judge(t, last);
		before_tell(t);
	}
	protect_unasked(t);
}

void protect_settle(struct protect *t, struct outcome *o)
{
	if (!t)
		return;
	t->o = o;
	open_trees(t);
	protect_judge(t, false, false);
	close_trees(t);
	t->asker = (struct reader_asker){ .avoid = t->asker.avoid }; /* each look has its own */
	protect_records_touch(t);
}

/* Without memory to say what it finds, the next brig makes the check, as of a run that was killed.
 */
void protect_end(struct protect *t, bool cover_lost, struct outcome *o)
{
	CLEANUP(outcome) struct outcome *unheard = o ? NULL : outcome_new();

	protect_dismiss(t);
	t->o = o ? o : unheard;
	if (!t->o)
		return;
	open_trees(t);
	for (size_t i = 0; i < t->kept_count; i++)
		protect_config_own(t, &t->kept[i]);
	protect_judge(t, cover_lost, true);
	if (t->plan->protected_count)
		release_all(t);
	else
		unmark(t, false);
	close_trees(t);
	for (size_t i = 0; o && i < t->tree_count; i++)
		if (t->trees[i].record >= 0)
			told_tell(&t->trees[i].ident, false, t->o);
	protect_records_others(t);
	t->live = fd_close(t->live);
	t->life = fd_close(t->life);
	protect_reap(t);
}
