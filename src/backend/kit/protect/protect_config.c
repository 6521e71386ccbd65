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

#define CONFIG_TRIES 1000 /* a millisecond each */
#define LOCK_TRIES 500    /* the same */
#define OWN_TRIES 16      /* git on the host replaces it meanwhile */
#define CONFIG_LOCK "config.lock"
#define LIST_MAX ((size_t)64 << 10) /* of settings, compared one by one */

int protect_config_open(int tree, const char *git, const char *name)
{
	CLEANUP(fd) int dir = protect_open(tree, *git ? git : ".");

	return dir < 0 ? dir : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

enum reader_said protect_config_facts(struct protect *t, int tree, const char *git,
				      const char *name, struct buf *facts)
{
	CLEANUP(fd) int fd = protect_config_open(tree, git, name);

	return fd < 0 ? READER_HOSTILE : reader_config(READER_CONFIG, fd, &t->asker, facts);
}

/* The kernel takes a cover off while its name still leads to the file that is replaced: what that
 * says later on may be the command's. */
void protect_keep_configs(struct protect *t)
{
	struct err e;

	for (size_t i = 0; i < t->plan->git_count && i < GITS_MAX; i++) {
		const struct git_folder *g = &t->plan->gits[i];
		int tree = protect_tree(t, g->tree, &e);

		t->pinned[i] = tree < 0 ? -1 : protect_config_open(tree, g->path, "config");
		if (t->pinned[i] >= 0 && fstat(t->pinned[i], &t->config_was[i]) == 0)
			t->config[i] = reader_copy(t->pinned[i], &t->config_was[i]);
	}
}

/* git replaces the file; one that was written in place is its own proof of nothing. */
static bool replaced(const struct stat *was, const struct stat *now)
{
	return was->st_dev != now->st_dev || was->st_ino != now->st_ino;
}

bool protect_config_plain(struct protect *t, int was, int is)
{
	CLEANUP(buf) struct buf before = BUF_INIT(LIST_MAX);
	CLEANUP(buf) struct buf now = BUF_INIT(LIST_MAX);

	return reader_config(READER_LIST, was, &t->asker, &before) == READER_PLAIN &&
	       reader_config(READER_LIST, is, &t->asker, &now) == READER_PLAIN &&
	       gitsay_grew(&before, &now);
}

/* git on the host may not be done yet: it replaces the file once for each setting, and the kernel
 * takes the cover away while the name still leads to the file that was replaced. */
static bool config_grew(struct protect *t, int tree, size_t i)
{
	const char *git = t->plan->gits[i].path;
	int was = t->config[i];

	for (int tries = 0; tries < CONFIG_TRIES; tries++) {
		CLEANUP(fd) int now = protect_config_open(tree, git, "config");
		struct stat st;

		if (now < 0 || fstat(now, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink > 1)
			return false;
		if (was >= 0 && st.st_nlink && replaced(&t->config_was[i], &st) &&
		    protect_config_plain(t, was, now))
			return true;
		if (fstat(now, &st) < 0 || st.st_nlink)
			return false;
		(void)poll(NULL, 0, 1);
	}
	return false;
}

size_t protect_config_of(const struct protect *t, const struct protected_name *n)
{
	size_t i = 0;

	for (; i < t->plan->git_count && i < GITS_MAX; i++) {
		const struct git_folder *g = &t->plan->gits[i];
		char config[PATH_MAX];

		(void)snprintf(config, sizeof(config), "%s%sconfig", g->path, *g->path ? "/" : "");
		if (str_eq(g->tree, n->tree) && str_eq(config, n->path))
			return i;
	}
	return t->plan->git_count;
}

/* Takes git's own lock, or lets go of it. 0 or -errno. */
static int lock_in(int dir, bool take)
{
	CLEANUP(fd) int fd = -1;

	if (!take)
		return unlinkat(dir, CONFIG_LOCK, 0) < 0 ? -errno : 0;
	fd = openat(dir, CONFIG_LOCK, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : 0;
}

static int lock(int dir, bool take)
{
	int r = lock_in(dir, take);

	for (int tries = 1; r == -EEXIST && tries < LOCK_TRIES; tries++) {
		(void)poll(NULL, 0, 1);
		r = lock_in(dir, take);
	}
	return r;
}

bool protect_config_lock(const struct protect *t, const struct protected_name *n, int tree,
			 bool take)
{
	CLEANUP(fd) int opened = -1;
	const char *name;
	int dir = protect_config_of(t, n) < t->plan->git_count
			  ? protect_parent(tree, n->path, &name, &opened)
			  : -ENOENT;

	return dir >= 0 && lock(dir, take) == 0;
}

void protect_config_own(struct protect *t, size_t git)
{
	const struct git_folder *g = &t->plan->gits[git];
	struct err e;
	int tree = protect_tree(t, g->tree, &e), r = -EAGAIN;
	CLEANUP(fd) int dir = tree < 0 ? -1 : protect_open(tree, *g->path ? g->path : ".");
	struct ident now;
	struct stat st;

	if (t->pinned[git] < 0)
		return;
	for (int tries = 0; dir >= 0 && r == -EAGAIN && tries < OWN_TRIES; tries++) {
		if (fstatat(dir, "config", &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
		    !replaced(&t->config_was[git], &st))
			return;
		now = ident_of(&st);
		r = protect_own_file(dir, "config", &now, t->id, lock);
	}
	t->alien[git] = r < 0;
}

/* git on the host that has read what a command slipped in would write it once more after it was
 * judged. What begins from now on reads what is judged. */
static void wait_unlocked(const struct protected_name *n, int tree)
{
	CLEANUP(fd) int opened = -1;
	const char *name;
	int dir = protect_parent(tree, n->path, &name, &opened);

	for (int tries = 0; dir >= 0 && tries < LOCK_TRIES &&
			    faccessat(dir, CONFIG_LOCK, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	     tries++)
		(void)poll(NULL, 0, 1);
}

bool protect_config_kept(struct protect *t, const struct protected_name *n, bool locked)
{
	size_t i = protect_config_of(t, n);
	struct err e;
	int tree = i < t->plan->git_count ? protect_tree(t, n->tree, &e) : -1;

	if (tree < 0 || t->alien[i])
		return false;
	if (!locked)
		wait_unlocked(n, tree);
	return config_grew(t, tree, i);
}

bool protect_config_back(struct protect *t, const struct protected_name *n, int tree)
{
	size_t i = protect_config_of(t, n);
	CLEANUP(buf) struct buf text = BUF_INIT(LIST_MAX);
	CLEANUP(fd) int opened = -1, fd = -1;
	const struct stat *st;
	const char *name;
	struct stat pin;
	int dir;

	/* With a name it was not replaced. */
	if (!n->existed || i == t->plan->git_count || t->config[i] < 0 ||
	    fstat(t->pinned[i], &pin) < 0 || pin.st_nlink || lseek(t->config[i], 0, SEEK_SET) < 0 ||
	    buf_read_file(&text, t->config[i]) < 0)
		return false;
	st = &t->config_was[i];
	dir = protect_parent(tree, n->path, &name, &opened);
	fd = dir < 0 ? -1
		     : openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			      st->st_mode & 0777);
	return fd >= 0 && (geteuid() != 0 || fchown(fd, st->st_uid, st->st_gid) == 0) &&
	       fchmod(fd, st->st_mode & 0777) == 0 && fd_write_all(fd, text.data, text.len) == 0;
}
