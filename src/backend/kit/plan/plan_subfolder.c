/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_subfolder.c - the workspace is a folder of somebody's working tree: git
 * inside works on the whole of it.
 *
 * The working tree is shown read-only around the workspace, its git folder under the rules for one.
 * Less would not do: what git does not see it takes for deleted, and `commit -a` says so. What the
 * `.git` above says is not obeyed, it is only shown; and only where it is the user's own, and not
 * of an earlier run's making, and nothing that is kept from every run lies in that tree. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "backend/kit/survey/made.h"
#include "base/files/home.h"
#include "base/files/mounts.h"
#include "base/files/state.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

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

static bool is_repository(const char *git)
{
	char part[PATH_MAX + 16];
	struct stat st;

	return plan_is_git(git) && snprintf(part, sizeof(part), "%s/refs", git) > 0 &&
	       lstat(part, &st) == 0 && S_ISDIR(st.st_mode);
}

struct around {
	struct box_plan *p;
	struct mounts mounts;
	const char *root;
	struct where at;
};

/* By its path, or by whatever links and mounts lead there. */
static bool plan_subfolder_holds(const struct around *a, const char *place)
{
	struct where at;

	return path_under(place, a->root) ||
	       (mounts_find(&a->mounts, a->p->arena, place, &at) == 0 && at.dev == a->at.dev &&
		path_under(at.path, a->at.path));
}

static bool holds_state(const struct around *a, const char *listed)
{
	char place[PATH_MAX];

	for (int i = 0; i < STATE_PLACES; i++)
		if (state_place(i, listed, place, sizeof(place)) == 0 &&
		    plan_subfolder_holds(a, place))
			return true;
	return false;
}

static bool holds_settings(const struct around *a, const char *listed)
{
	static const char *const files[] = { "", "/config.yaml" }; /* either may be a link */
	char path[PATH_MAX + 32];

	for (int i = 0; i < SETTINGS_PLACES; i++) {
		const char *folder = plan_settings_place(a->p, i, listed);

		for (size_t k = 0; folder && k < ARRAY_LEN(files); k++) {
			(void)snprintf(path, sizeof(path), "%s%s", folder, files[k]);
			if (plan_subfolder_holds(a, path))
				return true;
		}
	}
	return false;
}

/* A tree is bound with all that is mounted in it, and nobody asked for that. What is mounted in the
 * workspace is shown with it in any case. */
static bool holds_mount(const struct around *a)
{
	for (size_t i = 0; i < a->mounts.n; i++) {
		const char *point = a->mounts.v[i].point;

		if (path_under(point, a->root) && !str_eq(point, a->root) &&
		    !path_under(point, a->p->workspace))
			return true;
	}
	return false;
}

/* What it holds that is in no run's sight; NULL: nothing. */
static const char *unfit_inside(struct box_plan *p, const char *root)
{
	struct around a = { .p = p, .root = root };
	char home[PATH_MAX];
	const char *listed = home_listed(geteuid(), home, sizeof(home)) == 0 ? home : NULL;
	struct err e;

	if (mounts_read(p->arena, &a.mounts, &e) < 0 ||
	    mounts_find(&a.mounts, p->arena, root, &a.at) < 0)
		return "cannot be looked at";
	if (holds_state(&a, listed))
		return "contains brig's own state";
	if (holds_settings(&a, listed))
		return "contains brig's own settings";
	return holds_mount(&a) ? "has something mounted in it" : NULL;
}

static bool is_covered(const struct spec *s, const char *root)
{
	for (size_t i = 0; i < s->mounts.n; i++)
		if (path_under(root, s->mounts.v[i].target))
			return true;
	return false;
}

/* Why it is not shown; NULL: it can be. Root is nobody's deputy: what is another user's may be that
 * user's home, or hold what brig keeps for that one. */
static const char *unfit(struct box_plan *p, const char *root, const struct stat *git)
{
	struct stat st, own;
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, root, O_PATH | O_DIRECTORY, 0);
	CLEANUP(fd) int work = fd_open_nolinks(AT_FDCWD, p->workspace, O_PATH | O_DIRECTORY, 0);
	const char *folder = arena_printf(p->arena, "%s/.git", root);

	if (!folder || fd < 0 || work < 0 || fstat(fd, &st) < 0 || fstat(work, &own) < 0)
		return "cannot be looked at";
	if (!S_ISDIR(git->st_mode))
		return "has a .git that is no folder";
	if (st.st_uid != geteuid() || git->st_uid != geteuid() || own.st_uid != geteuid())
		return "belongs to somebody else";
	if (!is_repository(folder))
		return "has a .git that is no repository";
	if (made_by_run(root)) /* who is given a folder could make all around it be shown */
		return "may have been made by a command in a sandbox";
	if (home_kind(root, getenv("HOME")) != HOME_APART)
		return "is your home folder, or contains it";
	if (st.st_dev != own.st_dev || git->st_dev != own.st_dev)
		return "is on another file system";
	if (spec_place_taken(p->spec, root))
		return "is a place of brig's own inside";
	return is_covered(p->spec, root) ? "is covered by a mount" : unfit_inside(p, root);
}

/* Without what a run could not do: who may only read, or writes to a layer, makes no commit. */
static const char *say_shown(const struct box_plan *p, const char *root)
{
	const char *and = "what git keeps and this folder can be changed, also a file outside that "
			  "has a hard link in here";

	if (p->layered)
		and = "an overlay workspace changes nothing of it: no commit can be made "
		      "(--workdir "
		      "there makes all of it the workspace)";
	else if (p->spec->policy != POLICY_WORKSPACE_WRITE || p->spec->git != GIT_WRITE)
		and = "nothing of what git keeps can be changed";
	return arena_printf(p->arena,
			    "git: all of the repository at '%s' can be read, with its whole "
			    "history; %s (--git none: no git)",
			    root, and);
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
		   : say_shown(p, root);
	if (!note)
		return err_nomem(e);
	plan_note(p, note);
	p->repository = why ? NULL : root;
	return 0;
}
