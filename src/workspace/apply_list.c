/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/apply_list.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes/parcel.h"

#define MARK "brig-apply-1"
#define ARENA_MAX ((size_t)512 << 20)

void apply_list_done(struct apply_list *l)
{
	l->arena = arena_free(l->arena);
	l->ops = NULL;
	l->n = 0;
}

static void op_time(struct parcel *p, struct timespec *t)
{
	uint64_t s = (uint64_t)t->tv_sec, ns = (uint64_t)t->tv_nsec;

	parcel_number(p, &s);
	parcel_number(p, &ns);
	p->failed |= ns >= 1000000000;
	t->tv_sec = (time_t)s;
	t->tv_nsec = p->failed ? 0 : (long)ns;
}

static void op_was(struct parcel *p, struct change_was *w)
{
	parcel_number(p, &w->dev);
	parcel_number(p, &w->ino);
	parcel_number(p, &w->mode);
	parcel_number(p, &w->size);
	op_time(p, &w->mtime);
	op_time(p, &w->ctime);
	p->failed |= w->mode > (S_IFMT | 07777);
}

static void op_fields(struct parcel *p, struct apply_op *o)
{
	int what = (int)o->what;

	parcel_text(p, &o->path);
	parcel_word(p, &what, APPLY_WHATS - 1);
	o->what = (enum apply_what)what;
	parcel_number(p, &o->root);
	op_was(p, &o->made);
	op_was(p, &o->was);
	parcel_flag(p, &o->moved);
	parcel_flag(p, &o->origin);
	parcel_flag(p, &o->same_bytes);
}

static void list_fields(struct parcel *p, struct apply_list *l)
{
	parcel_text(p, &l->layer);
	parcel_text(p, &l->workspace);
	parcel_text(p, &l->items);
	parcel_number(p, &l->items_ino);
	parcel_number(p, &l->began);
}

/* A part of a new folder comes behind it, and lies in it. */
static bool op_ok(const struct apply_list *l, size_t i)
{
	const struct apply_op *o = &l->ops[i], *root;

	if (!change_path_ok(o->path) || o->root > i)
		return false;
	root = &l->ops[o->root];
	if (o->what != APPLY_INNER)
		return o->root == i;
	return o->root < i && (root->what == APPLY_ADD || root->what == APPLY_SWAP) &&
	       change_path_below(o->path, root->path) && strcmp(o->path, root->path) != 0;
}

void apply_list_write(const struct apply_list *l, struct buf *out)
{
	struct parcel p = parcel_to(out, MARK);
	struct apply_list head = *l;
	size_t n = l->n;

	list_fields(&p, &head);
	(void)parcel_list(&p, l->ops, &n, sizeof(*l->ops));
	for (size_t i = 0; i < n; i++) {
		struct apply_op o = l->ops[i];

		op_fields(&p, &o);
	}
}

int apply_list_read(const char *data, size_t n, struct apply_list *ret)
{
	struct parcel p = parcel_from(data, n, MARK);
	struct apply_list l = { .arena = arena_new(ARENA_MAX) };

	if (!l.arena)
		return -ENOMEM;
	p.arena = l.arena;
	p.copy = true;
	list_fields(&p, &l);
	l.ops = parcel_list(&p, NULL, &l.n, sizeof(*l.ops));
	for (size_t i = 0; i < l.n && !p.failed; i++) {
		op_fields(&p, &l.ops[i]);
		p.failed = p.failed || !op_ok(&l, i);
	}
	if (!parcel_whole(&p) || l.n > CHANGES_MAX || l.layer[0] != '/' || l.items[0] != '/' ||
	    l.workspace[0] != '/') {
		apply_list_done(&l);
		return -EBADMSG;
	}
	*ret = l;
	return 0;
}

int apply_staged_name(const struct apply_list *l, size_t i, char out[PATH_MAX])
{
	const struct apply_op *o = &l->ops[i];
	const char *rest = o->what == APPLY_INNER ? o->path + strlen(l->ops[o->root].path) : "";

	return snprintf(out, PATH_MAX, "%llu%s", (unsigned long long)o->root, rest) < PATH_MAX
		       ? 0
		       : -ENAMETOOLONG;
}
