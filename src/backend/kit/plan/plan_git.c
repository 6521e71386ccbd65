/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_git.c - the protected names of a git folder, wherever it lies: in the
 * workspace, as the workspace, or shared by worktrees; and the places that its configuration names.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "backend/kit/survey/gitdirs.h"
#include "base/files/exposed_notes.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

#define COVERED_MAX 768 /* names in git folders other than the main one */

/* The parts of a git folder, which `prefix` leads to. Those of the main one are held while they are
 * missing; of a nested one what is missing is looked for afterwards. */
static int protect_parts(struct box_plan *p, const struct guarded_tree *t, const char *prefix,
			 bool nested, struct err *e)
{
	for (size_t i = 0; i < GIT_PARTS; i++) {
		const struct git_part *part = &git_parts[i];
		const char *name = arena_printf(p->arena, "%s%s", prefix, part->name);
		struct stat st;

		if (!name)
			return err_nomem(e);
		if (part->kind == GIT_PART_LIST ||
		    (nested ? fstatat(t->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0
			    : part->kind == GIT_PART_BACK))
			continue;
		if (plan_protect_name(p, t, name, part->hold && !nested, e) < 0)
			return -e->code;
	}
	return 0;
}

/* The one line of a file of git's, without its end; false when it is no such file. */
static bool git_line(const char *path, char *out, size_t n)
{
	ssize_t len;
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);

	if (fd < 0)
		return false;
	len = read(fd, out, n - 1);
	if (len <= 0)
		return false;
	out[len] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return !str_has_control(out) && out[0];
}

/* The text of a path that may be relative to a folder, made absolute; NULL: it cannot be. */
static const char *against(struct box_plan *p, const char *folder, const char *text)
{
	struct place at = { .cwd = folder };
	const char *path;
	struct err e;

	return path_resolve(p->arena, &at, text, &path, &e) < 0 ? NULL : path;
}

