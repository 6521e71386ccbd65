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

static bool list_grew(struct protect *t, int was, int is)
{
	CLEANUP(buf) struct buf before = BUF_INIT(LIST_MAX);
	CLEANUP(buf) struct buf now = BUF_INIT(LIST_MAX);

	return was >= 0 && reader_config(READER_LIST, was, &t->asker, &before) == READER_PLAIN &&
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
		if (st.st_nlink && list_grew(t, was, now))
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
		return protect_moved(t, tree, path);
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
	struct stat st;
	size_t n = *root ? strlen(root) + 1 : 0;

	(void)snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strrchr(part, '/'); slash && (size_t)(slash - part) > n;
	     slash = strrchr(part, '/')) {
		*slash = '\0';
		if (fstatat(tree, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && protect_changed(t, &st))
			return true;
	}
	return false;
}

static void configured_place(struct protect *t, struct outcome *o, const char *folder,
			     const char *root, const char *value)
{
	const char *top = t->plan->workspace, *host;
	struct place at = { .cwd = folder, .home = getenv("HOME") };
	CLEANUP(arena) struct arena *arena = arena_new(1 << 16);
	struct err e;
	int tree = protect_tree(t, top, &e);

	if (tree < 0 || !arena || path_resolve(arena, &at, value, &host, &e) < 0 ||
	    !path_under(host, top) || !host[strlen(top)])
		return;
	host += strlen(top) + 1;
	root = path_under(root, top) && root[strlen(top)] ? root + strlen(top) + 1 : "";
	if (!plan_protects(t->plan, top, host) &&
	    (place_changed(t, tree, host) || led_away(t, tree, host, root)))
		quarantine(t, o, tree, host,
			   "made or changed during the run; git's configuration names it");
}

bool protect_places(struct protect *t, struct outcome *o, const char *git, const char *root)
{
	static const char *const files[] = { "config", "config.worktree" };
	bool told = true;

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		CLEANUP(buf) struct buf facts = BUF_INIT(READER_ANSWER_MAX);
		char file[PATH_MAX + 32];

		(void)snprintf(file, sizeof(file), "%s/%s", git, files[i]);
		told &= reader_places(file, &t->asker, &facts) == READER_PLAIN;
		for (const char *fact = NULL; (fact = gitsay_next(&facts, fact));) {
			const char *value = strchr(fact, '=');

			if (str_starts(fact, "hooks=")) {
				configured_place(t, o, root, root, value + 1);
				configured_place(t, o, git, root, value + 1);
			} else if (str_starts(fact, "include=")) {
				configured_place(t, o, git, root, value + 1);
			}
		}
	}
	return told;
}
