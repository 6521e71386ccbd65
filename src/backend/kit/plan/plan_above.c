/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_above.c - the workspace is a folder of somebody's working tree: git on the
 * host, used above, is led into it by the index and the configuration up there.
 *
 * Nothing above can be changed by the command, and so nothing is covered there; each `.git` on the
 * way up counts, because one repository may lie in another. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/kit/plan/plan_internal.h"
#include "backend/kit/survey/gitdirs.h"
#include "base/files/folder.h"

#define WORKTREES_MAX 512

/* Only what is obeyed in the workspace: other places are out of the command's reach anyway, but a
 * submodule's configuration says itself where it is obeyed. */
struct above {
	struct box_plan *p;
	const char *common;
	struct err *e;
};

static int on_module(void *arg, const char *path)
{
	const struct above *a = arg;
	const char *git = arena_printf(a->p->arena, "%s/%s", a->common, path);

	return git ? plan_config_of(a->p, git, git, NULL, false, a->e) : err_nomem(a->e);
}

static int watch_worktrees(const struct above *a, int folder)
{
	CLEANUP(fd)
	int fd = fd_open_nolinks(folder, "worktrees", O_RDONLY | O_DIRECTORY, FD_BENEATH);
	int left = WORKTREES_MAX, r = 0;
	const struct fd_entry *en;
	struct folder d;

	folder_begin(&d, fd);
	while (fd >= 0 && r == 0 && left-- && (en = folder_next(&d))) {
		const char *git = arena_printf(a->p->arena, "%s/worktrees/%s", a->common, en->name);
		const char *root = git ? plan_worktree_root(a->p, git) : NULL;

		if (root)
			r = plan_config_of(a->p, a->common, git, root, false, a->e);
	}
	return r;
}

/* A repository of somebody else's is not obeyed by git either ("dubious ownership"), and must not
 * command brig: anybody can make a .git in /tmp. The user is the caller, or owns the workspace. */
static bool is_users(const struct box_plan *p, const struct stat *st)
{
	struct stat own;

	return st->st_uid == geteuid() ||
	       (stat(p->workspace, &own) == 0 && own.st_uid == st->st_uid);
}

/* All of a repository: its own index, those of its worktrees, its submodules. */
static int watch_repository(struct box_plan *p, const char *common, const char *root, struct err *e)
{
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, common, O_RDONLY | O_DIRECTORY, 0);
	struct above a = { .p = p, .common = common, .e = e };
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || !is_users(p, &st))
		return 0;
	*e = (struct err){ 0 };
	if ((root && plan_config_of(p, common, common, root, false, e) < 0) ||
	    watch_worktrees(&a, fd) < 0)
		return -e->code;
	r = gitdirs_below(fd, "modules", on_module, &a);
	return r < 0 && !e->code ? err_errno(e, r, "cannot look through '%s/modules'", common) : r;
}

int plan_pointer(struct box_plan *p, const char *file, const char *root, struct err *e)
{
	const char *git = plan_goal_of(p, file, root), *common;

	if (!git)
		return 0;
	common = plan_common_of(p, git);
	if (!common)
		return watch_repository(p, git, root, e);
	return plan_config_of(p, common, git, root, false, e) < 0
		       ? -e->code
		       : watch_repository(p, common, plan_main_root(p, common), e);
}

static int watch_git(struct box_plan *p, const char *git, const char *root, struct err *e)
{
	char real[PATH_MAX];
	struct stat st;

	if (lstat(git, &st) < 0)
		return 0;
	if (S_ISLNK(st.st_mode)) {
		git = realpath(git, real) ? arena_strdup(p->arena, real) : NULL;
		if (!git || lstat(git, &st) < 0)
			return 0;
	}
	if (!is_users(p, &st))
		return 0;
	return S_ISREG(st.st_mode) ? plan_pointer(p, git, root, e)
				   : watch_repository(p, git, root, e);
}

int plan_above(struct box_plan *p, struct err *e)
{
	char folder[PATH_MAX];

	(void)snprintf(folder, sizeof(folder), "%s", p->workspace);
	for (char *slash; (slash = strrchr(folder, '/'));) {
		const char *git, *root;

		*slash = '\0';
		git = arena_printf(p->arena, "%s/.git", folder);
		root = arena_strdup(p->arena, folder); /* "" is the host's root */
		if (!git || !root)
			return err_nomem(e);
		if (watch_git(p, git, root, e) < 0)
			return -e->code;
	}
	return 0;
}
