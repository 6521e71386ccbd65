/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/protect_git.c - repositories that the command made: their objects are
 * welcome, what they would run on the host is not.
 *
 * Only names and stat data are looked at. What a new configuration says is asked of git itself
 * (git_reader.h); where nobody answers it counts as hostile. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/protect/git_reader.h"
#include "backend/kit/protect/gitdirs.h"
#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/protect_internal.h"
#include "base/folder.h"
#include "base/str.h"

#define HOOKS_MAX 64       /* samples of git's are fewer */
#define NEW_MODULES_MAX 64 /* moved one by one */
#define WORKTREES_MAX 512
#define ON_THE_HOST "; on the host, empty its folder and run git submodule update --init"

/* A socket is no file to be obeyed; another run may hold a name with one. */
bool protect_changed(const struct protect *t, const struct stat *st)
{
	return !S_ISSOCK(st->st_mode) && !time_before(&st->st_ctim, &t->began);
}

bool protect_made(const struct protect *t, int tree, const char *path)
{
	struct statx sx;
	struct timespec born;

	if (statx(tree, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &sx) < 0 ||
	    !(sx.stx_mask & STATX_BTIME))
		return false;
	born = (struct timespec){ .tv_sec = sx.stx_btime.tv_sec, .tv_nsec = sx.stx_btime.tv_nsec };
	return !time_before(&born, &t->began);
}

/* A rename changes the ctime of what is renamed and of the folder that it comes into, and the mtime
 * of the folder alone. An entry made in a folder changes both of its times at once. */
enum protect_move protect_moved(const struct protect *t, int tree, const char *path)
{
	enum protect_move move = PROTECT_STAYED;
	char part[PATH_MAX];
	struct stat st, above;

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part) ||
	    fstatat(tree, part, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return PROTECT_MOVED;
	for (char *end = part; end; st = above) {
		end = strrchr(part, '/');
		if (end)
			*end = '\0';
		if (fstatat(tree, end ? part : ".", &above, AT_SYMLINK_NOFOLLOW) < 0)
			return PROTECT_MOVED;
		if (!protect_changed(t, &st) || !protect_changed(t, &above))
			continue;
		if (time_before(&st.st_mtim, &st.st_ctim))
			return PROTECT_MOVED;
		move = PROTECT_UNCLEAR;
	}
	return move;
}

