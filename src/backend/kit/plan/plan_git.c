/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_git.c - the protected names of a git folder, wherever it lies: in the
 * workspace, as the workspace, or shared by worktrees; and the places that its configuration names.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "backend/kit/protect/git_reader.h"
#include "backend/kit/protect/gitdirs.h"
#include "backend/kit/protect/gitsay.h"
#include "base/str.h"
#include "model/paths.h"

#define WORKTREES_MAX 64
#define SUBMODULES_MAX 64

/* One name below a git folder, which `prefix` leads to. */
static int protect_part(struct box_plan *p, const struct guarded_tree *t, const char *prefix,
			const char *part, bool hold, struct err *e)
{
	const char *name = arena_printf(p->arena, "%s%s", prefix, part);

	return name ? plan_protect_name(p, t, name, hold, e) : err_nomem(e);
}

/* A git folder's own parts. Only the workspace's own are held while they are missing. */
static int protect_parts(struct box_plan *p, const struct guarded_tree *t, const char *prefix,
			 bool hold, struct err *e)
{
	for (size_t i = 0; i < GIT_PARTS; i++)
		if (!git_parts[i].list &&
		    protect_part(p, t, prefix, git_parts[i].name, hold && git_parts[i].hold, e) < 0)
			return -e->code;
	return 0;
}

int plan_watch(struct box_plan *p, const char *git, const char *root, const char *config,
	       struct err *e)
{
	struct watched_index *slot;

	for (size_t i = 0; i < p->index_count; i++)
		if (str_eq(p->indexes[i].git, git))
			return 0;
	slot = ARENA_PUSH(p->arena, p->indexes, p->index_count);
	if (!slot)
		return err_nomem(e);
	*slot = (struct watched_index){ .git = git, .root = root, .config = config };
	return plan_config_of(p, config, git, root, e);
}

struct module_walk {
	struct box_plan *p;
	const struct guarded_tree *t;
	struct err *e;
};

static int protect_module(void *arg, const char *path)
{
	const struct module_walk *w = arg;
	const char *prefix = arena_printf(w->p->arena, "%s/", path);
	const char *host = arena_printf(w->p->arena, "%s/%s", w->t->host, path);

	if (!prefix || !host)
		return err_nomem(w->e);
	return protect_parts(w->p, w->t, prefix, false, w->e) < 0
		       ? -w->e->code
		       : plan_config_of(w->p, host, host, NULL, w->e);
}

/* The git folders of submodules: known by the names in them, however they are called. */
static int protect_modules(struct box_plan *p, const struct guarded_tree *t, const char *prefix,
			   struct err *e)
{
	struct module_walk w = { .p = p, .t = t, .e = e };
	const char *folder = arena_printf(p->arena, "%smodules", prefix);
	int r;

	if (!folder)
		return err_nomem(e);
	*e = (struct err){ 0 };
	r = gitdirs_below(t->fd, folder, protect_module, &w);
	return r < 0 && !e->code ? err_errno(e, r, "cannot look through '%s'", folder) : r;
}

bool plan_git_line(const char *path, char *out, size_t n)
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

const char *plan_against(struct box_plan *p, const char *folder, const char *text)
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

const char *plan_git_goal(struct box_plan *p)
{
	char text[PATH_MAX], path[PATH_MAX + 32];

	if (!p->workspace)
		return NULL;
	(void)snprintf(path, sizeof(path), "%s/.git", p->workspace);
	if (!plan_git_line(path, text, sizeof(text)) || !str_starts(text, "gitdir: "))
		return NULL;
	return plan_against(p, p->workspace, text + strlen("gitdir: "));
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
	char text[PATH_MAX], path[PATH_MAX + 32];
	const char *back, *common, *own = arena_printf(p->arena, "%s/.git", p->workspace), *home;
	const char *name = strrchr(gitdir, '/');

	(void)snprintf(path, sizeof(path), "%s/gitdir", gitdir);
	back = plan_git_line(path, text, sizeof(text)) ? plan_against(p, gitdir, text) : NULL;
	(void)snprintf(path, sizeof(path), "%s/commondir", gitdir);
	common = plan_git_line(path, text, sizeof(text)) ? plan_against(p, gitdir, text) : NULL;
	home = common ? arena_printf(p->arena, "%s/worktrees%s", common, name) : NULL;
	if (back && own && home && str_eq(back, own) && str_eq(home, gitdir) && plan_is_git(common))
		return common;
	note_not_back(p, gitdir);
	return NULL;
}

