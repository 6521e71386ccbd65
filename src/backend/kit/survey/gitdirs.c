/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/gitdirs.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "backend/kit/survey/reach.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/text/str.h"

#define DEPTH_MAX 12
#define FOLDERS_MAX 2048
#define ENTRIES_MAX 16384

const struct git_part git_parts[GIT_PARTS] = {
	{ "hooks", GIT_PART_HOOKS, .hold = true },
	{ "config", GIT_PART_CONFIG, .hold = true },
	{ "config.worktree", GIT_PART_FILE },         /* read where config says so */
	{ "info/attributes", GIT_PART_FILE },         /* names drivers that config defines */
	{ "objects/info/alternates", GIT_PART_FILE }, /* objects of another folder */
	{ "commondir", GIT_PART_COMMON },             /* config and hooks of another folder */
	{ "gitdir", GIT_PART_BACK },
	{ "remotes", GIT_PART_LIST },  /* addresses, as in old days: ext::sh -c ... */
	{ "branches", GIT_PART_LIST }, /* the same, older still */
};

/* clang-format off */
const char *const git_hooks[GIT_HOOKS] = {
	"applypatch-msg", "pre-applypatch", "post-applypatch",
	"pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push",
	"pre-receive", "update", "proc-receive", "post-receive", "post-update",
	"reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite",
	"sendemail-validate", "fsmonitor-watchman",
	"p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit",
	"post-index-change",
};
/* clang-format on */

const char *const git_names[GIT_NAMES] = {
	"HEAD", "objects", "refs", "commondir", "config", "hooks"
};

bool gitdir_obeyed(unsigned names)
{
	return (names & GIT_HEAD) &&
	       ((names & (GIT_OBJECTS | GIT_REFS)) == (GIT_OBJECTS | GIT_REFS) ||
		(names & GIT_COMMONDIR));
}

bool gitdir_enough(unsigned names)
{
	return gitdir_obeyed(names) ||
	       ((names & (GIT_OBJECTS | GIT_REFS)) == (GIT_OBJECTS | GIT_REFS) &&
		(names & (GIT_CONFIG | GIT_HOOKS_FOLDER)));
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

bool gitdir_named(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcasecmp(slash ? slash + 1 : path, ".git") == 0;
}

/* ---- parts ---- */

bool gitdir_is_sample(unsigned char type, const char *name)
{
	return type == DT_REG && str_ends_nocase(name, ".sample");
}

static void each_entry(int tree, const struct git_part *part, const char *path, git_part_fn *fn,
		       void *ctx)
{
	CLEANUP(fd) int fd = reach_open(tree, path);
	const struct fd_entry *e;
	struct folder d;
	struct stat st;

	folder_begin(&d, fd);
	while (fd >= 0 && (e = folder_next(&d))) {
		char entry[PATH_MAX];
		bool fits;

		if (part->kind == GIT_PART_HOOKS && gitdir_is_sample(e->type, e->name))
			continue;
		/* git, which stands in the working tree, has a shorter way to it than we do. */
		fits = snprintf(entry, sizeof(entry), "%s/%s", path, e->name) < (int)sizeof(entry);
		if (fstatat(fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			fn(ctx, part, fits ? entry : path, &st);
	}
}

void gitdir_parts(int tree, const char *git, git_part_fn *fn, void *ctx)
{
	for (size_t i = 0; i < GIT_PARTS; i++) {
		const struct git_part *part = &git_parts[i];
		bool folder = part->kind == GIT_PART_HOOKS || part->kind == GIT_PART_LIST;
		char path[PATH_MAX];
		struct stat st;
		int r;

		if (snprintf(path, sizeof(path), "%s%s%s", git, *git ? "/" : "", part->name) >=
		    (int)sizeof(path))
			continue;
		r = fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW);
		if (r < 0 && errno == EACCES) {
			reach_reopen(tree, path);
			r = fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW);
		}
		if (r == 0 && folder && S_ISDIR(st.st_mode))
			each_entry(tree, part, path, fn, ctx);
		else if (r == 0)
			fn(ctx, part, path, &st);
	}
}

/* ---- those below a folder ---- */

struct search {
	int tree;
	int (*fn)(void *arg, const char *path);
	void *arg;
	int folders, entries; /* left */
};

static int look_through(struct search *s, const char *folder, int depth)
{
	CLEANUP(fd) int fd = reach_open(s->tree, folder);
	bool git = fd >= 0 && depth && gitdir_obeyed(gitdir_look(fd));
	const struct fd_entry *e;
	char path[PATH_MAX];
	struct folder d;
	int r = 0;

	if (fd < 0) /* nothing there, or no folder */
		return fd == -EACCES || fd == -EPERM ? fd : 0;
	if (depth > DEPTH_MAX || !s->folders--)
		return -E2BIG;
	if (git) {
		r = s->fn(s->arg, folder);
		if (snprintf(path, sizeof(path), "%s/modules", folder) >= (int)sizeof(path))
			return -E2BIG;
		return r != 0 ? r : look_through(s, path, 0);
	}
	folder_begin(&d, fd);
	while (r == 0 && (e = folder_next(&d))) {
		if (!s->entries-- ||
		    snprintf(path, sizeof(path), "%s/%s", folder, e->name) >= (int)sizeof(path))
			return -E2BIG;
		if (e->type == DT_DIR || e->type == DT_UNKNOWN)
			r = look_through(s, path, depth + 1);
	}
	return r ? r : -d.error;
}

int gitdirs_below(int tree, const char *folder, int (*fn)(void *arg, const char *path), void *arg)
{
	struct search s = {
		.tree = tree, .fn = fn, .arg = arg, .folders = FOLDERS_MAX, .entries = ENTRIES_MAX
	};

	return look_through(&s, folder, 0);
}
