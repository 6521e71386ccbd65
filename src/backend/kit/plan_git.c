/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan_git.c - the protected names of a git folder, wherever it lies: in the workspace,
 * as the workspace, or shared by worktrees; and the places that its configuration names. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/gitconfig.h"
#include "backend/kit/plan_internal.h"
#include "base/str.h"
#include "model/paths.h"

/* In a git folder: what git runs, or reads to learn what to run. The last three do nothing without
 * a line in `config`, which is covered. */
static const struct {
	const char *name;
	bool hold;
} git_names[] = { { "hooks", true },
		  { "config", true },
		  { "config.worktree", false },
		  { "info/attributes", false },
		  { "modules", false } };

#define WORKTREES_MAX 64

/* Every worktree's own folder says where the shared one is: those files stay as they are. */
static int protect_worktrees(struct box_plan *p, const struct guarded_tree *t, const char *prefix,
			     struct err *e)
{
	static const char *const files[] = { "commondir", "gitdir", "config.worktree" };
	const char *folder = arena_printf(p->arena, "%sworktrees", prefix);
	int fd = folder ? fd_open_nolinks(t->fd, folder, O_RDONLY | O_DIRECTORY, FD_BENEATH) : -1;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int r = 0, left = WORKTREES_MAX;

	for (struct dirent *en; d && r == 0 && (en = readdir(d));) {
		if (en->d_name[0] == '.' || str_has_control(en->d_name))
			continue;
		if (!left--)
			r = err_set(e, ERR_UNAVAILABLE, E2BIG, "more than %d git worktrees",
				    WORKTREES_MAX);
		for (size_t i = 0; r == 0 && i < ARRAY_LEN(files); i++) {
			const char *name =
				arena_printf(p->arena, "%s/%s/%s", folder, en->d_name, files[i]);

			r = name ? plan_protect_name(p, t, name, false, e) : err_nomem(e);
		}
	}
	if (d)
		(void)closedir(d);
	return r;
}

static int protect_git(struct box_plan *p, const struct guarded_tree *t, const char *prefix,
		       struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(git_names); i++) {
		const char *name = arena_printf(p->arena, "%s%s", prefix, git_names[i].name);

		if (!name)
			return err_nomem(e);
		if (plan_protect_name(p, t, name, git_names[i].hold, e) < 0)
			return -e->code;
	}
	return protect_worktrees(p, t, prefix, e);
}

/* Reads a one-line file of git's and cuts the newline; false when it is not such a file. */
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

/* The text of a path that may be relative to a folder, made absolute. */
static const char *against(struct box_plan *p, const char *folder, const char *text)
{
	struct place at = { .cwd = folder };
	const char *path;
	struct err e;

	return path_resolve(p->arena, &at, text, &path, &e) < 0 ? NULL : path;
}

