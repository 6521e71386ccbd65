/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/gitdirs.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/str.h"

#define DEPTH_MAX 12
#define FOLDERS_MAX 2048
#define ENTRIES_MAX 16384

const struct git_part git_parts[GIT_PARTS] = {
	{ .name = "hooks", .hold = true },
	{ .name = "config", .hold = true },
	{ .name = "config.worktree" },         /* read where config says so */
	{ .name = "info/attributes" },         /* names drivers that config defines */
	{ .name = "objects/info/alternates" }, /* objects of another folder, and its alternates */
	{ .name = "commondir" },               /* config and hooks of another folder */
	{ .name = "remotes", .list = true },   /* addresses, as in old days: ext::sh -c ... */
	{ .name = "branches", .list = true },  /* the same, older still */
};

const char *const git_hooks[GIT_HOOKS] = {
	"applypatch-msg",
	"pre-applypatch",
	"post-applypatch",
	"pre-commit",
	"pre-merge-commit",
	"prepare-commit-msg",
	"commit-msg",
	"post-commit",
	"pre-rebase",
	"post-checkout",
	"post-merge",
	"pre-push",
	"pre-receive",
	"update",
	"proc-receive",
	"post-receive",
	"post-update",
	"reference-transaction",
	"push-to-checkout",
	"pre-auto-gc",
	"post-rewrite",
	"sendemail-validate",
	"fsmonitor-watchman",
	"p4-changelist",
	"p4-prepare-changelist",
	"p4-post-changelist",
	"p4-pre-submit",
	"post-index-change",
};

const char *const git_names[GIT_NAMES] = { "HEAD", "objects", "refs", "commondir" };

bool gitdir_enough(unsigned names)
{
	return (names & GIT_HEAD) &&
	       ((names & (GIT_OBJECTS | GIT_REFS)) == (GIT_OBJECTS | GIT_REFS) ||
		(names & GIT_COMMONDIR));
}

unsigned gitdir_look(int folder)
{
	unsigned seen = 0;
	struct stat st;

	for (size_t i = 0; i < GIT_NAMES; i++)
		if (fstatat(folder, git_names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			seen |= 1U << i;
	return seen;
}

bool gitdir_is(int folder)
{
	struct stat st;

	if (fstatat(folder, git_names[0], &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return gitdir_enough(gitdir_look(folder));
}

struct search {
	int tree;
	int (*fn)(void *arg, const char *path);
	void *arg;
	int folders, entries; /* left */
};

static int open_folder(int tree, const char *path)
{
	int fd = fd_open_nolinks(tree, path, O_RDONLY | O_DIRECTORY, FD_BENEATH);
	char proc[32];
	CLEANUP(fd) int closed = -1;

	if (fd != -EACCES)
		return fd;
	closed = fd_open_nolinks(tree, path, O_PATH | O_DIRECTORY, FD_BENEATH);
	if (closed < 0)
		return closed;
	(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", closed);
	if (chmod(proc, 0700) < 0)
		return -errno;
	return fd_open_nolinks(tree, path, O_RDONLY | O_DIRECTORY, FD_BENEATH);
}

static int look_through(struct search *s, const char *folder, int depth);

static int look_below(struct search *s, DIR *d, const char *folder, int depth)
{
	int r = 0;

	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		char path[PATH_MAX];

		if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
			continue;
		if (!s->entries--)
			return -E2BIG;
		if (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN)
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", folder, e->d_name) >= (int)sizeof(path))
			return -E2BIG;
		r = look_through(s, path, depth + 1);
	}
	return r;
}

static int look_through(struct search *s, const char *folder, int depth)
{
	int fd = open_folder(s->tree, folder), r = 0;
	char path[PATH_MAX];
	DIR *d;

	if (fd < 0) /* nothing there, or no folder */
		return fd == -EACCES || fd == -EPERM ? fd : 0;
	if (depth > DEPTH_MAX || !s->folders--) {
		(void)fd_close(fd);
		return -E2BIG;
	}
	if (depth && gitdir_is(fd)) {
		(void)fd_close(fd);
		r = s->fn(s->arg, folder);
		if (snprintf(path, sizeof(path), "%s/modules", folder) >= (int)sizeof(path))
			return -E2BIG;
		return r != 0 ? r : look_through(s, path, 0);
	}
	d = fdopendir(fd);
	r = d ? look_below(s, d, folder, depth) : -errno;
	if (d)
		(void)closedir(d);
	return r;
}

int gitdirs_below(int tree, const char *folder, int (*fn)(void *arg, const char *path), void *arg)
{
	struct search s = {
		.tree = tree, .fn = fn, .arg = arg, .folders = FOLDERS_MAX, .entries = ENTRIES_MAX
	};

	return look_through(&s, folder, 0);
}
