/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_subfolder.c - the workspace is a folder of somebody's working tree: git
 * inside works on the whole of it.
 *
 * The working tree is shown read-only around the workspace, its git folder under the rules for one.
 * Less would not do: what git does not see it takes for deleted, and `commit -a` says so. What the
 * `.git` above says is not obeyed, it is only shown; and only where it is the user's own and
 * nothing that is kept from every run lies in that tree. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/home.h"
#include "base/state.h"
#include "base/str.h"
#include "model/paths.h"

/* The nearest folder above with a `.git`, as git looks for it; NULL: none. */
static const char *find_root(struct box_plan *p, struct stat *git)
{
	char path[PATH_MAX + 8];
	size_t n = strlen(p->workspace);

	if (n >= PATH_MAX)
		return NULL;
	memcpy(path, p->workspace, n);
	for (memcpy(path + n, "/.git", 6); lstat(path, git) < 0; memcpy(path + n, "/.git", 6)) {
		while (n && path[n - 1] != '/')
			n--;
		if (n <= 1) /* "/.git": the host's root is never shown */
			return NULL;
		n--;
	}
	return n == strlen(p->workspace) ? NULL : arena_strndup(p->arena, path, n);
}

static bool holds_state(const char *root)
{
	char place[PATH_MAX], real[PATH_MAX], home[PATH_MAX];
	const char *listed = home_listed(geteuid(), home, sizeof(home)) == 0 ? home : NULL;

	for (int i = 0; i < STATE_PLACES; i++)
		if (state_place(i, listed, place, sizeof(place)) == 0 &&
		    (path_under(place, root) || (realpath(place, real) && path_under(real, root))))
			return true;
	return false;
}

/* Why it is not shown; NULL: it can be. */
static const char *unfit(const struct box_plan *p, const char *root, const struct stat *git)
{
	struct stat st, own;
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, root, O_PATH | O_DIRECTORY, 0);
	CLEANUP(fd) int work = fd_open_nolinks(AT_FDCWD, p->workspace, O_PATH | O_DIRECTORY, 0);

	if (fd < 0 || work < 0 || fstat(fd, &st) < 0 || fstat(work, &own) < 0)
		return "cannot be looked at";
	if (!S_ISDIR(git->st_mode))
		return "has a .git that is no folder";
	if (home_kind(root, getenv("HOME")) != HOME_APART)
		return "is your home folder, or contains it";
	if (holds_state(root))
		return "contains brig's own state";
	if (st.st_uid != own.st_uid || git->st_uid != own.st_uid ||
	    (own.st_uid != geteuid() && geteuid() != 0))
		return "belongs to somebody else";
	if (st.st_dev != own.st_dev || git->st_dev != own.st_dev)
		return "is on another file system";
	return spec_place_taken(p->spec, root) ? "is a place of brig's own inside" : NULL;
}

int plan_subfolder(struct box_plan *p, struct err *e)
{
	const char *root, *why, *note;
	struct stat git;

	if (!p->workspace || p->spec->git == GIT_NONE || !str_eq(p->spec->target, WORKSPACE_SAME) ||
	    plan_is_git(p->workspace))
		return 0;
	root = find_root(p, &git);
	if (!root)
		return 0;
	why = !str_eq(p->spec->inside, p->workspace) ? "cannot be at its own path"
						     : unfit(p, root, &git);
	note = why ? arena_printf(p->arena,
				  "git does not work in here: the repository at '%s' %s, and is "
				  "not shown (--workdir there, or --git none to be told nothing)",
				  root, why)
		   : arena_printf(p->arena,
				  "git: all of the repository at '%s' can be read, with its whole "
				  "history; only this folder and what git keeps can be changed "
				  "(--git none shows neither)",
				  root);
	if (!note)
		return err_nomem(e);
	plan_note(p, note);
	p->repository = why ? NULL : root;
	return 0;
}
