/* SPDX-License-Identifier: Apache-2.0 */
#include "model/files/settings_used.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#define LIST "settings"
#define LIST_NEW "settings.new"
#define LIST_MAX ((size_t)1 << 20)
#define LINES_MAX 4096
#define TIDY_FROM 512 /* lines; every run reads them */

struct used_file {
	const char *dialect, *path;
};

struct used_list {
	struct used_file *v;
	size_t n;
};

static int settings_used_load(int dir, struct arena *a, struct used_list *ret)
{
	CLEANUP(buf) struct buf b = BUF_INIT(LIST_MAX);
	CLEANUP(fd) int fd = openat(dir, LIST, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char chunk[4096], *text;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (st.st_size > (off_t)LIST_MAX)
		return -EFBIG;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_add(&b, chunk, (size_t)n);
	if (n < 0 || b.failed)
		return n < 0 ? -errno : -ENOMEM;
	text = arena_strndup(a, buf_str(&b), b.len);
	if (!text)
		return -ENOMEM;
	for (char *line; (line = strsep(&text, "\n"));) {
		char *path = strchr(line, ' ');
		struct used_file *slot = path ? ARENA_PUSH(a, ret->v, ret->n) : NULL;

		if (!path)
			continue;
		if (!slot)
			return -ENOMEM;
		*path++ = '\0';
		*slot = (struct used_file){ line, path };
	}
	return 0;
}

static const struct used_file *settings_used_find(const struct used_list *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].path, path))
			return &l->v[i];
	return NULL;
}

/* A file that is missing may be made again, by a run too; one whose folder is gone by nobody. */
static bool settings_used_is_gone(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	struct stat st;

	return slash &&
	       snprintf(folder, sizeof(folder), "%.*s/", (int)(slash - path), path) <
		       (int)sizeof(folder) &&
	       lstat(folder, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* Written beside and moved over: a reader sees the old list or the new one. */
static int save(int dir, const struct used_list *l, const char *without,
		const struct used_file *more, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(LIST_MAX);
	CLEANUP(fd) int fd = -1;
	/* The oldest go where there are too many. */
	size_t from = l->n >= LINES_MAX ? l->n - LINES_MAX + 1 : 0;

	for (size_t i = from; i < l->n; i++)
		if (!str_eq(l->v[i].path, without) &&
		    !(l->n >= TIDY_FROM && settings_used_is_gone(l->v[i].path)))
			buf_printf(&b, "%s %s\n", l->v[i].dialect, l->v[i].path);
	if (more)
		buf_printf(&b, "%s %s\n", more->dialect, more->path);
	fd = openat(dir, LIST_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (b.failed)
		return err_set(e, ERR_INTERNAL, EFBIG, "the list of settings in use is full");
	if (fd < 0 || fd_write_all(fd, buf_str(&b), b.len) < 0 ||
	    renameat(dir, LIST_NEW, dir, LIST) < 0)
		return err_sys(e, "cannot write the list of settings in use");
	return 0;
}

static int settings_used_change(const char *path, const char *dialect, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(4 * LIST_MAX);
	CLEANUP(fd) int dir = -1;
	const struct used_file one = { dialect, path };
	struct used_list l = { 0 };
	int r;

	if (!a)
		return err_nomem(e);
	dir = state_open(".", NULL, 0, e);
	if (dir < 0)
		return -e->code;
	r = settings_used_load(dir, a, &l);
	if (r == 0 && !dialect == !settings_used_find(&l, path))
		return 0;
	(void)flock(dir, LOCK_EX);
	l = (struct used_list){ 0 };
	if (r == 0)
		r = settings_used_load(dir, a, &l);
	if (r < 0)
		return err_errno(e, r, "cannot read the list of settings in use");
	return save(dir, &l, path, dialect ? &one : NULL, e);
}

int settings_remember(const char *path, const char *dialect, struct err *e)
{
	return str_has_control(path) ? 0 : settings_used_change(path, dialect, e);
}

int settings_forget(const char *path, struct err *e)
{
	return settings_used_change(path, NULL, e);
}

const char *settings_dialect(struct arena *a, const char *path)
{
	CLEANUP(fd) int dir = state_find(".", NULL, 0);
	struct used_list l = { 0 };
	const struct used_file *u;

	if (dir < 0 || settings_used_load(dir, a, &l) < 0)
		return NULL;
	u = settings_used_find(&l, path);
	return u ? u->dialect : NULL;
}

int settings_used(struct arena *a, const char *const **ret, size_t *n)
{
	CLEANUP(fd) int dir = state_find(".", NULL, 0);
	struct used_list l = { 0 };
	const char **v;
	int r = dir < 0 ? 0 : settings_used_load(dir, a, &l);

	*ret = NULL;
	*n = 0;
	if (r < 0 || !l.n)
		return r;
	v = arena_alloc(a, l.n * sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < l.n; i++)
		v[i] = l.v[i].path;
	*ret = v;
	*n = l.n;
	return 0;
}
