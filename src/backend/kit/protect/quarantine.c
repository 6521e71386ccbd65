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
#include "base/str.h"
#include "base/taken.h"

/* The command may have taken its owner's rights from folders: they are given back to those on the
 * way to path, and to path itself if it is one. */
void protect_reopen(int tree, const char *path)
{
	char part[PATH_MAX], proc[32];
	struct stat st;

	for (size_t n = 0; path_grow(path, &n, part);) {
		CLEANUP(fd) int fd = fd_open_nolinks(tree, part, O_PATH | O_DIRECTORY, FD_BENEATH);
		if (fd < 0)
			return;
		(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
		if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
			(void)chmod(proc, (st.st_mode & 07777) | 0700);
	}
}

int protect_open(int tree, const char *path)
{
	int fd = fd_open_nolinks(tree, path, O_RDONLY | O_DIRECTORY, FD_BENEATH);

	if (fd != -EACCES)
		return fd;
	protect_reopen(tree, path);
	return fd_open_nolinks(tree, path, O_RDONLY | O_DIRECTORY, FD_BENEATH);
}

int protect_parent(int tree, const char *path, const char **name, int *opened)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];

	*opened = -1;
	*name = slash ? slash + 1 : path;
	if (!slash)
		return tree;
	(void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	return *opened = protect_open(tree, dir);
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
static int move_away(struct protect *t, int tree, const char *path, const char *why, char *place,
		     size_t n)
{
	char from[2 * PATH_MAX] = "", to[160];
	const char *name;
	CLEANUP(fd) int opened = -1;
	int dir = protect_parent(tree, path, &name, &opened);

	if (dir < 0)
		return dir;
	(void)snprintf(to, sizeof(to), "%s-%u", t->id, t->moved++);
	for (size_t i = 0; i < t->tree_count; i++)
		if (t->trees[i].fd == tree)
			(void)snprintf(from, sizeof(from), "%s/%s", t->trees[i].path, path);
	if (taken_put(dir, name, to, from, why, place, n) == 0)
		return 0;
	(void)snprintf(to, sizeof(to), ".brig-quarantine-%s-%u", t->id, t->moved);
	(void)snprintf(place, n, "%s", to);
	if (renameat(dir, name, tree, to) == 0)
		return 0;
	if (errno != EXDEV)
		return -errno;
	(void)snprintf(place, n, "%.*s%s", (int)(name - path), path, to);
	return renameat(dir, name, dir, to) < 0 ? -errno : 0;
}

static int move(struct protect *t, struct outcome *o, int tree, const char *name, const char *why)
{
	char place[PATH_MAX + 128] = "", reason[PATH_MAX + 256], path[PATH_MAX], room[2 * PATH_MAX];
	int r;

	(void)snprintf(path, sizeof(path), "%s", name);
	r = move_away(t, tree, path, why, place, sizeof(place));
	if (r == -ELOOP && cut_at_link(tree, path))
		r = move_away(t, tree, path, why, place, sizeof(place));
	if (r < 0 && r != -ENOENT) {
		protect_reopen(tree, path);
		r = move_away(t, tree, path, why, place, sizeof(place));
	}
	if (r == -ENOENT) /* another run, or the user, was faster */
		return 0;
	(void)snprintf(reason, sizeof(reason), "%s%s%s", why,
		       r == 0 ? OUTCOME_MOVED : "; it could not be moved: ",
		       r == 0 ? place : strerrordesc_np(-r));
	if (o)
		outcome_deny(o, "protected-path", protect_called(t, tree, path, room), reason);
	return r;
}

static void failed(struct outcome *o, const char *path)
{
	if (!o)
		return;
	o->kind = OUTCOME_FAILED;
	o->exit_code = o->signal = 0;
	(void)err_set(
		&o->error, ERR_POLICY, EPERM,
		"'%.200s', which programs on the host obey, was left by the command and could "
		"not be moved away",
		path);
	(void)err_hint(&o->error, "remove it before you use git, an editor or a shell there");
}

void quarantine_of(struct protect *t, struct outcome *o, int tree, const char *path,
		   const char *why, const char *git)
{
	if (move(t, o, tree, path, why) < 0 &&
	    (!git || move(t, o, tree, git, "it leads to what cannot be moved") < 0))
		failed(o, path);
}

void quarantine(struct protect *t, struct outcome *o, int tree, const char *path, const char *why)
{
	quarantine_of(t, o, tree, path, why, str_starts(path, ".git/") ? ".git" : NULL);
}