const char *plan_worktree_root(struct box_plan *p, const char *git)
{
	char text[PATH_MAX], path[PATH_MAX + 32];
	const char *root, *slash;

	(void)snprintf(path, sizeof(path), "%s/gitdir", git);
	root = plan_git_line(path, text, sizeof(text)) ? plan_against(p, git, text) : NULL;
	slash = root ? strrchr(root, '/') : NULL;
	if (!slash || !str_eq(slash, "/.git"))
		return NULL;
	return arena_printf(p->arena, "%.*s", (int)(slash - root), root);
}

/* Every worktree's own folder says where the shared one is: those files stay as they are. Its index
 * names paths of its working tree. */
static int protect_one_worktree(struct box_plan *p, const struct guarded_tree *t,
				const char *folder, const char *config, struct err *e)
{
	static const char *const files[] = { "commondir", "gitdir", "config.worktree" };
	const char *prefix = arena_printf(p->arena, "%s/", folder), *root;
	const char *git = arena_printf(p->arena, "%s/%s", t->host, folder);

	if (!prefix || !git)
		return err_nomem(e);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (protect_part(p, t, prefix, files[i], false, e) < 0)
			return -e->code;
	if (protect_modules(p, t, prefix, e) < 0)
		return -e->code;
	root = plan_worktree_root(p, git);
	return root ? plan_watch(p, git, root, config, e) : 0;
}

static int protect_worktrees(struct box_plan *p, const struct guarded_tree *t, const char *prefix,
			     const char *config, struct err *e)
{
	const char *folder = arena_printf(p->arena, "%sworktrees", prefix);
	int fd = folder ? fd_open_nolinks(t->fd, folder, O_RDONLY | O_DIRECTORY, FD_BENEATH)
			: -ENOMEM;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int r = 0, left = WORKTREES_MAX;

	for (struct dirent *en; d && r == 0 && (en = readdir(d));) {
		const char *one;

		if (str_eq(en->d_name, ".") || str_eq(en->d_name, ".."))
			continue;
		if (!left--)
			r = err_set(e, ERR_UNAVAILABLE, E2BIG, "more than %d git worktrees",
				    WORKTREES_MAX);
		one = r == 0 ? arena_printf(p->arena, "%s/%s", folder, en->d_name) : NULL;
		if (r == 0)
			r = one ? protect_one_worktree(p, t, one, config, e) : err_nomem(e);
	}
	if (d)
		(void)closedir(d);
	return r;
}

/* All of a git folder. `host` is its path; its index names paths below `root`, or nothing that is
 * looked at for NULL. */
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
	if (protect_parts(p, t, prefix, true, e) < 0 || protect_modules(p, t, prefix, e) < 0 ||
	    protect_worktrees(p, t, prefix, host, e) < 0)
		return -e->code;
	return root ? plan_watch(p, host, root, host, e) : plan_config_of(p, host, host, NULL, e);
}

/* ---- what git has said before ---- */

static bool said_before(enum reader_kind kind, const char *folder, const char *name,
			struct buf *ret)
{
	char path[PATH_MAX + 32];
	struct stamp now;
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	now = stamp_of(&st);
	return reader_known(kind, &now, ret);
}

/* What an index names that git was not asked about yet. It is asked only for one that may name a
 * submodule; without an answer the look afterwards decides. */