static bool is_git_folder(const char *path)
{
	char part[PATH_MAX + 16];
	struct stat st;

	(void)snprintf(part, sizeof(part), "%s/HEAD", path);
	if (lstat(part, &st) < 0)
		return false;
	(void)snprintf(part, sizeof(part), "%s/objects", path);
	return lstat(part, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Where the workspace's `.git` file leads; NULL: it is no such file. */
static const char *git_file_goal(struct box_plan *p)
{
	char text[PATH_MAX], path[PATH_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/.git", p->workspace);
	if (!git_line(path, text, sizeof(text)) || !str_starts(text, "gitdir: "))
		return NULL;
	return against(p, p->workspace, text + strlen("gitdir: "));
}

/* A worktree's git folder is believed only when it names this workspace in return and lies where
 * git puts it: the `.git` file is workspace content, and a hostile one could name any folder of the
 * user's. */
static const char *worktree_common(struct box_plan *p, const char *gitdir)
{
	char text[PATH_MAX], path[PATH_MAX + 32];
	const char *back, *common, *own = arena_printf(p->arena, "%s/.git", p->workspace), *home;
	const char *name = strrchr(gitdir, '/');

	(void)snprintf(path, sizeof(path), "%s/gitdir", gitdir);
	back = git_line(path, text, sizeof(text)) ? against(p, gitdir, text) : NULL;
	(void)snprintf(path, sizeof(path), "%s/commondir", gitdir);
	common = git_line(path, text, sizeof(text)) ? against(p, gitdir, text) : NULL;
	home = common ? arena_printf(p->arena, "%s/worktrees%s", common, name) : NULL;
	if (back && own && home && str_eq(back, own) && str_eq(home, gitdir) &&
	    is_git_folder(common))
		return common;
	plan_note(p, "the workspace's .git points to a folder that does not point back: not shown");
	return NULL;
}

struct configured {
	struct box_plan *p;
	const struct guarded_tree *t;
	const char *folder; /* where the configuration lies */
	struct err *e;
};

static int configured_path(void *arg, const struct gitconfig_path *path)
{
	const struct configured *c = arg;
	const char *host = against(c->p, path->hooks ? c->p->workspace : c->folder, path->value);

	if (host && path->submodule)
		host = arena_printf(c->p->arena, "%s/.git", host);
	if (!host || !path_under(host, c->t->host) || !host[strlen(c->t->host)])
		return 0;
	return plan_protect_goal(c->p, c->t, host + strlen(c->t->host) + 1, c->e);
}

/* What the user's own configuration of git has it run or read, in this tree. */
static int protect_configured(struct box_plan *p, const struct guarded_tree *t, const char *folder,
			      struct err *e)
{
	static const char *const files[] = { "config", "config.worktree" };
	struct configured c = { .p = p, .t = t, .folder = folder, .e = e };

	for (size_t i = 0; folder && i < ARRAY_LEN(files); i++) {
		char path[PATH_MAX + 32];
		int r;

		(void)snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		*e = (struct err){ 0 };
		r = gitconfig_paths(path, configured_path, &c);
		if (r < 0)
			return e->code ? r : (errno = -r, err_sys(e, "cannot read '%s'", path));
	}
	return 0;
}

/* git at the top looks into the submodules it knows of. */
static int protect_submodules(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	struct configured c = { .p = p, .t = t, .folder = p->workspace, .e = e };
	const char *path = arena_printf(p->arena, "%s/.gitmodules", p->workspace);
	int r;

	if (!path)
		return err_nomem(e);
	*e = (struct err){ 0 };
	r = gitconfig_paths(path, configured_path, &c);
	return r < 0 && !e->code ? (errno = -r, err_sys(e, "cannot read '%s'", path)) : r;
}

int plan_worktree(struct box_plan *p, const char **folder, struct err *e)
{
	const char *gitdir = git_file_goal(p);
	bool outside = gitdir && !path_under(gitdir, p->workspace);
	const char *common = outside ? worktree_common(p, gitdir) : NULL;
	struct guarded_tree t = { .fd = -1, .host = common, .inside = common };
	bool change = p->spec->policy == POLICY_WORKSPACE_WRITE;
	int r;

	if (!common)
		return 0;
	if (target_check(common, p->spec->target, e) < 0 ||
	    plan_bind(p, common, common, change, change, e) < 0)
		return err_wrap(e, "git folder of the worktree");
	if (!change)
		return 0;
	t.fd = fd_open_nolinks(AT_FDCWD, common, O_PATH | O_DIRECTORY, 0);
	if (t.fd < 0)
		return errno = -t.fd, err_sys(e, "cannot open '%s'", common);
	*folder = common;
	p->git_tree = common;
	p->git = gitdir + strlen(common) + 1;
	r = protect_git(p, &t, "", e);
	if (r == 0)
		r = protect_configured(p, &t, common, e);
	if (r == 0)
		r = plan_protect_goals(p, &t, e);
	(void)fd_close(t.fd);
	return r;
}

/* *folder becomes the workspace's git folder, unless another is known. */
static int protect_repository(struct box_plan *p, const struct guarded_tree *t, const char **folder,
			      struct err *e)
{
	const char *goal;
	struct stat st;

	p->git_absent = fstatat(t->fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0;
	if (p->git_absent)
		return 0; /* `git init` inside is ordinary work; protect.c looks at the result */
	if (S_ISDIR(st.st_mode)) {
		*folder = arena_printf(p->arena, "%s/.git", p->workspace);
		return *folder ? protect_git(p, t, ".git/", e) : err_nomem(e);
	}
	/* A git folder elsewhere in the workspace is one all the same. */
	goal = git_file_goal(p);
	if (goal && path_under(goal, p->workspace) && goal[strlen(p->workspace)]) {
		*folder = goal;
		p->git = goal + strlen(p->workspace) + 1;
		if (protect_git(p, t,
				arena_printf(p->arena, "%s/", goal + strlen(p->workspace) + 1),
				e) < 0)
			return -e->code;
	}
	return plan_protect_name(p, t, ".git", true, e);
}

int plan_repository(struct box_plan *p, const struct guarded_tree *t, const char *folder,
		    struct err *e)
{
	if (is_git_folder(p->workspace)) { /* a bare repository is a git folder itself */
		folder = p->workspace;
		if (protect_git(p, t, "", e) < 0)
			return -e->code;
	}
	if (protect_repository(p, t, &folder, e) < 0)
		return -e->code;
	if (protect_configured(p, t, folder, e) < 0 || protect_submodules(p, t, e) < 0)
		return -e->code;
	return 0;
}