/* No configuration is as good as a plain one. By a second name it could be written later. */
static bool config_plain(struct protect *t, int tree, const char *git)
{
	CLEANUP(buf) struct buf facts = BUF_INIT(READER_ANSWER_MAX);
	char path[PATH_MAX];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/config", git);
	if (fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	if (S_ISSOCK(st.st_mode)) /* another run's placeholder; git reads none */
		return true;
	return S_ISREG(st.st_mode) && st.st_nlink == 1 &&
	       protect_config_facts(t, tree, git, "config", &facts) == READER_PLAIN &&
	       gitsay_has(&facts, "plain");
}

/* git runs no sample. */
static bool hooks_plain(int tree, const char *git)
{
	char path[PATH_MAX];
	int fd, left = HOOKS_MAX;
	bool plain = true;
	struct stat st;
	DIR *d;

	(void)snprintf(path, sizeof(path), "%s/hooks", git);
	if (fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT; /* a closed folder may hold anything */
	if (S_ISSOCK(st.st_mode))
		return true;
	fd = protect_open(tree, path);
	if (fd < 0)
		return false;
	d = fdopendir(fd);
	for (struct dirent *e; d && plain && (e = readdir(d));)
		plain = str_eq(e->d_name, ".") || str_eq(e->d_name, "..") ||
			(str_ends_nocase(e->d_name, ".sample") && left--);
	if (d)
		(void)closedir(d);
	return d && plain;
}

/* Following links: git does. */
static bool has(int tree, const char *git, const char *part)
{
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", git, part) >= (int)sizeof(path))
		return true;
	if (fstatat(tree, path, &st, 0) < 0 && fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT;
	return !S_ISSOCK(st.st_mode);
}

/* Missing, or a folder without an entry. `since`: or with none that came or changed since then. */
static bool list_plain(int tree, const char *path, const struct protect *since)
{
	bool plain = true;
	struct stat st;
	const struct fd_entry *e;
	CLEANUP(fd) int fd = -1;
	struct folder d;

	if (fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	if (!S_ISDIR(st.st_mode))
		return since && !protect_changed(since, &st);
	if (since && protect_changed(since, &st))
		since = NULL;
	fd = protect_open(tree, path);
	folder_begin(&d, fd);
	while (fd >= 0 && plain && (e = folder_next(&d)))
		plain = since && fstatat(fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			!protect_changed(since, &st);
	return fd >= 0 && !d.error && plain;
}

static bool part_plain(struct protect *t, int tree, const char *git, const struct git_part *part)
{
	char path[PATH_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/%s", git, part->name);
	if (part->list)
		return list_plain(tree, path, NULL);
	if (str_eq(part->name, "hooks"))
		return hooks_plain(tree, git);
	return str_eq(part->name, "config") ? config_plain(t, tree, git)
					    : !has(tree, git, part->name);
}

bool protect_parts_old(const struct protect *t, int tree, const char *git)
{
	char path[PATH_MAX + 32];
	struct stat st;

	for (size_t i = 0; i < GIT_PARTS; i++) {
		const struct git_part *part = &git_parts[i];

		(void)snprintf(path, sizeof(path), "%s/%s", git, part->name);
		if (part->list ? !list_plain(tree, path, t)
			       : fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
					 protect_changed(t, &st))
			return false;
	}
	return true;
}

bool protect_plain(struct protect *t, int tree, const char *git)
{
	for (size_t i = 0; i < GIT_PARTS; i++)
		if (!part_plain(t, tree, git, &git_parts[i]))
			return false;
	return true;
}

static void move_part(struct protect *t, struct outcome *o, int tree, const char *git,
		      const char *part, const char *why)
{
	const struct lead lead = { .tree = tree, .git = git };
	char path[PATH_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/%s", git, part);
	quarantine_lead(t, o, tree, path, why, &lead);
}

static void new_worktrees(struct protect *t, struct outcome *o, int tree, const char *tree_path,
			  const char *git);

void protect_tame(struct protect *t, struct outcome *o, int tree, const char *git)
{
	for (size_t i = 0; i < GIT_PARTS; i++) {
		const char *part = git_parts[i].name;

		if (!part_plain(t, tree, git, &git_parts[i]))
			move_part(t, o, tree, git, part,
				  str_eq(part, "config")
					  ? "made during the run with more than plain settings"
					  : "made during the run");
	}
	if (has(tree, git, "modules"))
		move_part(t, o, tree, git, "modules",
			  "submodules cloned during the run" ON_THE_HOST);
	new_worktrees(t, o, tree, NULL, git);
}

/* git takes a folder that looks like a bare repository for one, unless its `.git` is good, which
 * the command may have seen to: whatever made it so goes. */
static void new_bare(struct protect *t, struct outcome *o, int tree)
{
	unsigned now = gitdir_look(tree);

	if (!gitdir_enough(now))
		return;
	for (size_t i = 0; i < GIT_NAMES; i++)
		if (now & ~t->bare & (1U << i))
			quarantine(t, o, tree, git_names[i],
				   "it made the folder look like a bare repository");
}

static void new_repository(struct protect *t, struct outcome *o, int tree)
{
	struct stat st;

	if (!t->plan->git_absent || fstatat(tree, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (S_ISDIR(st.st_mode))
		protect_tame(t, o, tree, ".git");
	else
		quarantine(t, o, tree, ".git", "not a folder, made during the run");
}

/* ---- new worktrees and submodules of old repositories ---- */

/* As git makes it: the shared folder is two above, byte for byte. */
bool protect_worktree_plain(int tree, const char *folder)
{
	static const char wanted[] = "../..\n";
	char path[PATH_MAX + 32], text[sizeof(wanted)];
	CLEANUP(fd) int fd = -1;
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/commondir", folder);
	fd = fd_open_nolinks(tree, path, O_RDONLY | O_NONBLOCK, FD_BENEATH);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
	       st.st_size == sizeof(wanted) - 1 &&
	       pread(fd, text, sizeof(text), 0) == sizeof(wanted) - 1 &&
	       memcmp(text, wanted, sizeof(wanted) - 1) == 0 &&
	       !has(tree, folder, "config.worktree") && !has(tree, folder, "modules");
}

static void new_worktree(struct protect *t, struct outcome *o, int tree, const char *tree_path,
			 const char *git, const char *name)
{
	char part[NAME_MAX + 16], path[PATH_MAX], common_path[PATH_MAX + 16];
	struct stat st;

	(void)snprintf(part, sizeof(part), "worktrees/%s", name);
	(void)snprintf(path, sizeof(path), "%s%s%s", git, *git ? "/" : "", part);
	(void)snprintf(common_path, sizeof(common_path), "%s/commondir", path);
	if (tree_path && plan_protects(t->plan, tree_path, common_path))
		return;
	if (fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || protect_worktree_plain(tree, path))
		return;
	quarantine(t, o, tree, path, "not as git makes a worktree's folder");
}

/* `tree_path`: of which the plan knows the old ones; NULL: all are new. */
static void new_worktrees(struct protect *t, struct outcome *o, int tree, const char *tree_path,
			  const char *git)
{
	char path[PATH_MAX];
	int fd, left = WORKTREES_MAX;
	DIR *d;

	(void)snprintf(path, sizeof(path), "%s%sworktrees", git, *git ? "/" : "");
	fd = protect_open(tree, path);
	if (fd == -ELOOP || fd == -ENOTDIR)
		quarantine(t, o, tree, path, "a link or file made during the run");
	d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *e; d && left && (e = readdir(d));) {
		if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
			continue;
		left--;
		new_worktree(t, o, tree, tree_path, git, e->d_name);
	}
	if (d)
		(void)closedir(d);
	if (!left)
		quarantine(t, o, tree, path, "more worktrees than brig looks at");
}

/* In each git folder that the plan knows, submodules' too. */
static void new_addresses(struct protect *t, struct outcome *o)
{
	for (size_t i = 0; i < t->plan->config_count * GIT_PARTS; i++) {
		const struct git_config *c = &t->plan->configs[i / GIT_PARTS];
		const struct git_part *part = &git_parts[i % GIT_PARTS];
		char host[PATH_MAX + 32];
		const char *path = host;
		int tree;

		if (c > t->plan->configs && str_eq(c->git, c[-1].git))
			continue; /* another file of the same one */
		(void)snprintf(host, sizeof(host), "%s/%s", c->git, part->name);
		tree = part->list ? protect_tree_of(t, &path) : -1;
		if (tree >= 0 && !list_plain(tree, path, t))
			quarantine(t, o, tree, path,
				   "addresses for git that were made or changed during the run");
	}
}

struct module_search {
	const struct protect *t;
	const char *tree_path;
	struct buf found; /* NUL after each */
	size_t count;
};

static int on_module(void *arg, const char *path)
{
	struct module_search *s = arg;
	char part[PATH_MAX + 16];

	(void)snprintf(part, sizeof(part), "%s/config", path);
	if (plan_protects(s->t->plan, s->tree_path, part))
		return 0;
	if (s->count++ == NEW_MODULES_MAX)
		return -E2BIG;
	buf_add(&s->found, path, strlen(path) + 1);
	return 0;
}

/* git follows a link where it looks for a submodule's repository, and none of the user's is one. */
static void take_links(struct protect *t, struct outcome *o, int tree, const char *path)
{
	int fd = fd_open_nolinks(tree, path, O_RDONLY | O_DIRECTORY, FD_BENEATH);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;

	if (fd < 0 && fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
	    protect_changed(t, &st))
		quarantine(t, o, tree, path, "no folder where git keeps submodules");
	for (struct dirent *e; d && (e = readdir(d));) {
		char entry[PATH_MAX];

		if (e->d_type != DT_LNK || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !protect_changed(t, &st) ||
		    snprintf(entry, sizeof(entry), "%s/%s", path, e->d_name) >= (int)sizeof(entry))
			continue;
		quarantine(t, o, tree, entry, "a link where git keeps a submodule");
	}
	if (d)
		(void)closedir(d);
}

static void new_modules(struct protect *t, struct outcome *o, int tree, const char *tree_path,
			const char *git)
{
	struct module_search s = { .t = t, .tree_path = tree_path, .found = BUF_INIT(1 << 20) };
	char path[PATH_MAX];
	int r;

	(void)snprintf(path, sizeof(path), "%s%smodules", git, *git ? "/" : "");
	take_links(t, o, tree, path);
	r = gitdirs_below(tree, path, on_module, &s);
	if (r < 0 || s.found.failed)
		quarantine(t, o, tree, path, "more than brig looks at" ON_THE_HOST);
	else
		for (const char *one = NULL; (one = gitsay_next(&s.found, one));)
			quarantine(t, o, tree, one,
				   "a submodule cloned during the run" ON_THE_HOST);
	buf_done(&s.found);
}

void protect_repositories(struct protect *t, struct outcome *o)
{
	struct err e;
	int top = protect_tree(t, t->plan->workspace, &e);

	if (top < 0 || !t->writable)
		return; /* whatever is new is the host's */
	new_repository(t, o, top);
	new_bare(t, o, top);
	for (size_t i = 0; i < t->plan->git_count; i++) {
		const struct git_folder *g = &t->plan->gits[i];
		int tree = protect_tree(t, g->tree, &e);

		if (tree < 0)
			continue;
		new_worktrees(t, o, tree, g->tree, g->path);
		new_modules(t, o, tree, g->tree, g->path);
	}
	new_addresses(t, o);
	protect_links(t, o);
	protect_walk(t, o);
}
