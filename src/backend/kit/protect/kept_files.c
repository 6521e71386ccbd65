/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/kept_files.c - covered files that the host may replace while a run lasts.
 *
 * git and editors rename a new file over the old one, and the cover goes with that: from then on
 * what stands there may be the command's as well as the user's. A configuration of git's is judged
 * by what it says. Nothing can be said of any other file: if its bytes are others when the run has
 * ended it goes to quarantine, and what was there before comes back. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "backend/kit/protect/protect_internal.h"
#include "base/files/exposed.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "git/git_reader.h"

#define CONFIG_TRIES 1000 /* a millisecond each */
#define LOCK_TRIES 500    /* the same */
#define OWN_TRIES 16      /* git on the host replaces it meanwhile */
#define CONFIG_LOCK "config.lock"
#define BYTES_MAX ((size_t)64 << 10) /* of settings, compared one by one, and of files */

int protect_file_open(int tree, const char *path)
{
	CLEANUP(name_parent) struct name_parent at = protect_parent(tree, path);
	int fd = at.dir < 0
			 ? at.dir
			 : openat(at.dir, at.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 && at.dir >= 0 ? -errno : fd;
}

enum reader_said protect_config_facts(struct protect *t, int tree, const char *path,
				      struct buf *facts)
{
	CLEANUP(fd) int fd = protect_file_open(tree, path);

	return fd < 0 ? READER_HOSTILE : reader_config(READER_CONFIG, fd, &t->asker, facts);
}

/* ---- which, and as they were ---- */

static bool is_config(const struct protect *t, const struct protected_name *n)
{
	const char *slash = strrchr(n->path, '/');
	size_t tree = strlen(n->tree);

	if (str_eq(slash ? slash + 1 : n->path, "config"))
		return true;
	for (size_t i = 0; i < t->plan->config_count; i++) {
		const char *file = t->plan->configs[i].file;

		if (strncmp(file, n->tree, tree) == 0 && file[tree] == '/' &&
		    str_eq(file + tree + 1, n->path))
			return true;
	}
	return false;
}

/* Of a file that git obeys at once without our asking it, and of what is not the workspace's own,
 * nothing else is kept. */
static bool kept_files_is_kept(const struct protect *t, const struct protected_name *n, bool config)
{
	const char *own = t->plan->workspace;

	if (!n->covered || !n->existed || n->file || !S_ISREG(n->was.ident.type))
		return false;
	if (config)
		return true;
	for (size_t i = 0; i < t->plan->git_count; i++)
		if (!*t->plan->gits[i].path && str_eq(t->plan->gits[i].tree, n->tree))
			return false;
	return own && str_eq(n->tree, own) && !strchr(n->path, '/') &&
	       strcasecmp(n->path, ".git") != 0;
}

/* The kernel takes a cover off while its name still leads to the file that is replaced: what that
 * says later on may be the command's. So its bytes are copied. */
static void kept_files_keep(struct protect *t, struct live_name *l, bool config)
{
	struct kept_file k = { .of = l, .config = config, .leased = -1 };

	k.pinned = protect_file_open(l->tree->fd, l->n->path);
	k.copy = k.pinned >= 0 && fstat(k.pinned, &k.was) == 0 ? reader_copy(k.pinned, &k.was) : -1;
	if (k.copy < 0) {
		(void)fd_close(k.pinned);
		return;
	}
	l->kept = &t->kept[t->kept_count++];
	*l->kept = k;
}

void protect_keep_files(struct protect *t)
{
	for (size_t i = 0; i < t->name_count && t->kept_count < KEPT_MAX; i++) {
		struct live_name *l = &t->names[i];
		bool config = is_config(t, l->n);

		if (kept_files_is_kept(t, l->n, config))
			kept_files_keep(t, l, config);
	}
}

/* ---- configurations ---- */

/* git replaces the file; one that was written in place is its own proof of nothing. */
static bool replaced(const struct stat *was, const struct stat *now)
{
	return was->st_dev != now->st_dev || was->st_ino != now->st_ino;
}

enum gitsay_change protect_config_change(struct protect *t, int was, int is)
{
	CLEANUP(buf) struct buf before = BUF_INIT(BYTES_MAX);
	CLEANUP(buf) struct buf now = BUF_INIT(BYTES_MAX);

	if (reader_config(READER_LIST, was, &t->asker, &before) != READER_PLAIN ||
	    reader_config(READER_LIST, is, &t->asker, &now) != READER_PLAIN)
		return GITSAY_HOSTILE;
	return gitsay_change(&before, &now);
}

/* git on the host may not be done yet: it replaces the file once for each setting, and the kernel
 * takes the cover away while the name still leads to the file that was replaced. */
static bool config_grew(struct protect *t, const struct kept_file *k)
{
	for (int tries = 0; tries < CONFIG_TRIES; tries++) {
		CLEANUP(fd) int now = protect_file_open(k->of->tree->fd, k->of->n->path);
		struct stat st;

		if (now < 0 || fstat(now, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink > 1)
			return false;
		if (st.st_nlink && replaced(&k->was, &st) &&
		    protect_config_change(t, k->copy, now) == GITSAY_PLAIN)
			return true;
		if (fstat(now, &st) < 0 || st.st_nlink)
			return false;
		wait_moment(1);
	}
	return false;
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

static int kept_files_lock(int dir, bool take)
{
	int r = lock_in(dir, take);

	for (int tries = 1; r == -EEXIST && tries < LOCK_TRIES; tries++) {
		wait_moment(1);
		r = lock_in(dir, take);
	}
	return r;
}

bool protect_config_lock(const struct kept_file *k, bool take)
{
	CLEANUP(name_parent)
	struct name_parent at = protect_parent(k->of->tree->fd, k->of->n->path);

	return k->config && at.dir >= 0 && kept_files_lock(at.dir, take) == 0;
}

void protect_config_own(struct protect *t, struct kept_file *k)
{
	CLEANUP(name_parent)
	struct name_parent at = protect_parent(k->of->tree->fd, k->of->n->path);
	int r = -EAGAIN;
	struct ident now;
	struct stat st;

	if (!k->config)
		return;
	for (int tries = 0; at.dir >= 0 && r == -EAGAIN && tries < OWN_TRIES; tries++) {
		if (fstatat(at.dir, at.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode) || !replaced(&k->was, &st))
			return;
		now = ident_of(&st);
		r = protect_own_file(at.dir, at.name, &now, t->id, kept_files_lock);
	}
	k->alien = r < 0;
}

/* git on the host that has read what a command slipped in would write it once more after it was
 * judged. What begins from now on reads what is judged. */
static void wait_unlocked(const struct live_name *l)
{
	CLEANUP(name_parent) struct name_parent at = protect_parent(l->tree->fd, l->n->path);

	for (int tries = 0; at.dir >= 0 && tries < LOCK_TRIES &&
			    faccessat(at.dir, CONFIG_LOCK, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	     tries++)
		wait_moment(1);
}

bool protect_config_kept(struct protect *t, const struct kept_file *k, bool locked)
{
	if (!k->config || k->alien)
		return false;
	if (!locked)
		wait_unlocked(k->of);
	return config_grew(t, k);
}

/* ---- by their bytes ---- */

static bool kept_files_read_all(int fd, struct buf *text)
{
	return fd >= 0 && lseek(fd, 0, SEEK_SET) == 0 && buf_read_file(text, fd) >= 0;
}

bool protect_kept_same(const struct kept_file *k)
{
	CLEANUP(buf) struct buf was = BUF_INIT(BYTES_MAX);
	CLEANUP(buf) struct buf is = BUF_INIT(BYTES_MAX);
	CLEANUP(fd) int now = protect_file_open(k->of->tree->fd, k->of->n->path);
	struct stat st;

	return now >= 0 && fstat(now, &st) == 0 && S_ISREG(st.st_mode) &&
	       kept_files_read_all(k->copy, &was) && kept_files_read_all(now, &is) &&
	       was.len == is.len && !memcmp(was.data, is.data, is.len);
}

static int write_again(const struct kept_file *k, int dir, const char *name)
{
	CLEANUP(fd)
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : protect_copy(k->copy, fd, &k->was);
}

bool protect_kept_back(const struct protect *t, const struct kept_file *k, bool over)
{
	CLEANUP(name_parent)
	struct name_parent at = protect_parent(k->of->tree->fd, k->of->n->path);
	char draft[160];

	if (at.dir < 0)
		return false;
	(void)snprintf(draft, sizeof(draft), ".brig-again-%s", t->id);
	if (write_again(k, at.dir, draft) == 0 &&
	    renameat2(at.dir, draft, at.dir, at.name, over ? 0 : RENAME_NOREPLACE) == 0)
		return true;
	(void)unlinkat(at.dir, draft, 0);
	return false;
}

/* ---- who wrote it ---- */

bool protect_host_wrote(const struct protect *t, const struct live_name *l, const struct stat *st)
{
	const struct ident now = ident_of(st);
	const char *const own[] = { l->tree->path, NULL };
	char path[PATH_MAX];
	struct err why;

	if (!l->n->covered || t->unlocked || !t->listed || !S_ISREG(st->st_mode) ||
	    st->st_nlink > 1 || !ident_same(&now, &l->n->was.ident) || !ident_same(&now, &l->cover))
		return false;
	return snprintf(path, sizeof(path), "%s/%s", l->tree->path, l->n->path) <
		       (int)sizeof(path) &&
	       !exposed_path(path, own, EXPOSED_BESIDES, &why);
}
