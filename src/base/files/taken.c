/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/taken.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/str.h"

#define THING "thing"
#define ABOUT "about"
#define ABOUT_MAX ((size_t)32 << 10)
/* What has no folder of ours around it: then whatever is in it is the command's, an `about` too. */
#define BARE "bare-"
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* ---- taking ---- */

/* What makes a folder a repository, or one's work tree. */
static const struct {
	const char *name, *aside;
} parts[] = { { "HEAD", "HEAD.taken" }, { ".git", "git.taken" } };

/* Git finds no repository in it, for root neither. */
static void fasten(int folder, const char *name)
{
	CLEANUP(fd) int own = -1;
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
	    fchmodat(folder, name, 0700, 0) < 0)
		return;
	own = openat(folder, name, FOLDER);
	if (own < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		(void)renameat2(own, parts[i].name, own, parts[i].aside, RENAME_NOREPLACE);
	(void)fchmod(own, 0);
}

static void loosen(int folder, mode_t mode)
{
	CLEANUP(fd) int own = -1;

	if (fchmodat(folder, THING, 0700, 0) < 0)
		return;
	own = openat(folder, THING, FOLDER);
	if (own < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		(void)renameat2(own, parts[i].aside, own, parts[i].name, RENAME_NOREPLACE);
	(void)fchmod(own, mode & 07777);
}

static void write_about(int folder, const char *from, const char *why, const struct stat *st)
{
	CLEANUP(buf) struct buf text = BUF_INIT(ABOUT_MAX);
	CLEANUP(fd)
	int fd = openat(folder, ABOUT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct json j;

	json_init(&j, &text, false);
	json_object(&j);
	json_kstr(&j, "from", from);
	json_kstr(&j, "why", why);
	json_ku64(&j, "mode", st->st_mode);
	json_ku64(&j, "when", (uint64_t)time(NULL));
	json_object_end(&j);
	if (fd >= 0 && !text.failed)
		(void)fd_write_all(fd, text.data, text.len);
}

/* The disk is full: a rename needs no more of it. */
static int put_bare(int state, int dir, const char *name, const char *id, char *place, size_t n)
{
	size_t above = strlen(place) - strlen(id);
	char as[NAME_MAX + 1];

	(void)unlinkat(state, id, AT_REMOVEDIR);
	(void)snprintf(as, sizeof(as), BARE "%s", id);
	(void)snprintf(place + above, n - above, "%s", as);
	if (renameat(dir, name, state, as) < 0)
		return -errno;
	fasten(state, as);
	return 0;
}

int taken_put(int dir, const char *name, const char *id, const char *from, const char *why,
	      char *place, size_t n)
{
	char path[PATH_MAX];
	struct err e;
	CLEANUP(fd) int state = state_open(TAKEN_FOLDER, path, sizeof(path), &e);
	CLEANUP(fd) int own = -1;
	struct stat st;

	if (state < 0)
		return -e.code;
	(void)snprintf(place, n, "%s/%s", path, id);
	if (mkdirat(state, id, 0700) == 0)
		own = openat(state, id, FOLDER);
	if (own < 0)
		return put_bare(state, dir, name, id, place, n);
	if (renameat(dir, name, own, THING) < 0) {
		int r = -errno;

		(void)unlinkat(state, id, AT_REMOVEDIR);
		return r;
	}
	if (fstatat(own, THING, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	write_about(own, from, why, &st);
	fasten(own, THING);
	return 0;
}

/* ---- looking ---- */

static struct jread *read_about(int folder, const char *id)
{
	CLEANUP(mem) char *text = malloc(ABOUT_MAX);
	bool ours = folder >= 0 && !str_starts(id, BARE);
	ssize_t n = text && ours ? fd_read_file(folder, ABOUT, text, ABOUT_MAX) : -1;
	struct jread *v = NULL;
	struct err e;

	return n > 0 && jread_parse(text, (size_t)n, &v, &e) == 0 ? v : NULL;
}

static int taken_look_at(int state, const char *id, taken_look *look, void *arg)
{
	CLEANUP(fd) int own = openat(state, id, FOLDER);
	CLEANUP(jread) struct jread *about = read_about(own, id);
	struct taken_row r = { .id = id,
			       .folder = about ? own : state,
			       .name = about ? THING : id };
	struct stat st;

	if (fstatat(r.folder, r.name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		r.mode = st.st_mode;
	r.from = jread_str(about, "from");
	r.why = jread_str(about, "why");
	r.when = about ? jread_int(about, "when", 0) : st.st_ctim.tv_sec;
	return look(arg, &r);
}

struct taken_id {
	int64_t when;
	char id[NAME_MAX + 1];
};

struct taken_ids {
	struct taken_id *v;
	size_t n, room;
};

static int add_id(void *arg, const struct taken_row *r)
{
	struct taken_ids *l = arg;
	size_t room = l->room ? 2 * l->room : 16;

	if (l->n == l->room) {
		struct taken_id *v = reallocarray(l->v, room, sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->room = room;
	}
	l->v[l->n].when = r->when;
	(void)snprintf(l->v[l->n++].id, sizeof(l->v->id), "%s", r->id);
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct taken_id *x = a, *y = b;

	return x->when != y->when ? (x->when > y->when) - (x->when < y->when)
				  : strcmp(x->id, y->id);
}

int taken_each(taken_look *look, void *arg, struct err *e)
{
	CLEANUP(fd) int state = state_find(TAKEN_FOLDER, NULL, 0);
	struct taken_ids all = { 0 };
	const struct fd_entry *d;
	struct folder f;
	int r = 0;

	if (state < 0)
		return 0;
	folder_begin(&f, state);
	while (r == 0 && (d = folder_next(&f)))
		r = taken_look_at(state, d->name, add_id, &all);
	if (r < 0)
		(void)err_nomem(e);
	else if (f.error)
		r = err_errno(e, f.error, "cannot read the quarantine");
	if (all.n)
		qsort(all.v, all.n, sizeof(*all.v), by_time);
	for (size_t i = 0; r == 0 && i < all.n; i++)
		r = taken_look_at(state, all.v[i].id, look, arg);
	free(all.v);
	return r;
}

/* ---- its end ---- */

static int none(const char *id, struct err *e)
{
	return err_refuse(e, ERR_USAGE, ENOENT, "brig quarantine lists what there is",
			  "there is no '%.80s' in quarantine", id);
}

static bool is_name(const char *id)
{
	return *id && *id != '.' && !strchr(id, '/') && strlen(id) < NAME_MAX;
}

static int put_back(int own, const char *from, const char *id, mode_t mode, struct err *e)
{
	const char *slash = strrchr(from, '/');
	char folder[PATH_MAX];
	CLEANUP(fd) int dir = -1;

	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - from), from);
	dir = fd_open_nolinks(AT_FDCWD, *folder ? folder : "/", O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0) {
		(void)err_errno(e, dir, "cannot open '%.200s', where it was", folder);
		return err_hint(e, "make that folder again, by no link");
	}
	if (S_ISDIR(mode)) /* it is moved by its own folder's entry: the owner must be let in */
		loosen(own, mode);
	if (renameat2(own, THING, dir, slash + 1, RENAME_NOREPLACE) == 0)
		return 0;
	(void)err_sys(e, "cannot put '%.200s' back", from);
	if (e->code == EEXIST)
		(void)err_hint(e,
			       "something is there: move it away, then brig quarantine restore "
			       "%.60s",
			       id);
	return -e->code;
}

int taken_restore(const char *id, struct err *e)
{
	CLEANUP(fd) int state = state_find(TAKEN_FOLDER, NULL, 0);
	CLEANUP(fd) int own = state >= 0 && is_name(id) ? openat(state, id, FOLDER) : -1;
	CLEANUP(jread) struct jread *about = read_about(own, id);
	const char *from = jread_str(about, "from");
	struct stat st;
	mode_t mode = (mode_t)jread_int(about, "mode", 0);

	if (state < 0 || !is_name(id) || fstatat(state, id, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return none(id, e);
	if (!from || *from != '/')
		return err_refuse(e, ERR_USAGE, EINVAL, "move it back by hand",
				  "where '%.80s' was is not known", id);
	if (put_back(own, from, id, mode, e) < 0) {
		fasten(own, THING);
		return -e->code;
	}
	(void)unlinkat(own, ABOUT, 0);
	(void)unlinkat(state, id, AT_REMOVEDIR);
	return 0;
}

int taken_clear(const char *id, struct err *e)
{
	CLEANUP(fd) int state = state_find(TAKEN_FOLDER, NULL, 0);
	struct stat st;
	int r;

	if (state < 0 || !is_name(id) || fstatat(state, id, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return none(id, e);
	r = S_ISDIR(st.st_mode) ? tree_remove(state, id) : unlinkat(state, id, 0) < 0 ? -errno : 0;
	return r < 0 ? err_errno(e, r, "cannot remove '%.80s'", id) : 0;
}
