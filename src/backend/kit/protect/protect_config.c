/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/protect_config.c - a configuration of git's that the host has replaced while
 * a run lasted. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/kit/protect/git_reader.h"
#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/protect_internal.h"
#include "base/str.h"

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

	for (size_t i = 0; i < t->plan->git_count && i < GITS_MAX; i++) {
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

/* Which of the plan's git folders this is the configuration of; git_count: none. */
static size_t folder_of(const struct protect *t, const char *tree_path, const char *path)
{
	size_t i = 0;

	for (; i < t->plan->git_count && i < GITS_MAX; i++) {
		const struct git_folder *g = &t->plan->gits[i];
		char config[PATH_MAX];

		(void)snprintf(config, sizeof(config), "%s%sconfig", g->path, *g->path ? "/" : "");
		if (str_eq(g->tree, tree_path) && str_eq(config, path))
			return i;
	}
	return t->plan->git_count;
}

bool protect_config_kept(struct protect *t, const char *tree_path, const char *path)
{
	size_t i = folder_of(t, tree_path, path);
	struct err e;
	int tree = i < t->plan->git_count ? protect_tree(t, tree_path, &e) : -1;

	return tree >= 0 && config_grew(t, tree, t->plan->gits[i].path, t->config[i]);
}

/* Without a name nobody can have opened it for writing since: through its cover it could not be. */
static bool as_it_was(int was, const struct stamp *stamp, struct stat *st)
{
	return was >= 0 && fstat(was, st) == 0 && st->st_nlink == 0 && st->st_size == stamp->size &&
	       st->st_mtim.tv_sec == stamp->mtime.tv_sec &&
	       st->st_mtim.tv_nsec == stamp->mtime.tv_nsec;
}

bool protect_config_back(struct protect *t, const struct protected_name *n, int tree)
{
	size_t i = folder_of(t, n->tree, n->path);
	int was = i < t->plan->git_count ? t->config[i] : -1, dir;
	CLEANUP(buf) struct buf text = BUF_INIT(LIST_MAX);
	CLEANUP(fd) int opened = -1, fd = -1;
	const char *name;
	struct stat st;

	if (!n->existed || !as_it_was(was, &n->was, &st) || buf_read_file(&text, was) < 0)
		return false;
	dir = protect_parent(tree, n->path, &name, &opened);
	fd = dir < 0 ? -1
		     : openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			      st.st_mode & 0777);
	return fd >= 0 && (geteuid() != 0 || fchown(fd, st.st_uid, st.st_gid) == 0) &&
	       fchmod(fd, st.st_mode & 0777) == 0 && fd_write_all(fd, text.data, text.len) == 0;
}
