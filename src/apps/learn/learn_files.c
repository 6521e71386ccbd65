/* SPDX-License-Identifier: Apache-2.0 */
/* apps/learn/learn_files.c - of what the run was granted, the parts that it used: files, and
 * folders in place of many of them. */
#include <stdio.h>
#include <string.h>

#include "apps/learn/learn_text.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

struct learn_use {
	char *path;
	bool changed;
	uint64_t count, first_us;
};

struct learn_uses {
	struct learn_use *v;
	size_t n;
};

static const char *longest(const char *path, const char *place, const char *best)
{
	return seen_below(path, place) && (!best || strlen(place) > strlen(best)) ? place : best;
}

/* The place that a file is of, of all that were granted. */
static const char *place_of(const struct spec *s, const char *path)
{
	const char *best = NULL;

	for (size_t i = 0; i < s->read.n; i++)
		best = longest(path, s->read.v[i], best);
	for (size_t i = 0; i < s->write.n; i++)
		best = longest(path, s->write.v[i], best);
	for (size_t i = 0; i < s->mounts.n; i++)
		best = longest(path, s->mounts.v[i].target, best);
	return best;
}

static void to_parent(char *path, const char *place)
{
	char *slash = strrchr(path, '/');

	if (strlen(path) > strlen(place) && slash)
		slash[slash == path] = '\0';
}

static void drop(struct learn_uses *u, size_t i)
{
	memmove(&u->v[i], &u->v[i + 1], (u->n - i - 1) * sizeof(*u->v));
	u->n--;
}

static void join(struct learn_use *to, const struct learn_use *from)
{
	to->changed |= from->changed;
	to->count += from->count;
	if (from->first_us < to->first_us)
		to->first_us = from->first_us;
}

static void merge_same(struct learn_uses *u)
{
	for (size_t i = 0; i < u->n; i++)
		for (size_t k = i + 1; k < u->n;)
			if (str_eq(u->v[i].path, u->v[k].path)) {
				join(&u->v[i], &u->v[k]);
				drop(u, k);
			} else {
				k++;
			}
}

/* A folder has what lies below it; what is only read lies also below one that is changed. */
static void drop_covered(struct learn_uses *u)
{
	for (size_t i = 0; i < u->n;) {
		bool covered = false;

		for (size_t k = 0; k < u->n && !covered; k++) {
			covered = k != i && seen_below(u->v[i].path, u->v[k].path) &&
				  (u->v[k].changed || !u->v[i].changed);
			if (covered) {
				bool was = u->v[k].changed;

				join(&u->v[k], &u->v[i]);
				u->v[k].changed = was;
			}
		}
		if (covered)
			drop(u, i);
		else
			i++;
	}
}

static size_t depth(const char *path)
{
	size_t n = 0;

	for (; *path; path++)
		n += *path == '/' && path[1];
	return n;
}

/* The deepest become their folders, until there are few. */
static void fold(struct learn_uses *u, const char *place)
{
	while (u->n > LEARN_FILES) {
		size_t deepest = depth(place);

		for (size_t i = 0; i < u->n; i++)
			if (depth(u->v[i].path) > deepest)
				deepest = depth(u->v[i].path);
		if (deepest == depth(place))
			return;
		for (size_t i = 0; i < u->n; i++)
			if (depth(u->v[i].path) == deepest)
				to_parent(u->v[i].path, place);
		merge_same(u);
	}
}

static int gather(struct learn_text *t, const char *place, struct learn_uses *u, struct err *e)
{
	for (size_t i = 0; i < t->seen->n_files; i++) {
		const struct seen_file *f = &t->seen->files[i];
		const char *at = place_of(t->run, f->path);
		struct learn_use *slot;

		if (!at || !str_eq(at, place))
			continue;
		slot = ARENA_PUSH(t->arena, u->v, u->n);
		if (!slot)
			return err_nomem(e);
		*slot = (struct learn_use){ arena_strdup(t->arena, f->path), f->changed, f->count,
					    f->first_us };
		if (!slot->path)
			return err_nomem(e);
		/* A name with a line break in it is nobody's to read: its folder, which has it. */
		while (str_has_control(slot->path) && strlen(slot->path) > strlen(place))
			to_parent(slot->path, place);
	}
	return 0;
}

static int add_place(struct learn_text *t, const char *place, bool writable, struct err *e)
{
	struct learn_uses u = { 0 };

	if (gather(t, place, &u, e) < 0)
		return -e->code;
	/* What found no room could be anywhere in it. */
	for (size_t i = 0; t->seen->more_files && i < u.n; i++)
		while (strlen(u.v[i].path) > strlen(place))
			to_parent(u.v[i].path, place);
	merge_same(&u);
	drop_covered(&u);
	fold(&u, place);
	drop_covered(&u);
	for (size_t i = 0; i < u.n; i++)
		if (learn_line(t, writable && u.v[i].changed ? &t->write : &t->read, u.v[i].path,
			       u.v[i].count, u.v[i].first_us, e) < 0)
			return -e->code;
	return 0;
}

/* At another place than its own a tree stays whole; it is written to or not. */
static int add_mount(struct learn_text *t, const struct mount_spec *m, struct err *e)
{
	struct learn_use all = { .first_us = UINT64_MAX };
	const char *text;

	for (size_t i = 0; i < t->seen->n_files; i++) {
		const struct seen_file *f = &t->seen->files[i];
		const struct learn_use one = { NULL, f->changed, f->count, f->first_us };
		const char *at = place_of(t->run, f->path);

		if (at && str_eq(at, m->target))
			join(&all, &one);
	}
	if (!all.count)
		return 0;
	text = arena_printf(t->arena, "%s:%s%s", m->source, m->target,
			    m->writable && all.changed ? ":rw" : "");
	return text ? learn_line(t, &t->mounts, text, all.count, all.first_us, e) : err_nomem(e);
}

/* As they stand. */
static int add_earlier_files(struct learn_text *t, const struct spec *s, struct err *e)
{
	for (size_t i = 0; s && i < s->read.n; i++)
		if (learn_line(t, &t->read, s->read.v[i], 0, 0, e) < 0)
			return -e->code;
	for (size_t i = 0; s && i < s->write.n; i++)
		if (learn_line(t, &t->write, s->write.v[i], 0, 0, e) < 0)
			return -e->code;
	for (size_t i = 0; s && i < s->mounts.n; i++) {
		const struct mount_spec *m = &s->mounts.v[i];
		const char *text = arena_printf(t->arena, "%s:%s%s", m->source, m->target,
						m->writable ? ":rw" : "");

		if (!text)
			return err_nomem(e);
		if (learn_line(t, &t->mounts, text, 0, 0, e) < 0)
			return -e->code;
	}
	return 0;
}

int learn_files(struct learn_text *t, struct err *e)
{
	const struct spec *s = t->run;

	if (add_earlier_files(t, t->add, e) < 0)
		return -e->code;
	if (t->seen->blind) /* nobody knows what it used of them */
		return add_earlier_files(t, s, e);
	for (size_t i = 0; i < s->read.n; i++)
		if (add_place(t, s->read.v[i], false, e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->write.n; i++)
		if (add_place(t, s->write.v[i], true, e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->mounts.n; i++)
		if (add_mount(t, &s->mounts.v[i], e) < 0)
			return -e->code;
	return 0;
}
