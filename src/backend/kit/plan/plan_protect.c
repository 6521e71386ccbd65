/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_protect.c - names in a writable workspace that the host would execute
 * later.
 *
 * A name that exists gets a read-only cover of itself. A name that does not is held by a
 * placeholder that protect.c makes on the host for the time of the run (placeholder.h) and that is
 * covered too. Folders on the way to a covered name are pinned (mounted on themselves, writable),
 * because a mount point cannot be renamed away. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/kit/plan/plan_internal.h"
#include "backend/kit/survey/covered.h"
#include "backend/kit/survey/placeholder.h"
#include "backend/kit/survey/protected_names.h"
#include "base/files/home.h"
#include "base/files/state.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/files/settings_used.h"
#include "model/known/tool_settings.h"
#include "model/settings/paths.h"

#define LOOKS_MAX 100
#define NAMES_MAX 4096
#define NAMES_TEXT_MAX 1024

/* *at receives its index; there is one for each place. */
static int cover(struct box_plan *p, const struct guarded_tree *t, const char *path, bool pin,
		 size_t *at, struct err *e)
{
	const char *dst = arena_printf(p->arena, "%s/%s", t->inside, path);
	struct op *o;

	if (!dst)
		return err_nomem(e);
	for (size_t i = p->op_count; i-- > 0;)
		if (p->ops[i].kind == OP_COVER && str_eq(p->ops[i].dst, dst)) {
			p->ops[i].writable &= pin;
			*at = i;
			return 0;
		}
	*at = p->op_count;
	o = plan_op(p, OP_COVER, dst, e);
	if (!o)
		return -e->code;
	o->writable = pin;
	return 0;
}

/* Pins every folder above path; returns 1 and cuts path short when one of them is missing. */
static int pin_parents(struct box_plan *p, const struct guarded_tree *t, char *path, struct err *e)
{
	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		CLEANUP(fd) int fd = -1;
		size_t at;

		*slash = '\0';
		fd = fd_open_nolinks(t->fd, path, O_PATH | O_DIRECTORY, FD_BENEATH);
		if (fd == -ENOENT)
			return 1;
		if (fd < 0 || cover(p, t, path, true, &at, e) < 0)
			return fd < 0 ? 1 : -e->code;
		*slash = '/';
	}
	return 0;
}

/* A file with more than one name is not protected by a cover over one of them. */
static int note_shared(struct box_plan *p, const struct guarded_tree *t, const char *path,
		       const struct stat *st, struct err *e)
{
	struct shared_file *slot;

	if (!S_ISREG(st->st_mode) || st->st_nlink < 2)
		return 0;
	slot = ARENA_PUSH(p->arena, p->shared, p->shared_count);
	if (!slot)
		return err_nomem(e);
	*slot = (struct shared_file){ .tree = t->host, .path = path, .ident = ident_of(st) };
	return 0;
}

static int record(struct box_plan *p, const struct guarded_tree *t, const char *path,
		  const struct stat *st, bool covered, struct err *e)
{
	struct protected_name *slot = ARENA_PUSH(p->arena, p->protected, p->protected_count);
	struct protected_name n = { .tree = t->host, .path = path, .covered = covered };

	n.inside = arena_printf(p->arena, "%s/%s", t->inside, path);
	if (!slot || !n.inside)
		return err_nomem(e);
	if (st) {
		n.existed = true;
		n.was = stamp_of(st);
	}
	if (covered && cover(p, t, path, false, &n.op, e) < 0)
		return -e->code;
	*slot = n;
	return st ? note_shared(p, t, path, st, e) : 0;
}

bool plan_protects(const struct box_plan *p, const char *tree, const char *path)
{
	for (size_t i = 0; i < p->protected_count; i++)
		if (str_eq(p->protected[i].tree, tree) && str_eq(p->protected[i].path, path))
			return true;
	return false;
}

