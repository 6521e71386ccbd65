/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/protect_config.c - git's configurations after a run: one that the host has
 * replaced meanwhile, and the places that those name which the plan did not know. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kit/protect/git_reader.h"
#include "backend/kit/protect/gitdirs.h"
#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/protect_internal.h"
#include "base/str.h"
#include "model/paths.h"

#define CONFIG_TRIES 1000           /* a millisecond each */
#define LIST_MAX ((size_t)64 << 10) /* of settings, compared one by one */

static int open_config(int tree, const char *git, const char *name)
{
	CLEANUP(fd) int dir = protect_open(tree, *git ? git : ".");

	return dir < 0 ? dir : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

enum reader_said protect_config_facts(struct protect *t, int tree, const char *git,
				      const char *name, struct buf *facts)
{
	CLEANUP(fd) int fd = open_config(tree, git, name);

	return fd < 0 ? READER_HOSTILE : reader_config(READER_CONFIG, fd, &t->asker, facts);
}

void protect_keep_configs(struct protect *t)
{
	struct err e;

	for (size_t i = 0; i < t->plan->git_count && i < TREES_MAX; i++) {
		const struct git_folder *g = &t->plan->gits[i];
		int tree = protect_tree(t, g->tree, &e);

		t->config[i] = tree < 0 ? -1 : open_config(tree, g->path, "config");
	}
}

/* git replaces the file; one that was written in place is its own proof of nothing. */
static bool replaced(int was, const struct stat *now)
{
	struct stat st;

	return was >= 0 && fstat(was, &st) == 0 &&
	       (st.st_dev != now->st_dev || st.st_ino != now->st_ino);
}

static bool list_grew(struct protect *t, int was, int is)
{
	CLEANUP(buf) struct buf before = BUF_INIT(LIST_MAX);
	CLEANUP(buf) struct buf now = BUF_INIT(LIST_MAX);

	return reader_config(READER_LIST, was, &t->asker, &before) == READER_PLAIN &&
	       reader_config(READER_LIST, is, &t->asker, &now) == READER_PLAIN &&
	       gitsay_grew(&before, &now);
}

/* git on the host may not be done yet: it replaces the file once for each setting, and the kernel
 * takes the cover away while the name still leads to the file that was replaced. */
static bool config_grew(struct protect *t, int tree, const char *git, int was)
{
	for (int tries = 0; tries < CONFIG_TRIES; tries++) {
		CLEANUP(fd) int now = open_config(tree, git, "config");
		struct stat st;

		if (now < 0 || fstat(now, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink > 1)
			return false;
		if (st.st_nlink && replaced(was, &st) && list_grew(t, was, now))
			return true;
		if (fstat(now, &st) < 0 || st.st_nlink)
			return false;
		(void)poll(NULL, 0, 1);
	}
	return false;
}

bool protect_config_kept(struct protect *t, const char *tree_path, const char *path)
{
	struct err e;

	for (size_t i = 0; i < t->plan->git_count && i < TREES_MAX; i++) {
		const struct git_folder *g = &t->plan->gits[i];
		int tree = str_eq(g->tree, tree_path) ? protect_tree(t, g->tree, &e) : -1;
		char config[PATH_MAX];

		(void)snprintf(config, sizeof(config), "%s%sconfig", g->path, *g->path ? "/" : "");
		if (tree >= 0 && str_eq(config, path))
			return config_grew(t, tree, g->path, t->config[i]);
	}
	return false;
}

/* ---- what the user's own configuration names ---- */

/* A file that changed, or a folder with an entry that did. */
static bool place_changed(const struct protect *t, int tree, const char *path)
{
	CLEANUP(fd) int fd = fd_open_nolinks(tree, path, O_PATH, FD_BENEATH);
	struct stat st;
	bool changed;
	DIR *d;

	if (fd == -ELOOP)
		return protect_moved(t, tree, path) != PROTECT_STAYED;
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	changed = protect_changed(t, &st);
	d = S_ISDIR(st.st_mode) ? fdopendir(protect_open(tree, path)) : NULL;
	for (struct dirent *e; d && !changed && (e = readdir(d));)
		changed = !str_eq(e->d_name, "..") &&
			  fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			  protect_changed(t, &st);
	if (d)
		(void)closedir(d);
	return changed;
}

/* Also what lies in a folder that was renamed into place: below `root` nothing may have moved. */
static bool led_away(const struct protect *t, int tree, const char *path, const char *root)
{
	char part[PATH_MAX];
	struct stat st, above;
	size_t n = *root ? strlen(root) + 1 : 0;
	bool changed = false;

	(void)snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strrchr(part, '/'); slash && (size_t)(slash - part) > n;
	     slash = strrchr(part, '/')) {
		*slash = '\0';
		if (fstatat(tree, part, &above, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (changed && protect_changed(t, &above))
			return true;
		st = above;
		changed = protect_changed(t, &st);
	}
	return changed && fstatat(tree, *root ? root : ".", &above, AT_SYMLINK_NOFOLLOW) == 0 &&
	       protect_changed(t, &above);
}

/* What the configuration of one repository says, all of its files together. */
struct places {
	struct protect *t;
	struct outcome *o;
	const char *git, *root, *top;
	struct arena *arena;
	struct buf roots, hooks; /* as its files name them, NUL after each */
	struct buf files;        /* that were read */
	int tree;
	bool told;
};

/* A path of the host's; NULL: none that can be told. */
static const char *resolved(const struct places *p, const char *folder, const char *value)
{
	struct place at = { .cwd = folder, .home = getenv("HOME") };
	const char *host;
	struct err e;

	return *value && path_resolve(p->arena, &at, value, &host, &e) == 0 ? host : NULL;
}

static const char *below_top(const struct places *p, const char *host)
{
	return path_under(host, p->top) && host[strlen(p->top)] ? host + strlen(p->top) + 1 : NULL;
}

static void judge(const struct places *p, const char *host)
{
	const char *path = below_top(p, host), *root = below_top(p, p->root);

	if (path && !plan_protects(p->t->plan, p->top, path) &&
	    (place_changed(p->t, p->tree, path) || led_away(p->t, p->tree, path, root ? root : "")))
		quarantine(p->t, p->o, p->tree, path,
			   "made or changed during the run; git's configuration names it");
}

/* The user's own work lies in it. */
static bool holds_work(const struct places *p, const char *host)
{
	if (path_under(p->git, host) || path_under(p->root, host))
		return true;
	for (const char *root = NULL; (root = gitsay_next(&p->roots, root));)
		if (path_under(root, host))
			return true;
	return false;
}

static void judge_hooks(const struct places *p, const char *folder, const char *value)
{
	const char *host = resolved(p, folder, value);

	if (!host)
		return;
	if (!holds_work(p, host)) {
		judge(p, host);
		return;
	}
	for (size_t i = 0; i < GIT_HOOKS; i++) {
		const char *hook = arena_printf(p->arena, "%s/%s", host, git_hooks[i]);

		if (hook)
			judge(p, hook);
	}
}

/* A mark to newer gits, a name to others. */
static const char *unmarked(const char *value)
{
	return str_starts(value, GIT_OPTIONAL) ? value + strlen(GIT_OPTIONAL) : NULL;
}

static void gather(struct places *p, const char *file, int depth);

static void gather_include(struct places *p, const char *file, const char *value, int depth)
{
	const char *slash = strrchr(file, '/');
	const char *folder = arena_printf(p->arena, "%.*s", (int)(slash - file), file);
	const char *host = folder ? resolved(p, folder, value) : NULL;

	if (!host)
		return;
	judge(p, host);
	if (depth < GIT_INCLUDES_MAX)
		gather(p, host, depth + 1);
}

/* What changed of it has been taken away when it is read. */
static void gather(struct places *p, const char *file, int depth)
{
	CLEANUP(buf) struct buf facts = BUF_INIT(READER_ANSWER_MAX);

	if (gitsay_has(&p->files, file))
		return;
	buf_add(&p->files, file, strlen(file) + 1);
	p->told &= reader_places(file, &p->t->asker, &facts) == READER_PLAIN;
	for (const char *fact = NULL; (fact = gitsay_next(&facts, fact));) {
		const char *value = strchr(fact, '=');

		if (!value++)
			continue;
		if (str_starts(fact, "hooks=")) {
			buf_add(&p->hooks, value, strlen(value) + 1);
		} else if (str_starts(fact, "include=")) {
			gather_include(p, file, value, depth);
			if (unmarked(value))
				gather_include(p, file, unmarked(value), depth);
		}
	}
}

/* Another file than the one with the hooks may say where the working tree is. */
static void gather_roots(struct places *p)
{
	for (const char *file = NULL; (file = gitsay_next(&p->files, file));) {
		CLEANUP(buf) struct buf facts = BUF_INIT(READER_ANSWER_MAX);
		const char *host;

		p->told &= reader_trees(file, &p->t->asker, &facts) == READER_PLAIN;
		for (const char *fact = NULL; (fact = gitsay_next(&facts, fact));) {
			if (!str_starts(fact, "worktree="))
				continue;
			host = resolved(p, p->git, strchr(fact, '=') + 1);
			if (host && !gitsay_has(&p->roots, host))
				buf_add(&p->roots, host, strlen(host) + 1);
		}
	}
}

static void judge_all_hooks(struct places *p)
{
	if (p->hooks.len)
		gather_roots(p);
	for (const char *value = NULL; (value = gitsay_next(&p->hooks, value));)
		for (const char *one = value; one; one = one == value ? unmarked(value) : NULL) {
			judge_hooks(p, p->root, one);
			judge_hooks(p, p->git, one);
			for (const char *root = NULL; (root = gitsay_next(&p->roots, root));)
				judge_hooks(p, root, one);
		}
}

bool protect_places(struct protect *t, struct outcome *o, const char *git, const char *root)
{
	static const char *const files[] = { "config", "config.worktree" };
	CLEANUP(arena) struct arena *arena = arena_new(1 << 20);
	struct places p = { .t = t,
			    .o = o,
			    .git = git,
			    .root = root,
			    .top = t->plan->workspace,
			    .arena = arena,
			    .roots = BUF_INIT(READER_ANSWER_MAX),
			    .hooks = BUF_INIT(READER_ANSWER_MAX),
			    .files = BUF_INIT(READER_ANSWER_MAX),
			    .told = true };
	struct err e;

	p.tree = protect_tree(t, p.top, &e);
	if (!arena || p.tree < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		const char *file = arena_printf(arena, "%s/%s", git, files[i]);

		if (file)
			gather(&p, file, 0);
	}
	judge_all_hooks(&p);
	p.told &= !p.roots.failed && !p.hooks.failed && !p.files.failed;
	buf_done(&p.roots);
	buf_done(&p.hooks);
	buf_done(&p.files);
	return p.told;
}