bool plan_is_git(const char *path)
{
	char part[PATH_MAX + 16];
	struct stat st;

	(void)snprintf(part, sizeof(part), "%s/HEAD", path);
	if (lstat(part, &st) < 0)
		return false;
	(void)snprintf(part, sizeof(part), "%s/objects", path);
	return lstat(part, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *plan_goal_of(struct box_plan *p, const char *file, const char *root)
{
	char text[PATH_MAX];

	if (!git_line(file, text, sizeof(text)) || !str_starts(text, "gitdir: "))
		return NULL;
	return against(p, root, text + strlen("gitdir: "));
}

const char *plan_git_goal(struct box_plan *p)
{
	char path[PATH_MAX + 32];

	if (!p->workspace)
		return NULL;
	(void)snprintf(path, sizeof(path), "%s/.git", p->workspace);
	return plan_goal_of(p, path, p->workspace);
}

/* Where the line of a file in a git folder leads; NULL: nowhere. */
static const char *named_in(struct box_plan *p, const char *git, const char *name)
{
	char text[PATH_MAX], path[PATH_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/%s", git, name);
	return git_line(path, text, sizeof(text)) ? against(p, git, text) : NULL;
}

const char *plan_common_of(struct box_plan *p, const char *git)
{
	return named_in(p, git, "commondir");
}

/* Says why git has nothing here. A submodule has its git folder in that of the tree around it. */
static void note_not_back(struct box_plan *p, const char *gitdir)
{
	const char *modules = strstr(gitdir, "/.git/modules/"), *text = NULL;
	size_t n = modules ? (size_t)(modules - gitdir) : 0;

	if (n && strncmp(p->workspace, gitdir, n) == 0 && p->workspace[n] == '/')
		text = arena_printf(p->arena,
				    "the workspace is a submodule, whose git folder is not shown: "
				    "for git in it start brig in the repository around it "
				    "(--workdir '%.*s')",
				    (int)n, p->workspace);
	plan_note(p, text ? text
			  : "the workspace's .git points to a folder that does not point back: "
			    "not shown");
}

/* A worktree's git folder is believed only when it names this workspace in return and lies where
 * git puts it: the `.git` file is workspace content, and a hostile one could name any folder of the
 * user's. */
static const char *worktree_common(struct box_plan *p, const char *gitdir)
{
	const char *own = arena_printf(p->arena, "%s/.git", p->workspace);
	const char *back = named_in(p, gitdir, "gitdir"), *common = plan_common_of(p, gitdir);
	const char *name = strrchr(gitdir, '/');
	const char *home = common ? arena_printf(p->arena, "%s/worktrees%s", common, name) : NULL;

	if (back && own && home && str_eq(back, own) && str_eq(home, gitdir) && plan_is_git(common))
		return common;
	note_not_back(p, gitdir);
	return NULL;
}

const char *plan_worktree_root(struct box_plan *p, const char *git)
{
	const char *root = named_in(p, git, "gitdir");
	const char *slash = root ? strrchr(root, '/') : NULL;

	if (!slash || !str_eq(slash, "/.git"))
		return NULL;
	return arena_printf(p->arena, "%.*s", (int)(slash - root), root);
}

/* The main git folder. `host` is its path, `root` its working tree or NULL. */
static int protect_git(struct box_plan *p, const struct guarded_tree *t, const char *prefix,
		       const char *host, const char *root, struct err *e)
{
	struct git_folder *slot = ARENA_PUSH(p->arena, p->gits, p->git_count);

	if (!slot)
		return err_nomem(e);
	*slot = (struct git_folder){ .tree = t->host,
				     .path = host + strlen(t->host) +
					     (host[strlen(t->host)] == '/'),
				     .host = host };
	return protect_parts(p, t, prefix, false, e) < 0
		       ? -e->code
		       : plan_config_of(p, host, host, root, false, e);
}

/* ---- all the others ---- */

/* The main one, which has its rules already, or one in a folder that is covered as a whole. */
static bool has_rules(const struct box_plan *p, const struct guarded_tree *t, const char *git)
{
	for (size_t i = 0; i < p->git_count; i++)
		if (str_eq(p->gits[i].tree, t->host) && str_eq(p->gits[i].path, git))
			return true;
	for (size_t i = 0; i < p->protected_count; i++) {
		const struct protected_name *n = &p->protected[i];
		size_t len = strlen(n->path);

		if (n->existed && str_eq(n->tree, t->host) && strncmp(git, n->path, len) == 0 &&
		    (!git[len] || git[len] == '/'))
			return true;
	}
	return false;
}

/* Its configuration, which may be that of the folder that it shares. */
static int configured_by(struct box_plan *p, const struct guarded_tree *t, const char *git,
			 struct err *e)
{
	const char *host = arena_printf(p->arena, "%s%s%s", t->host, *git ? "/" : "", git);
	const char *common, *root;

	if (!host)
		return err_nomem(e);
	root = gitdir_named(git) ? plan_main_root(p, host) : plan_worktree_root(p, host);
	common = plan_common_of(p, host);
	return plan_config_of(p, common ? common : host, host, root, true, e);
}

static int protect_nested(struct box_plan *p, const struct guarded_tree *t, const char *git,
			  struct err *e)
{
	const char *prefix = arena_printf(p->arena, "%s%s", git, *git ? "/" : "");

	if (!prefix)
		return err_nomem(e);
	return protect_parts(p, t, prefix, true, e) < 0 ? -e->code : configured_by(p, t, git, e);
}

/* Every git folder of the user's that the record or a look from the top has. One that a run has
 * made is not covered: it is judged by what is in it, and may be removed. */
static int protect_all(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	struct plan_survey *slot = ARENA_PUSH(p->arena, p->surveys, p->survey_count);
	size_t first = p->protected_count;
	struct ident ident;
	struct stat st;

	if (!slot)
		return err_nomem(e);
	*slot = (struct plan_survey){ .tree = t->host };
	if (fstat(t->fd, &st) < 0)
		return err_sys(e, "cannot look at '%s'", t->host);
	ident = ident_of(&st);
	if (survey_take(t->fd, &ident, &slot->survey, e) < 0)
		return -e->code;
	/* Without a workspace there is no journal of covers: they are compared alone. */
	for (size_t i = 0; p->workspace && i < slot->survey.known.n; i++) {
		const struct known_thing *k = &slot->survey.known.v[i];

		if (k->kind != RECORD_GIT || has_rules(p, t, k->path))
			continue;
		if (p->protected_count - first > COVERED_MAX) {
			plan_note(p, "more repositories than brig covers: what git would run in "
				     "the others is compared after the run");
			break;
		}
		if (protect_nested(p, t, k->path, e) < 0)
			return -e->code;
	}
	if (slot->survey.partial)
		plan_note(p, "more folders than brig looks through: what git would obey in the "
			     "rest is not covered, and what was there already stays");
	return 0;
}

/* All of a tree in which nothing else was looked for; without a workspace nothing is covered. */
static int protect_whole(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	if (protect_all(p, t, e) < 0)
		return -e->code;
	return p->workspace && (plan_configured(p, t, e) < 0 || plan_protect_goals(p, t, e) < 0)
		       ? -e->code
		       : 0;
}

/* One of --write and --mount. */
static int protect_written(struct box_plan *p, const char *host, const char *inside, struct err *e)
{
	struct guarded_tree t = { .host = host, .inside = inside };
	CLEANUP(fd) int fd = -1;

	for (size_t i = 0; i < p->survey_count; i++)
		if (path_under(host, p->surveys[i].tree))
			return 0;
	fd = fd_open_nolinks(AT_FDCWD, host, O_PATH | O_DIRECTORY, 0);
	if (fd == -ENOTDIR)
		return 0;
	if (fd < 0)
		return err_errno(e, fd, "cannot open '%s'", host);
	if (p->survey_count == SURVEYS_MAX)
		return err_refuse(e, ERR_POLICY, E2BIG, "name a folder that holds them",
				  "more than %d writable trees", SURVEYS_MAX);
	t.fd = fd;
	return protect_whole(p, &t, e);
}

int plan_written(struct box_plan *p, struct err *e)
{
	const struct spec *s = p->spec;

	for (size_t i = 0; i < s->write.n; i++)
		if (protect_written(p, s->write.v[i], s->write.v[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->mounts.n; i++)
		if (s->mounts.v[i].writable &&
		    protect_written(p, s->mounts.v[i].source, s->mounts.v[i].target, e) < 0)
			return -e->code;
	return 0;
}

const char *plan_main_root(struct box_plan *p, const char *common)
{
	const char *slash = strrchr(common, '/');

	return str_eq(slash, "/.git") && slash != common
		       ? arena_printf(p->arena, "%.*s", (int)(slash - common), common)
		       : NULL;
}

int plan_worktree(struct box_plan *p, struct err *e)
{
	const char *gitdir = plan_git_goal(p);
	bool outside = gitdir && !path_under(gitdir, p->workspace);
	const char *common = outside         ? worktree_common(p, gitdir)
			     : p->repository ? arena_printf(p->arena, "%s/.git", p->repository)
					     : NULL;
	struct guarded_tree t = { .fd = -1, .host = common, .inside = common };
	bool change = p->spec->policy == POLICY_WORKSPACE_WRITE && p->spec->git == GIT_WRITE &&
		      !p->layered;
	int r;

	if (!common || p->spec->git == GIT_NONE)
		return 0;
	if (target_check(common, p->spec->inside, e) < 0 ||
	    plan_bind(p, common, common, change, true, e) < 0)
		return err_wrap(e, "git folder of the repository");
	if (p->layered && outside) /* else plan_subfolder said so */
		plan_note(p, "git keeps this working tree's repository outside of it, where an "
			     "overlay workspace changes nothing: no commit can be made");
	if (!change)
		return 0;
	p->git_outside = common;
	t.fd = fd_open_nolinks(AT_FDCWD, common, O_PATH | O_DIRECTORY, 0);
	if (t.fd < 0)
		return err_errno(e, t.fd, "cannot open '%s'", common);
	r = protect_git(p, &t, "", common, plan_main_root(p, common), e);
	if (r == 0)
		r = protect_whole(p, &t, e);
	(void)fd_close(t.fd);
	return r;
}

int box_plan_expose(const struct box_plan *p, struct err *e)
{
	return p->git_outside ? exposed_note(p->git_outside, EXPOSED_AS_GIT, e) : 0;
}

/* A git folder, or the file that leads to one, as a whole: read-only, or nothing to be seen of it.
 */
static int shut(struct box_plan *p, const struct guarded_tree *t, const char *name, struct err *e)
{
	const struct protected_name *n;

	if (plan_protect_name(p, t, name, false, e) < 0)
		return -e->code;
	n = &p->protected[p->protected_count - 1];
	if (p->spec->git != GIT_NONE || !n->existed)
		return 0;
	if (!n->covered)
		return err_refuse(e, ERR_POLICY, ELOOP, "use --git read",
				  "git: '%s' is a link, which cannot be hidden", name);
	p->ops[n->op].kind = OP_MASK;
	return 0;
}

/* `git: read` and `git: none`: no rules for its parts, none of them can be written. */
static int shut_repository(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	const char *goal = plan_git_goal(p), *path = in_tree(t, goal);
	const char *own = arena_printf(p->arena, "%s/.git", p->workspace);

	if (!own)
		return err_nomem(e);
	if (plan_is_git(p->workspace))
		return err_refuse(e, ERR_POLICY, EPERM, "use --policy readonly",
				  "git: the workspace is itself a bare repository, and writable");
	if ((path && shut(p, t, path, e) < 0) || shut(p, t, ".git", e) < 0)
		return -e->code;
	return goal ? plan_pointer(p, own, p->workspace, e)
		    : plan_config_of(p, own, own, p->workspace, false, e);
}

/* One name of the workspace that is there: over it, since what is written beside it is a layer's.
 */
static int shut_in_layer(struct box_plan *p, const struct guarded_tree *t, const char *name,
			 struct err *e)
{
	const char *dst = arena_printf(p->arena, "%s/%s", t->inside, name);
	struct stat st;

	if (!dst)
		return err_nomem(e);
	if (fstatat(t->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* one that is made inside is of the layer alone */
	if (S_ISLNK(st.st_mode))
		return err_refuse(e, ERR_POLICY, ELOOP, "use --git write: the layer takes it all",
				  "git: '%s' is a link, which cannot be shut", name);
	return plan_op(p, p->spec->git == GIT_NONE ? OP_MASK : OP_COVER, dst, e) ? 0 : -e->code;
}

int plan_layered_git(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	const char *goal = plan_git_goal(p), *path = in_tree(t, goal);

	if (plan_is_git(p->workspace))
		return err_refuse(e, ERR_POLICY, EPERM, "use --policy readonly",
				  "git: the workspace is itself a bare repository, and writable");
	if (path && !str_eq(path, ".git") && shut_in_layer(p, t, path, e) < 0)
		return -e->code;
	return shut_in_layer(p, t, ".git", e);
}

static int protect_repository(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	const char *goal;
	struct stat st;

	const char *own = arena_printf(p->arena, "%s/.git", p->workspace);

	if (!own)
		return err_nomem(e);
	if (fstatat(t->fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* `git init` inside is ordinary work: its result is looked at */
	if (S_ISDIR(st.st_mode))
		return protect_git(p, t, ".git/", own, p->workspace, e);
	/* A git folder elsewhere in the workspace is one all the same. */
	goal = plan_git_goal(p);
	if (goal && path_under(goal, p->workspace) && goal[strlen(p->workspace)]) {
		const char *prefix = arena_printf(p->arena, "%s/", in_tree(t, goal));

		if (!prefix || protect_git(p, t, prefix, goal, p->workspace, e) < 0)
			return prefix ? -e->code : err_nomem(e);
	}
	return plan_protect_name(p, t, ".git", true, e);
}

int plan_repository(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	bool shut = p->spec->git != GIT_WRITE;

	/* A bare repository is a git folder itself. */
	if (!shut && plan_is_git(p->workspace) && protect_git(p, t, "", p->workspace, NULL, e) < 0)
		return -e->code;
	if ((shut ? shut_repository(p, t, e) : protect_repository(p, t, e)) < 0)
		return -e->code;
	if (p->spec->policy != POLICY_WORKSPACE_WRITE)
		return 0;
	if (plan_above(p, e) < 0 || protect_all(p, t, e) < 0)
		return -e->code;
	return plan_configured(p, t, e);
}
