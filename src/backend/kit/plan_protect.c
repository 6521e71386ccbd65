/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan_protect.c - names in a writable workspace that the host would execute later.
 *
 * A name that exists gets a read-only cover of itself. A name that does not is held by a
 * placeholder, an empty folder that protect.c makes on the host for the time of the run and that is
 * covered too: git does not see empty folders, so nothing shows up as untracked. Folders on the way
 * to a covered name are pinned (mounted on themselves, writable), because a mount point cannot be
 * renamed away. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/gitconfig.h"
#include "backend/kit/plan_internal.h"
#include "base/str.h"
#include "model/paths.h"

/* A program on the host may act on them the moment they are there: held even while they are
 * missing. Each costs two changes of the host's folder, so only names that need no further step are
 * here. */
static const char *const held_names[] = { ".vscode", ".mcp.json", ".claude",
					  ".codex",  ".cursor",   ".gemini" };

/* The host asks, or is asked, before it acts on these: covered when they exist, taken away and
 * reported when they appear. */
static const char *const checked_names[] = {
	".envrc",        ".gitmodules",  ".gitattributes", ".husky",     ".idea",   ".zed",
	".devcontainer", ".windsurf",    ".githooks",      ".continue",  ".bashrc", ".bash_profile",
	".bash_login",   ".bash_logout", ".profile",       ".zshrc",     ".zshenv", ".zprofile",
	".zlogin",       ".zlogout",     ".inputrc",       ".gitconfig",
};

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
#define LINKS_MAX 40 /* as many as the kernel follows */
#define NAMES_MAX 1024

struct tree {
	int fd; /* O_PATH */
	const char *host, *inside;
};

static int cover(struct box_plan *p, const struct tree *t, const char *path, bool pin,
		 struct err *e)
{
	const char *dst = arena_printf(p->arena, "%s/%s", t->inside, path);
	struct op *o;

	if (!dst)
		return err_nomem(e);
	for (size_t i = p->op_count; pin && i-- > 0;)
		if (p->ops[i].kind == OP_COVER && str_eq(p->ops[i].dst, dst))
			return 0;
	o = plan_op(p, OP_COVER, dst, e);
	if (!o)
		return -e->code;
	o->writable = pin;
	return 0;
}

/* Pins every folder above path; returns 1 and cuts path short when one of them is missing. */
static int pin_parents(struct box_plan *p, const struct tree *t, char *path, struct err *e)
{
	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		CLEANUP(fd) int fd = -1;

		*slash = '\0';
		fd = fd_open_nolinks(t->fd, path, O_PATH | O_DIRECTORY, FD_BENEATH);
		if (fd == -ENOENT)
			return 1;
		if (fd < 0 || cover(p, t, path, true, e) < 0)
			return fd < 0 ? 1 : -e->code;
		*slash = '/';
	}
	return 0;
}

/* Where a link at path leads, relative to the tree; NULL when that is elsewhere or cannot be told.
 */
static const char *link_goal(struct box_plan *p, const struct tree *t, const char *path)
{
	char to[PATH_MAX];
	ssize_t n = readlinkat(t->fd, path, to, sizeof(to) - 1);
	const char *slash = strrchr(path, '/'), *folder, *goal;
	struct place at;
	struct err e;

	if (n <= 0)
		return NULL;
	to[n] = '\0';
	folder = slash ? arena_printf(p->arena, "%s/%.*s", t->host, (int)(slash - path), path)
		       : t->host;
	at = (struct place){ .cwd = folder };
	if (!folder || path_resolve(p->arena, &at, to, &goal, &e) < 0)
		return NULL;
	return path_under(goal, t->host) && goal[strlen(t->host)] ? goal + strlen(t->host) + 1
								  : NULL;
}

static int record(struct box_plan *p, const struct tree *t, const char *path, const struct stat *st,
		  bool covered, struct err *e)
{
	struct protected_name *slot = ARENA_PUSH(p->arena, p->protected, p->protected_count);
	struct protected_name n = {
		.tree = t->host, .path = path, .covered = covered, .op = p->op_count
	};

	n.inside = arena_printf(p->arena, "%s/%s", t->inside, path);
	if (!slot || !n.inside)
		return err_nomem(e);
	if (st) {
		n.existed = true;
		n.ident = ident_of(st);
		n.ctime = st->st_ctim;
	}
	*slot = n;
	return covered ? cover(p, t, path, false, e) : 0;
}

/* A link cannot be covered: it is compared after the run, and so is what it leads to in the end. */
static int protect_link(struct box_plan *p, const struct tree *t, const char *path,
			const struct stat *st, struct err *e)
{
	struct protected_name *n;
	struct stat there;

	if (record(p, t, path, st, false, e) < 0)
		return -e->code;
	n = &p->protected[p->protected_count - 1];
	n->link = link_goal(p, t, path) != NULL;
	if (n->link && fstatat(t->fd, path, &there, 0) == 0)
		n->goal = ident_of(&there);
	return 0;
}

static int protect(struct box_plan *p, const struct tree *t, const char *name, bool hold,
		   struct err *e)
{
	char *path = arena_strdup(p->arena, name);
	CLEANUP(fd) int fd = -1;
	struct stat st;

