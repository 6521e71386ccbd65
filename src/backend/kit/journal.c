/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/state.h"
#include "base/str.h"

#define TEXT_MAX ((size_t)1 << 20)
#define LOCK "lock"
#define NAME_ROOM 128

struct journal {
	int folder, lock;
	char prefix[48];        /* of this workspace's journals */
	struct buf held, stale; /* lines of other runs */
	struct buf dead; /* names of the journals read as stale: a run may end after the look */
};

struct journal *journal_free(struct journal *j)
{
	if (!j)
		return NULL;
	(void)fd_close(j->lock);
	(void)fd_close(j->folder);
	buf_done(&j->held);
	buf_done(&j->stale);
	buf_done(&j->dead);
	free(j);
	return NULL;
}

/* A journal's name is its workspace's prefix, a dot, and the run's id. */
static bool is_journal(const char *name)
{
	return name[0] != '.' && !str_eq(name, LOCK) && strlen(name) < NAME_ROOM &&
	       strchr(name, '.');
}

/* Calls fn for every journal in the folder until it returns false. */
static void each(int folder, bool (*fn)(void *arg, const char *name), void *arg)
{
	int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);

	for (struct dirent *e; d && (e = readdir(d));)
		if (is_journal(e->d_name) && !fn(arg, e->d_name))
			break;
	if (d)
		(void)closedir(d);
	else
		(void)fd_close(copy);
}

/* A journal that can be locked belongs to a run that is no more. */
static int open_journal(int folder, const char *name, bool *dead)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	*dead = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
	return fd;
}

static bool read_one(void *arg, const char *name)
{
	struct journal *j = arg;
	CLEANUP(fd) int fd = -1;
	char text[4096];
	bool dead;
	ssize_t n;

	if (!str_starts(name, j->prefix))
		return true;
	fd = open_journal(j->folder, name, &dead);
	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		buf_add(dead ? &j->stale : &j->held, text, (size_t)n);
	if (dead)
		buf_printf(&j->dead, "%s\n", name);
	return true;
}

