/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/quarantine.c - takes what a run left under a protected name out of the host's
 * way.
 *
 * One rename each, however much lies below. What cannot be moved is not left alone: what leads
 * there is moved instead, and where that fails as well the run has failed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/protect/protect_internal.h"
#include "base/files/taken.h"
#include "base/text/str.h"

struct name_parent protect_parent(int tree, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct name_parent s = { .dir = tree, .name = slash ? slash + 1 : path, .opened = -1 };
	char dir[PATH_MAX];

	if (!slash)
		return s;
	(void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	s.dir = s.opened = reach_open(tree, dir);
	return s;
}

/* Behind a link nothing of the workspace is touched: the link goes. false: there is none on the
 * way.
 */
static bool cut_at_link(int tree, char *path)
{
	struct stat st;

	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		bool link;

		*slash = '\0';
		link = fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
		if (link)
			return true;
		*slash = '/';
	}
	return false;
}

/* Into brig's state folder, or, on another file system, aside in the tree; or, below a mount in the
 * tree, beside where it was. 0 or -errno. */
static int move_away(struct protect *t, const struct tree *tree, const char *path, const char *why,
		     char *place, size_t n)
{
	CLEANUP(name_parent) struct name_parent at = protect_parent(tree->fd, path);
	char from[2 * PATH_MAX], to[160];

	if (at.dir < 0)
		return at.dir;
	(void)snprintf(to, sizeof(to), "%s-%u", t->id, t->moved++);
	(void)snprintf(from, sizeof(from), "%s/%s", tree->path, path);
	if (taken_put(at.dir, at.name, to, from, why, place, n) == 0)
		return 0;
	(void)snprintf(to, sizeof(to), ".brig-quarantine-%s-%u", t->id, t->moved);
	(void)snprintf(place, n, "%s", to);
	if (renameat(at.dir, at.name, tree->fd, to) == 0)
		return 0;
	if (errno != EXDEV)
		return -errno;
	(void)snprintf(place, n, "%.*s%s", (int)(at.name - path), path, to);
	return renameat(at.dir, at.name, at.dir, to) < 0 ? -errno : 0;
}

static int quarantine_move(struct protect *t, const struct tree *tree, const char *name,
			   const char *why)
{
	char place[PATH_MAX + 128] = "", reason[PATH_MAX + 256], path[PATH_MAX];
	int r;

	(void)snprintf(path, sizeof(path), "%s", name);
	r = move_away(t, tree, path, why, place, sizeof(place));
	if (r == -ELOOP && cut_at_link(tree->fd, path))
		r = move_away(t, tree, path, why, place, sizeof(place));
	if (r < 0 && r != -ENOENT) {
		reach_reopen(tree->fd, path);
		r = move_away(t, tree, path, why, place, sizeof(place));
	}
	if (r == -ENOENT) /* another run, or the user, was faster */
		return 0;
	(void)snprintf(reason, sizeof(reason), "%s%s%s", why,
		       r == 0 ? OUTCOME_MOVED : "; it could not be moved: ",
		       r == 0 ? place : strerrordesc_np(-r));
	protect_deny(t, tree, path, reason);
	return r;
}

static void quarantine_failed(struct outcome *o, const char *path)
{
	o->kind = OUTCOME_FAILED;
	o->exit_code = o->signal = 0;
	(void)err_set(
		&o->error, ERR_POLICY, EPERM,
		"'%.200s', which programs on the host obey, was left by the command and could "
		"not be moved away",
		path);
	(void)err_hint(&o->error, "remove it before you use git, an editor or a shell there");
}

void quarantine_of(struct protect *t, const struct tree *tree, const char *path, const char *why,
		   const char *git)
{
	if (quarantine_move(t, tree, path, why) < 0 &&
	    (!git || quarantine_move(t, tree, git, "it leads to what cannot be moved") < 0))
		quarantine_failed(t->o, path);
}

void quarantine(struct protect *t, const struct tree *tree, const char *path, const char *why)
{
	quarantine_of(t, tree, path, why, str_starts(path, ".git/") ? ".git" : NULL);
}