static bool says_now(const struct watched_index *at, struct reader_asker *who, struct buf *ret)
{
	CLEANUP(buf) struct buf facts = BUF_INIT(READER_ANSWER_MAX);
	CLEANUP(fd) int dir = fd_open_nolinks(AT_FDCWD, at->git, O_PATH | O_DIRECTORY, 0);
	struct reader_copy copy = READER_COPY_NONE;
	bool said = false;
	CLEANUP(fd) int config = -1;

	if (dir < 0 || reader_copy(READER_INDEX, dir, "index", &copy) < 0)
		return false;
	if (reader_has_links(&copy)) {
		CLEANUP(fd)
		int folder = fd_open_nolinks(AT_FDCWD, at->config, O_PATH | O_DIRECTORY, 0);

		config = openat(folder, "config", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	}
	if (config >= 0 && reader_config(READER_CONFIG, config, who, &facts) == READER_PLAIN)
		said = reader_ask(READER_INDEX, &copy,
				  gitsay_has(&facts, "format=sha256") ? "sha256" : "sha1", who,
				  ret) == READER_PLAIN;
	reader_copy_done(&copy);
	return said;
}

/* A path of the host's, if it lies in the tree; NULL otherwise. */
static const char *in_tree(const struct guarded_tree *t, const char *host)
{
	return host && path_under(host, t->host) && host[strlen(t->host)]
		       ? host + strlen(t->host) + 1
		       : NULL;
}

/* A repository that an index names: a file stays as it is, of a folder its parts do. What it leads
 * git on to is watched in turn. */
static int protect_submodule(struct box_plan *p, const struct guarded_tree *t, const char *root,
			     const char *link, struct err *e)
{
	const char *top = arena_printf(p->arena, "%s/%s", root, link);
	const char *host = top ? arena_printf(p->arena, "%s/.git", top) : NULL;
	const char *path = in_tree(t, host), *git = NULL;
	char text[PATH_MAX];
	struct stat st;

	if (!host)
		return err_nomem(e);
	if (!path || str_eq(path, ".git") || plan_protects(p, t->host, path))
		return 0;
	if (fstatat(t->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0) /* nothing may appear there */
		return plan_protect_name(p, t, path, false, e);
	if (S_ISDIR(st.st_mode)) {
		git = host;
		path = arena_printf(p->arena, "%s/", path);
		if (!path || protect_parts(p, t, path, false, e) < 0 ||
		    protect_modules(p, t, path, e) < 0)
			return path ? -e->code : err_nomem(e);
	} else {
		if (plan_protect_goal(p, t, path, e) < 0)
			return -e->code;
		if (plan_git_line(host, text, sizeof(text)) && str_starts(text, "gitdir: "))
			git = plan_against(p, top, text + strlen("gitdir: "));
	}
	return git ? plan_watch(p, git, top, git, e) : 0;
}

/* The list grows with what is found; the bound is on all of it. */
static int protect_submodules(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	struct reader_asker who = { .avoid = p->workspace };
	int left = SUBMODULES_MAX;

	for (size_t i = 0; i < p->index_count; i++) {
		CLEANUP(buf) struct buf links = BUF_INIT(READER_ANSWER_MAX);
		const struct watched_index one = p->indexes[i];

		if (!said_before(READER_INDEX, one.git, "index", &links) &&
		    !says_now(&one, &who, &links))
			continue;
		for (const char *link = NULL; (link = gitsay_next(&links, link)) && left; left--)
			if (protect_submodule(p, t, one.root, link, e) < 0)
				return -e->code;
	}
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
	bool change = p->spec->policy == POLICY_WORKSPACE_WRITE && p->spec->git == GIT_WRITE;
	int r;

	if (!common || p->spec->git == GIT_NONE)
		return 0;
	if (target_check(common, p->spec->inside, e) < 0 ||
	    plan_bind(p, common, common, change, true, e) < 0)
		return err_wrap(e, "git folder of the repository");
	if (!change)
		return 0;
	t.fd = fd_open_nolinks(AT_FDCWD, common, O_PATH | O_DIRECTORY, 0);
	if (t.fd < 0)
		return err_errno(e, t.fd, "cannot open '%s'", common);
	r = protect_git(p, &t, "", common, plan_main_root(p, common), e);
	if (r == 0)
		r = plan_configured(p, &t, e);
	if (r == 0)
		r = plan_protect_goals(p, &t, e);
	(void)fd_close(t.fd);
	return r;
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
		    : plan_watch(p, own, p->workspace, own, e);
}

static int protect_repository(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	const char *goal;
	struct stat st;

	const char *own = arena_printf(p->arena, "%s/.git", p->workspace);

	if (!own)
		return err_nomem(e);
	p->git_absent = fstatat(t->fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0;
	if (p->git_absent) /* `git init` inside is ordinary work: its result is looked at */
		return plan_watch(p, own, p->workspace, own, e);
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
	if (plan_above(p, e) < 0 || protect_submodules(p, t, e) < 0)
		return -e->code;
	return plan_configured(p, t, e);
}