	if (!path)
		return err_nomem(e);
	if (pin_parents(p, t, path, e) < 0)
		return -e->code;
	if (fstatat(t->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return record(p, t, path, NULL, hold, e);
	if (S_ISLNK(st.st_mode))
		return protect_link(p, t, path, &st, e);
	fd = fd_open_nolinks(t->fd, path, O_PATH, FD_BENEATH);
	return record(p, t, path, &st, fd >= 0, e);
}

static bool recorded(const struct box_plan *p, const struct tree *t, const char *path)
{
	for (size_t i = 0; i < p->protected_count; i++)
		if (str_eq(p->protected[i].tree, t->host) && str_eq(p->protected[i].path, path))
			return true;
	return false;
}

/* A link among the folders on the way is compared as well; returns where the way goes on, NULL when
 * it leaves the tree or path is no link. */
static const char *past_link(struct box_plan *p, const struct tree *t, const char *path,
			     const char *rest, struct err *e)
{
	const char *goal = link_goal(p, t, path);
	struct stat st;

	if (!goal || fstatat(t->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!recorded(p, t, path) && record(p, t, path, &st, false, e) < 0))
		return NULL;
	return arena_printf(p->arena, "%s%s", goal, rest);
}

/* Where a link leads. A name that is missing is taken away should it appear, not the folder it
 * would lie in. */
static int protect_goal(struct box_plan *p, const struct tree *t, const char *goal, struct err *e)
{
	for (int left = LINKS_MAX; goal && left; left--) {
		char *path = arena_strdup(p->arena, goal);
		const char *on;
		int r;

		if (!path)
			return err_nomem(e);
		r = pin_parents(p, t, path, e);
		if (r < 0 || recorded(p, t, goal))
			return r < 0 ? r : 0;
		if (r == 0)
			return protect(p, t, goal, false, e);
		on = past_link(p, t, path, goal + strlen(path), e);
		if (!on)
			return record(p, t, goal, NULL, false, e);
		goal = on;
	}
	return 0;
}

/* Where the links lead, if that lies in the tree, link by link. Last, so that a name with a place
 * of its own in the lists keeps it. */
static int protect_goals(struct box_plan *p, const struct tree *t, struct err *e)
{
	for (size_t i = 0; i < p->protected_count; i++) {
		const struct protected_name *n = &p->protected[i];

		if (n->link && str_eq(n->tree, t->host) &&
		    protect_goal(p, t, link_goal(p, t, n->path), e) < 0)
			return -e->code;
		if (i > NAMES_MAX)
			return err_set(e, ERR_POLICY, ELOOP,
				       "too many links lead from the protected names in '%s'",
				       t->host);
	}
	return 0;
}

/* Every worktree's own folder says where the shared one is: those files stay as they are. */
static int protect_worktrees(struct box_plan *p, const struct tree *t, const char *prefix,
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

			r = name ? protect(p, t, name, false, e) : err_nomem(e);
		}
	}
	if (d)
		(void)closedir(d);
	return r;
}

static int protect_git(struct box_plan *p, const struct tree *t, const char *prefix, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(git_names); i++) {
		const char *name = arena_printf(p->arena, "%s%s", prefix, git_names[i].name);

		if (!name)
			return err_nomem(e);
		if (protect(p, t, name, git_names[i].hold, e) < 0)
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
	const struct tree *t;
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
	return protect_goal(c->p, c->t, host + strlen(c->t->host) + 1, c->e);
}

/* What the user's own configuration of git has it run or read, in this tree. */
static int protect_configured(struct box_plan *p, const struct tree *t, const char *folder,
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
static int protect_submodules(struct box_plan *p, const struct tree *t, struct err *e)
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

static int protect_worktree(struct box_plan *p, const char **folder, struct err *e)
{
	const char *gitdir = git_file_goal(p);
	bool outside = gitdir && !path_under(gitdir, p->workspace);
	const char *common = outside ? worktree_common(p, gitdir) : NULL;
	struct tree t = { .fd = -1, .host = common, .inside = common };
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
		r = protect_goals(p, &t, e);
	(void)fd_close(t.fd);
	return r;
}

/* *folder becomes the workspace's git folder, unless another is known. */
static int protect_repository(struct box_plan *p, const struct tree *t, const char **folder,
			      struct err *e)
{
	const char *goal;
	struct stat st;

	if (fstatat(t->fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
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
	return protect(p, t, ".git", true, e);
}

static int protect_workspace(struct box_plan *p, const struct tree *t, const char *folder,
			     struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(held_names); i++)
		if (protect(p, t, held_names[i], true, e) < 0)
			return -e->code;
	for (size_t i = 0; i < ARRAY_LEN(checked_names); i++)
		if (protect(p, t, checked_names[i], false, e) < 0)
			return -e->code;
	if (is_git_folder(p->workspace)) { /* a bare repository is a git folder itself */
		folder = p->workspace;
		if (protect_git(p, t, "", e) < 0)
			return -e->code;
	}
	if (protect_repository(p, t, &folder, e) < 0)
		return -e->code;
	if (protect_configured(p, t, folder, e) < 0 || protect_submodules(p, t, e) < 0)
		return -e->code;
	return protect_goals(p, t, e);
}

int plan_protect(struct box_plan *p, struct err *e)
{
	struct tree t = { .host = p->workspace, .inside = p->spec->target };
	CLEANUP(fd) int fd = -1;
	const char *folder = NULL;

	if (!p->workspace)
		return 0;
	p->git_tree = p->workspace;
	p->git = ".git";
	if (protect_worktree(p, &folder, e) < 0)
		return -e->code;
	if (p->spec->policy != POLICY_WORKSPACE_WRITE)
		return 0;
	fd = fd_open_nolinks(AT_FDCWD, p->workspace, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return errno = -fd, err_sys(e, "cannot open '%s'", p->workspace);
	t.fd = fd;
	return protect_workspace(p, &t, folder, e);
}
