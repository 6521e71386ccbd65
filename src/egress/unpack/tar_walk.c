/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/tar/tar.h"
#include "egress/unpack/archive_walk.h"

#define PAX_MOST 16384

enum tar_walk_state { TAR_WALK_HEAD, TAR_WALK_DATA, TAR_WALK_SAYS, TAR_WALK_PADS, TAR_WALK_OVER };

struct tar_walk {
	const struct members_ops *ops;
	void *arg;
	struct codec_pool *pool;
	enum tar_walk_state state;
	char block[TAR_BLOCK], says[PAX_MOST];
	size_t have;
	uint64_t left, pads;
	bool sized, empty; /* the next one's size was said; the last block was zeros */
	uint64_t size;
	struct tar_entry entry;
};

struct tar_walk *tar_walk_new(struct codec_pool *pool, const struct members_ops *ops, void *arg)
{
	struct tar_walk *t;

	if (sizeof(*t) > pool->most - pool->used)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (t) {
		t->ops = ops;
		t->arg = arg;
	}
	return t;
}

struct tar_walk *tar_walk_free(struct tar_walk *t)
{
	free(t);
	return NULL;
}

bool tar_walk_whole(const struct tar_walk *t)
{
	return t->state == TAR_WALK_OVER || (t->state == TAR_WALK_HEAD && !t->have);
}

static bool tar_walk_has_data(enum tar_type type)
{
	return type == TAR_FILE || type >= TAR_HARDLINK;
}

/* Links and folders have none, whatever their size says; some readers go by that all the same. */
static int tar_walk_head(struct tar_walk *t)
{
	struct tar_entry *h = &t->entry;
	int r = tar_parse(t->block, h);

	if (r < 0)
		return r;
	if (h->type == TAR_END) {
		t->state = t->empty ? TAR_WALK_OVER : TAR_WALK_HEAD;
		t->empty = true;
		return 0;
	}
	t->empty = false;
	if (h->type == TAR_PAX || h->type == TAR_GLOBAL || h->type == TAR_LONGNAME ||
	    h->type == TAR_LONGLINK) {
		t->left = h->size;
		t->pads = -h->size % TAR_BLOCK;
		t->state = TAR_WALK_SAYS;
		if (h->type == TAR_PAX && h->size > PAX_MOST)
			t->ops->unreadable(t->arg, UNREADABLE_BROKEN);
		return 0;
	}
	t->left = t->sized ? t->size : h->size;
	t->sized = false;
	t->pads = -t->left % TAR_BLOCK;
	if (!tar_walk_has_data(h->type)) {
		if (t->left)
			t->ops->unreadable(t->arg, UNREADABLE_BROKEN);
		t->left = t->pads = 0;
		return 0;
	}
	t->state = TAR_WALK_DATA;
	return t->ops->begins(t->arg, false);
}

static int tar_walk_said(struct tar_walk *t)
{
	struct tar_entry next = { 0 };
	bool sized = false;

	if (t->entry.type == TAR_PAX && t->entry.size <= PAX_MOST &&
	    tar_parse_pax(t->says, (size_t)t->entry.size, &next, &sized) < 0)
		t->ops->unreadable(t->arg, UNREADABLE_BROKEN);
	if (sized) {
		t->sized = true;
		t->size = next.size;
	}
	return 0;
}

/* So much of what is left; at its end the padding. */
static int tar_walk_some(struct tar_walk *t, const char *p, size_t n, size_t *took)
{
	size_t k = t->left < n ? (size_t)t->left : n;
	int r = 0;

	if (t->state == TAR_WALK_PADS) {
		k = t->pads < n ? (size_t)t->pads : n;
		t->pads -= k;
		if (!t->pads)
			t->state = TAR_WALK_HEAD;
		*took = k;
		return 0;
	}
	if (t->state == TAR_WALK_DATA) {
		r = k ? t->ops->data(t->arg, p, k) : 0;
	} else if (t->entry.size <= PAX_MOST) {
		memcpy(t->says + (t->entry.size - t->left), p, k);
	}
	t->left -= k;
	*took = k;
	if (r < 0 || t->left)
		return r;
	r = t->state == TAR_WALK_DATA ? t->ops->ends(t->arg) : tar_walk_said(t);
	t->state = t->pads ? TAR_WALK_PADS : TAR_WALK_HEAD;
	return r;
}

int tar_walk_feed(struct tar_walk *t, const char *p, size_t n, bool *over, size_t *left)
{
	int r = 0;

	while (r == 0 && t->state != TAR_WALK_OVER &&
	       (n || (t->state != TAR_WALK_HEAD && !t->left && !t->pads))) {
		size_t took = 0;

		if (t->state != TAR_WALK_HEAD) {
			r = tar_walk_some(t, p, n, &took);
		} else {
			took = TAR_BLOCK - t->have < n ? TAR_BLOCK - t->have : n;
			memcpy(t->block + t->have, p, took);
			t->have += took;
			if (t->have == TAR_BLOCK) {
				t->have = 0;
				r = tar_walk_head(t);
			}
		}
		p += took;
		n -= took;
		if (r == 0)
			r = t->ops->paced(t->arg);
	}
	*over = t->state == TAR_WALK_OVER;
	*left = n;
	return r;
}