/* Links on the way there are compared as well. *ret: relative to the tree; NULL: elsewhere. */
static int link_goal(struct box_plan *p, const struct guarded_tree *t, const char *path,
		     const char **ret, struct err *e)
{
	struct link_way way;
	struct stat st;

	plan_follow(p, t, path, &way);
	for (size_t i = 0; i < way.passed_count; i++)
		if (!way.passed[i])
			return err_nomem(e);
		else if (!plan_protects(p, t->host, way.passed[i]) &&
			 fstatat(t->fd, way.passed[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			 record(p, t, way.passed[i], &st, false, e) < 0)
			return -e->code;
	if (way.lost)
		plan_note(p, arena_printf(p->arena,
					  "'%.200s' is a link that brig cannot follow: what it "
					  "leads to is not protected",
					  path));
	*ret = way.goal;
	return 0;
}

/* A link cannot be covered: it is compared after the run, and so is what it leads to in the end. */
static int protect_link(struct box_plan *p, const struct guarded_tree *t, const char *path,
			const struct stat *st, struct err *e)
{
	size_t at = p->protected_count;
	struct protected_name *n;
	struct stat there;

	if (record(p, t, path, st, false, e) < 0 ||
	    link_goal(p, t, path, &p->protected[at].goal_at, e) < 0)
		return -e->code;
	n = &p->protected[at];
	n->link = n->goal_at;
	if (fstatat(t->fd, path, &there, 0) == 0)
		n->goal = stamp_of(&there);
	return 0;
}

/* What stands at path: 1, or 0 for nothing. Other runs' placeholders come and go meanwhile, so that
 * what is opened is what is looked at: a name seen by one call and missed by the next would be
 * neither covered nor held. */
static int plan_protect_look(const struct guarded_tree *t, const char *path, struct stat *st,
			     struct err *e)
{
	for (int tries = 0; tries < LOOKS_MAX; tries++) {
		CLEANUP(fd) int fd = fd_open_nolinks(t->fd, path, O_PATH, FD_BENEATH);

		if (fd >= 0)
			return fstat(fd, st) < 0 ? err_sys(e, "cannot look at '%s'", path) : 1;
		if (fd == -ENOENT || fd == -ENOTDIR || fd == -EACCES)
			return 0;
		if (fd != -ELOOP)
			return err_errno(e, fd, "cannot look at '%s'", path);
		if (fstatat(t->fd, path, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st->st_mode))
			return 1;
	}
	return err_set(e, ERR_UNAVAILABLE, EAGAIN, "'%s' in the workspace changes all the time",
		       path);
}

/* With no link on the way; where there is no way, a look is cheaper. */
static bool is_missing(const struct guarded_tree *t, const char *path)
{
	CLEANUP(fd) int fd = -1;
	struct stat st;

	if (!strchr(path, '/'))
		return fstatat(t->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
	fd = fd_open_nolinks(t->fd, path, O_PATH, FD_BENEATH);
	return fd == -ENOENT;
}

int plan_protect_name(struct box_plan *p, const struct guarded_tree *t, const char *name, bool hold,
		      struct err *e)
{
	char *path = arena_strdup(p->arena, name);
	struct stat st = { 0 };
	int there;

	if (!path)
		return err_nomem(e);
	if (!hold && is_missing(t, path))
		return record(p, t, path, NULL, false, e);
	if (pin_parents(p, t, path, e) < 0)
		return -e->code;
	there = plan_protect_look(t, path, &st, e);
	if (there <= 0)
		return there < 0 ? -e->code : record(p, t, path, NULL, hold, e);
	return S_ISLNK(st.st_mode) ? protect_link(p, t, path, &st, e)
				   : record(p, t, path, &st, true, e);
}

/* A link among the folders on the way is compared as well; returns where the way goes on, NULL when
 * it leaves the tree or path is no link. */
static const char *past_link(struct box_plan *p, const struct guarded_tree *t, const char *path,
			     const char *rest, struct err *e)
{
	const char *goal;
	struct stat st;

	if (fstatat(t->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISLNK(st.st_mode) ||
	    link_goal(p, t, path, &goal, e) < 0 || !goal ||
	    (!plan_protects(p, t->host, path) && record(p, t, path, &st, false, e) < 0))
		return NULL;
	return arena_printf(p->arena, "%s%s", goal, rest);
}

/* Where a link leads. A name that is missing is taken away should it appear, not the folder it
 * would lie in. */
int plan_protect_goal(struct box_plan *p, const struct guarded_tree *t, const char *goal,
		      struct err *e)
{
	for (int left = LINKS_MAX; goal && left; left--) {
		char *path = arena_strdup(p->arena, goal);
		const char *on;
		int r;

		if (!path)
			return err_nomem(e);
		r = pin_parents(p, t, path, e);
		if (r < 0 || plan_protects(p, t->host, goal))
			return r < 0 ? r : 0;
		if (r == 0)
			return plan_protect_name(p, t, goal, false, e);
		on = past_link(p, t, path, goal + strlen(path), e);
		if (!on)
			return record(p, t, goal, NULL, false, e);
		goal = on;
	}
	return 0;
}

/* ---- what lies in covered folders ---- */

struct inside_walk {
	struct box_plan *p;
	const struct guarded_tree *t;
	struct err *e;
};

/* A cover holds the folder, not what a link in it leads to, nor a file's other names. */
static int look_at_entry(void *ctx, const char *entry, const struct stat *st)
{
	struct inside_walk *w = ctx;
	const char *path, *goal;

	if (S_ISDIR(st->st_mode) || (S_ISREG(st->st_mode) && st->st_nlink < 2))
		return 0;
	path = arena_strdup(w->p->arena, entry);
	if (!path)
		return err_nomem(w->e);
	if (!S_ISLNK(st->st_mode))
		return note_shared(w->p, w->t, path, st, w->e);
	return link_goal(w->p, w->t, path, &goal, w->e) < 0
		       ? -w->e->code
		       : plan_protect_goal(w->p, w->t, goal, w->e);
}

/* Where the links lead, if that lies in the tree, link by link, and those inside of covered
 * folders. Last, so that a name with a place of its own in the lists keeps it. */
int plan_protect_goals(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	struct inside_walk w = { .p = p, .t = t, .e = e };
	struct covered_look l = {
		.tree = t->fd, .left = COVERED_ENTRIES, .each = look_at_entry, .ctx = &w
	};
	char path[PATH_MAX];

	for (size_t i = 0; i < p->protected_count; i++) {
		const struct protected_name n = p->protected[i];

		if (!str_eq(n.tree, t->host) || n.file)
			continue;
		if (n.link && plan_protect_goal(p, t, n.goal_at, e) < 0)
			return -e->code;
		if (n.existed && n.covered && S_ISDIR(n.was.ident.type)) {
			l.git = snprintf(path, sizeof(path), "%s/%s", t->host, n.path) <
					(int)sizeof(path) &&
				plan_is_git(path);
			if (covered_look(&l, n.path) < 0)
				return -e->code;
		}
		if (i > NAMES_MAX)
			return err_set(e, ERR_POLICY, ELOOP,
				       "too many links lead from the protected names in '%s'",
				       t->host);
	}
	if (l.left <= 0 || l.deep)
		plan_note(p, "folders with protected names are large or deep: links and second "
			     "names in there were not all looked at");
	return 0;
}

static int protect_setting(struct box_plan *p, const struct guarded_tree *t, const char *host,
			   struct err *e)
{
	const char *path = in_tree(t, host);

	return path && !plan_protects(p, t->host, path) ? plan_protect_name(p, t, path, false, e)
							: 0;
}

static int protect_real_setting(struct box_plan *p, const struct guarded_tree *t, const char *host,
				struct err *e)
{
	char real[PATH_MAX];
	const char *path = realpath(host, real) ? arena_strdup(p->arena, real) : host;

	if (!path)
		return err_nomem(e);
	return protect_setting(p, t, host, e) < 0 ? -e->code : protect_setting(p, t, path, e);
}

/* A run that could write brig's own folders is refused later on (plan_guard.c); what is put there
 * after a run is not. */
static int protect_brigs(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	char home[PATH_MAX], place[PATH_MAX];
	const char *listed = home_listed(geteuid(), home, sizeof(home)) == 0 ? home : NULL;

	for (int i = 0; i < STATE_PLACES; i++) {
		const char *state = state_place(i, listed, place, sizeof(place)) < 0
					    ? ""
					    : arena_strdup(p->arena, place);

		if (!state)
			return err_nomem(e);
		if (*state && protect_real_setting(p, t, state, e) < 0)
			return -e->code;
	}
	for (int i = 0; i < SETTINGS_PLACES; i++) {
		const char *folder = plan_settings_place(p, i, listed);
		const char *file = folder ? arena_printf(p->arena, "%s/config.yaml", folder) : NULL;

		if (folder && !file)
			return err_nomem(e);
		if (folder && (protect_real_setting(p, t, folder, e) < 0 ||
			       protect_real_setting(p, t, file, e) < 0))
			return -e->code;
	}
	return 0;
}

bool plan_in_settings(struct box_plan *p)
{
	char home[PATH_MAX], real[PATH_MAX];
	const char *listed = home_listed(geteuid(), home, sizeof(home)) == 0 ? home : NULL;

	for (int i = 0; i < SETTINGS_PLACES; i++) {
		const char *folder = plan_settings_place(p, i, listed);

		if (folder && (path_under(p->workspace, folder) ||
			       (realpath(folder, real) && path_under(p->workspace, real))))
			return true;
	}
	return false;
}

/* The next run would obey what this one wrote into a file that was ever given with --config, to
 * this run or to another. */
static int protect_settings(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	const char *path = p->spec->config_file, *const * used;
	size_t n;
	int r;

	if (path && protect_real_setting(p, t, path, e) < 0)
		return -e->code;
	if (protect_brigs(p, t, e) < 0)
		return -e->code;
	r = settings_used(p->arena, &used, &n);
	if (r < 0)
		return err_errno(e, r, "cannot read which files were used as settings");
	for (size_t i = 0; i < n; i++)
		if (protect_setting(p, t, used[i], e) < 0)
			return -e->code;
	return 0;
}

/* A folder is written down as nothing: whatever else stands in its place afterwards is new. */
static int protect_pointer(struct box_plan *p, const struct guarded_tree *t, const char *name,
			   struct err *e)
{
	struct stat st;

	if (fstatat(t->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		return record(p, t, name, NULL, false, e);
	return plan_protect_name(p, t, name, false, e);
}

/* A program that finds something else than its folder of settings says that they are broken, and
 * waits for an answer. */
static bool is_settings(const struct spec *s, const char *name)
{
	for (size_t i = 0; i < s->home_seed.n; i++)
		if (tool_settings_in(s->home_seed.v[i], name))
			return true;
	return false;
}

const char *plan_held_folders(struct box_plan *p)
{
	CLEANUP(buf) struct buf names = BUF_INIT(NAMES_TEXT_MAX);
	CLEANUP(fd) int top = -1;

	if (p->spec->home_seed.n && plan_has_names(p))
		top = fd_open_nolinks(AT_FDCWD, p->workspace, O_PATH | O_DIRECTORY, 0);
	for (size_t i = 0; top >= 0 && i < guarded_name_count; i++) {
		const char *name = guarded_names[i].name;

		if (guarded_names[i].class == NAME_HELD && is_settings(p->spec, name) &&
		    (faccessat(top, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
		     placeholder_is(top, name)))
			buf_printf(&names, "/%s/\n", name);
	}
	return names.failed ? NULL : arena_strdup(p->arena, buf_str(&names));
}

static int protect_held(struct box_plan *p, const struct guarded_tree *t, const char *name,
			struct err *e)
{
	size_t at = p->protected_count;
	int r = plan_protect_name(p, t, name, true, e);

	if (r >= 0 && p->protected_count > at && str_eq(p->protected[at].path, name))
		p->protected[at].folder = is_settings(p->spec, name);
	return r;
}

static int protect_workspace(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	for (size_t i = 0; i < guarded_name_count; i++) {
		const struct guarded_name *n = &guarded_names[i];
		int r = 0;

		if (n->class == NAME_POINTER)
			r = protect_pointer(p, t, n->name, e);
		else if (n->class == NAME_HELD)
			r = protect_held(p, t, n->name, e);
		else if (n->class < NAME_REPORTED)
			r = plan_protect_name(p, t, n->name, false, e);
		if (r < 0)
			return r;
	}
	if (protect_settings(p, t, e) < 0)
		return -e->code;
	return plan_repository(p, t, e) < 0 ? -e->code : plan_protect_goals(p, t, e);
}

bool plan_has_names(const struct box_plan *p)
{
	return p->workspace &&
	       (p->spec->policy == POLICY_WORKSPACE_WRITE || p->spec->git == GIT_NONE) &&
	       (!p->layered || p->spec->git != GIT_WRITE);
}

static int protect_own(struct box_plan *p, struct err *e)
{
	struct guarded_tree t = { .host = p->workspace, .inside = p->spec->inside };
	CLEANUP(fd) int fd = -1;

	fd = fd_open_nolinks(AT_FDCWD, p->workspace, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return err_errno(e, fd, "cannot open '%s'", p->workspace);
	t.fd = fd;
	if (p->layered)
		return plan_layered_git(p, &t, e);
	if (p->spec->policy != POLICY_WORKSPACE_WRITE)
		return plan_repository(p, &t, e);
	return protect_workspace(p, &t, e);
}

int plan_protect(struct box_plan *p, struct err *e)
{
	return plan_has_names(p) && protect_own(p, e) < 0 ? -e->code : plan_written(p, e);
}