static int take_lock(int folder)
{
	CLEANUP(fd) int fd = openat(folder, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int open_prefix(int folder, const char *prefix, struct journal **ret)
{
	CLEANUP(journal) struct journal *j = calloc(1, sizeof(*j));

	if (!j) {
		(void)fd_close(folder);
		return -ENOMEM;
	}
	*j = (struct journal){ .folder = folder,
			       .lock = -1,
			       .held = BUF_INIT(TEXT_MAX),
			       .stale = BUF_INIT(TEXT_MAX),
			       .dead = BUF_INIT(TEXT_MAX) };
	(void)snprintf(j->prefix, sizeof(j->prefix), "%s", prefix);
	j->lock = take_lock(folder);
	if (j->lock < 0)
		return j->lock;
	each(j->folder, read_one, j);
	*ret = TAKE_PTR(j);
	return 0;
}

static int open_folder(struct err *e)
{
	return state_open("workspaces", NULL, 0, e);
}

int journal_open(const struct ident *workspace, struct journal **ret, struct err *e)
{
	int folder = open_folder(e), r;
	char prefix[48];

	if (folder < 0)
		return -e->code;
	(void)snprintf(prefix, sizeof(prefix), "%llx-%llx.", (unsigned long long)workspace->dev,
		       (unsigned long long)workspace->ino);
	r = open_prefix(folder, prefix, ret);
	return r < 0 ? (errno = -r, err_sys(e, "cannot open the journal of the workspace")) : 0;
}

static bool listed(const struct buf *lines, const char *tree, const char *path)
{
	char line[PATH_MAX * 2];
	const char *at = buf_str(lines);
	size_t n;

	(void)snprintf(line, sizeof(line), "%s\t%s\n", tree, path);
	n = strlen(line);
	for (; (at = strstr(at, line)); at += n)
		if (at == lines->data || at[-1] == '\n')
			return true;
	return false;
}

bool journal_held(const struct journal *j, const char *tree, const char *path)
{
	return listed(&j->held, tree, path);
}

bool journal_named(const struct journal *j, const char *tree, const char *path)
{
	return listed(&j->held, tree, path) || listed(&j->stale, tree, path);
}

int journal_write(struct journal *j, const char *id, const char *text, struct err *e)
{
	char name[NAME_ROOM];
	CLEANUP(fd) int fd = -1;
	int r;

	(void)snprintf(name, sizeof(name), "%s%s", j->prefix, id);
	fd = openat(j->folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_sys(e, "cannot make the journal of the run");
	r = fd_write_all(fd, text, strlen(text));
	if (r < 0)
		return errno = -r, err_sys(e, "cannot write the journal of the run");
	return TAKE_FD(fd);
}

void placeholder_remove(int dir, const char *name)
{
	struct stat st;

	if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno != ENOTDIR)
		return;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size == 0 && (st.st_mode & 07777) == 0 && st.st_nlink == 1)
		(void)unlinkat(dir, name, 0);
}

static void remove_placeholder(int tree, char *path)
{
	char *slash = strrchr(path, '/');
	CLEANUP(fd) int dir = -1;

	if (!slash) {
		placeholder_remove(tree, path);
		return;
	}
	*slash = '\0';
	dir = fd_open_nolinks(tree, path, O_PATH | O_DIRECTORY, FD_BENEATH);
	if (dir >= 0)
		placeholder_remove(dir, slash + 1);
}

static void remove_stale(const struct journal *j)
{
	CLEANUP(mem) char *copy = strdup(buf_str(&j->stale));
	CLEANUP(fd) int tree = -1;
	char *at = copy, *line, *open_path = NULL;

	while (copy && (line = strsep(&at, "\n"))) {
		char *path = strchr(line, '\t');

		if (!path)
			continue;
		*path++ = '\0';
		if (journal_held(j, line, path))
			continue;
		if (!open_path || !str_eq(open_path, line)) {
			(void)fd_close(tree);
			tree = fd_open_nolinks(AT_FDCWD, line, O_PATH | O_DIRECTORY, 0);
			open_path = line;
		}
		if (tree >= 0)
			remove_placeholder(tree, path);
	}
}

void journal_clean(struct journal *j)
{
	char *at = j->dead.data, *name;

	if (j->stale.len)
		remove_stale(j);
	while (at && (name = strsep(&at, "\n")) && *name)
		(void)unlinkat(j->folder, name, 0);
	buf_done(&j->stale);
	buf_done(&j->dead);
}

struct search {
	int folder;
	bool any;
	char dead[NAME_ROOM]; /* prefix of a workspace with a dead run; "": none */
};

static bool find_any(void *arg, const char *name)
{
	(void)name;
	return !(((struct search *)arg)->any = true);
}

static bool find_dead(void *arg, const char *name)
{
	struct search *s = arg;
	bool dead;
	int fd = open_journal(s->folder, name, &dead);

	(void)fd_close(fd);
	if (dead)
		(void)snprintf(s->dead, sizeof(s->dead), "%.*s",
			       (int)(strchr(name, '.') - name + 1), name);
	return !dead;
}

/* One workspace with a dead run, or "". Under the lock: a run that is just beginning has made its
 * journal but not locked it yet. */
static void next_dead(struct search *s)
{
	CLEANUP(fd) int lock = take_lock(s->folder);

	s->dead[0] = '\0';
	if (lock >= 0)
		each(s->folder, find_dead, s);
}

void journal_sweep(void)
{
	struct err e;
	CLEANUP(fd) int folder = open_folder(&e);
	struct search s = { .folder = folder };

	if (folder >= 0)
		each(folder, find_any, &s);
	for (int i = 0; s.any && i < 1024; i++) {
		CLEANUP(journal) struct journal *j = NULL;
		int copy;

		next_dead(&s);
		copy = s.dead[0] ? fcntl(folder, F_DUPFD_CLOEXEC, 3) : -1;
		if (copy < 0 || open_prefix(copy, s.dead, &j) < 0)
			break;
		journal_clean(j);
	}
}
