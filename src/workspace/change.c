/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/change.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/bytes/parcel.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define MARK "brig-changes-1"
#define ARENA_MAX ((size_t)512 << 20)

void change_list_done(struct change_list *l)
{
	l->arena = arena_free(l->arena);
	l->v = NULL;
	l->n = 0;
}

struct change_was change_was_of(const struct stat *st)
{
	return (struct change_was){ .dev = st->st_dev,
				    .ino = st->st_ino,
				    .mode = st->st_mode,
				    .size = (uint64_t)st->st_size,
				    .mtime = st->st_mtim,
				    .ctime = st->st_ctim };
}

bool change_was_same(const struct change_was *a, const struct change_was *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->mode == b->mode && a->size == b->size &&
	       a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec;
}

bool change_path_ok(const char *path)
{
	size_t n = strlen(path);

	if (!n || n >= PATH_MAX - 64)
		return false;
	for (const char *at = path;;) {
		size_t len = strcspn(at, "/");

		if (!len || len > NAME_MAX || (len == 1 && at[0] == '.') ||
		    (len == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		if (!at[len])
			return true;
		at += len + 1;
	}
}

bool change_path_below(const char *path, const char *above)
{
	size_t n = strlen(above);

	return !n || (strncmp(path, above, n) == 0 && (!path[n] || path[n] == '/'));
}

const char *change_word(enum change_kind k)
{
	static const char *const words[] = {
		[CHANGE_ADDED] = "added", [CHANGE_CHANGED] = "changed", [CHANGE_MODE] = "mode",
		[CHANGE_TYPE] = "type",   [CHANGE_DELETED] = "deleted", [CHANGE_FOLDER] = "folder",
		[CHANGE_OTHER] = "other",
	};
	static_assert(ARRAY_LEN(words) == CHANGE_KINDS, "one word a kind");

	return words[k];
}

const char *change_type_word(uint64_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "folder";
	case S_IFLNK:
		return "link";
	case S_IFSOCK:
		return "socket";
	case S_IFIFO:
		return "pipe";
	default:
		return "device";
	}
}

const char *change_conflict_text(enum change_conflict c)
{
	static const char *const texts[] = {
		[CONFLICT_NONE] = "",
		[CONFLICT_CHANGED] = "changed in the workspace since the run began",
		[CONFLICT_GONE] = "removed from the workspace since the run began",
		[CONFLICT_BELOW] = "changed below in the workspace since the run began",
		[CONFLICT_ANOTHER] = "replaced in the workspace since the run began",
	};
	static_assert(ARRAY_LEN(texts) == CONFLICTS, "one text each");

	return texts[c];
}

bool change_leads_out(const char *path, const char *link)
{
	long depth = 0;

	if (link[0] == '/')
		return true;
	for (const char *at = path; (at = strchr(at, '/')); at++)
		depth++;
	for (const char *at = link; *at;) {
		size_t len = strcspn(at, "/");

		depth += len == 2 && at[0] == '.' && at[1] == '.' ? -1
			 : !len || (len == 1 && at[0] == '.')     ? 0
								  : 1;
		if (depth < 0)
			return true;
		at += len + (at[len] == '/');
	}
	return false;
}

/* ---- between two processes ---- */

static void change_time(struct parcel *p, struct timespec *t)
{
	uint64_t s = (uint64_t)t->tv_sec, ns = (uint64_t)t->tv_nsec;

	parcel_number(p, &s);
	parcel_number(p, &ns);
	p->failed |= ns >= 1000000000;
	t->tv_sec = (time_t)s;
	t->tv_nsec = p->failed ? 0 : (long)ns;
}

static void was_fields(struct parcel *p, struct change_was *w)
{
	parcel_number(p, &w->dev);
	parcel_number(p, &w->ino);
	parcel_number(p, &w->mode);
	parcel_number(p, &w->size);
	change_time(p, &w->mtime);
	change_time(p, &w->ctime);
	p->failed |= w->mode > (S_IFMT | 07777);
}

static void change_fields(struct parcel *p, struct change *c)
{
	int kind = (int)c->kind, conflict = (int)c->conflict, text = (int)c->text;

	parcel_text(p, &c->path);
	parcel_text(p, &c->link);
	parcel_word(p, &kind, CHANGE_KINDS - 1);
	parcel_word(p, &conflict, CONFLICTS - 1);
	parcel_word(p, &text, CHANGE_TEXTS - 1);
	c->kind = (enum change_kind)kind;
	c->conflict = (enum change_conflict)conflict;
	c->text = (enum change_text)text;
	was_fields(p, &c->now);
	was_fields(p, &c->was);
	parcel_flag(p, &c->more_names);
	parcel_flag(p, &c->origin);
	parcel_flag(p, &c->within);
	parcel_flag(p, &c->git_was);
	parcel_number(p, &c->git);
	parcel_number(p, &c->added);
	parcel_number(p, &c->removed);
}

/* What the fields say must fit together. */
static bool change_ok(const struct change *c)
{
	const bool gone = c->kind == CHANGE_DELETED, made = c->kind == CHANGE_ADDED;
	const uint64_t type = c->now.mode & S_IFMT;

	return change_path_ok(c->path) && c->git <= strlen(c->path) + 1 &&
	       (!c->git || !c->path[c->git - 1] || c->git == 1 || c->path[c->git - 1] == '/') &&
	       strlen(c->link) < PATH_MAX && (gone ? !c->now.mode : c->now.mode != 0) &&
	       (made || c->kind == CHANGE_FOLDER || c->kind == CHANGE_OTHER || c->was.mode) &&
	       (c->kind != CHANGE_FOLDER || type == S_IFDIR) && (!made || type != S_IFDIR) &&
	       (gone || c->kind == CHANGE_OTHER || type == S_IFREG || type == S_IFDIR ||
		type == S_IFLNK) &&
	       (!c->link[0] == (type != S_IFLNK));
}

void change_list_write(const struct change_list *l, struct buf *out)
{
	struct parcel p = parcel_to(out, MARK);
	size_t n = l->n;

	(void)parcel_list(&p, l->v, &n, sizeof(*l->v));
	for (size_t i = 0; i < n; i++) {
		struct change c = l->v[i];

		change_fields(&p, &c);
	}
}

int change_list_read(const char *data, size_t n, struct change_list *ret)
{
	struct parcel p = parcel_from(data, n, MARK);
	struct change_list l = { .arena = arena_new(ARENA_MAX) };

	if (!l.arena)
		return -ENOMEM;
	p.arena = l.arena;
	p.copy = true;
	l.v = parcel_list(&p, NULL, &l.n, sizeof(*l.v));
	for (size_t i = 0; i < l.n && !p.failed; i++) {
		change_fields(&p, &l.v[i]);
		p.failed = p.failed || !change_ok(&l.v[i]);
	}
	if (!parcel_whole(&p) || l.n > CHANGES_MAX) {
		change_list_done(&l);
		return -EBADMSG;
	}
	*ret = l;
	return 0;
}
