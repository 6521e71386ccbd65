/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/seek.c - places at every multiple of the stride are looked at. A form of n bytes is
 * entered with the last `stride` twelve-byte groups it has, one of which falls on such a place
 * wherever the form lies; so a form is found in the call that brings its last byte, and no later
 * than that.
 *
 * How long a look takes must tell nothing of the forms to whoever can have a text of their choice
 * looked at and measure: every place costs the same, a fixed number of comparisons of sixteen
 * bytes, whether its group is one of a form's or not. Only where the last sixteen bytes of a form
 * stand, all of them, is there more to do. */
#include "egress/scan/seek.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define GRAM 12
#define TAIL 16
#define STRIDE_MAX 32 /* more would only make the table larger */
#define BITS 14
#define FEW 4 /* entries of a slot; more are rare */
#define SLOTS ((size_t)1 << BITS)
#define CASE 0x2020202020202020ULL

static_assert(SECRET_MIN >= TAIL, "every form has as many bytes");

/* Without case: what differs in bit 5 alone is compared later. */
struct seek_entry {
	uint64_t tail[2]; /* the form's last bytes */
	uint32_t behind;  /* of them, behind the group */
	uint32_t slot;
};

struct seek {
	const struct needles *needles;
	size_t stride;
	size_t most; /* entries of a slot; so many are compared at every place */
	struct {
		uint32_t first, last;
	} slots[SLOTS];
	struct seek_entry *entries; /* by slot; the first equals nothing */
	size_t n;
};

static inline uint64_t load(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v | CASE;
}

static inline size_t hash(const char *p)
{
	uint64_t h = load(p) ^ load(p + GRAM - 8) * 0xff51afd7ed558ccdULL;

	return (size_t)((h * 0x9e3779b97f4a7c15ULL) >> (64 - BITS));
}

/* --- making --- */

static size_t shortest(const struct needles *n)
{
	size_t min = STRIDE_MAX + GRAM - 1;

	for (size_t i = 0; i < n->n; i++)
		if (n->v[i].v.n < min)
			min = n->v[i].v.n;
	return min;
}

static int by_slot(const void *a, const void *b)
{
	const struct seek_entry *x = a, *y = b;

	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	return memcmp(x, y, offsetof(struct seek_entry, slot));
}

static void enter(struct seek *s, const struct variant *v)
{
	const char *end = v->p + v->n;

	for (size_t behind = 0; behind < s->stride; behind++)
		s->entries[s->n++] =
			(struct seek_entry){ .tail = { load(end - TAIL), load(end - TAIL / 2) },
					.behind = (uint32_t)behind,
					.slot = (uint32_t)hash(end - GRAM - behind) };
}

/* Forms that end alike are one entry. */
static void drop_twins(struct seek *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		if (!n || by_slot(&s->entries[n - 1], &s->entries[i]) != 0)
			s->entries[n++] = s->entries[i];
	explicit_bzero(&s->entries[n], (s->n - n) * sizeof(*s->entries));
	s->n = n;
}

static void fill_slots(struct seek *s)
{
	s->most = FEW;
	for (size_t i = 1; i < s->n; i++) {
		uint32_t slot = s->entries[i].slot;

		if (!s->slots[slot].first)
			s->slots[slot].first = (uint32_t)i;
		s->slots[slot].last = (uint32_t)i;
		if (i - s->slots[slot].first >= s->most)
			s->most = i - s->slots[slot].first + 1;
	}
}

int seek_new(struct arena *a, const struct needles *n, struct seek **ret, struct err *e)
{
	struct seek *s = arena_alloc(a, sizeof(*s));

	if (!s)
		return err_nomem(e);
	s->needles = n;
	s->stride = shortest(n) - GRAM + 1;
	s->entries = arena_alloc(a, (n->n * s->stride + 1) * sizeof(*s->entries));
	if (!s->entries)
		return err_nomem(e);
	for (size_t i = 0; i < n->n; i++)
		enter(s, &n->v[i].v);
	qsort(s->entries, s->n, sizeof(*s->entries), by_slot);
	drop_twins(s);
	/* The first place is for what equals nothing: no byte is without bit 5. */
	memmove(&s->entries[1], s->entries, s->n++ * sizeof(*s->entries));
	s->entries[0] = (struct seek_entry){ 0 };
	fill_slots(s);
	*ret = s;
	return 0;
}

/* --- looking --- */

struct seek_look {
	const struct seek *s;
	struct egress_text before;
	const char *data;
	ptrdiff_t n;
	seek_fn *fn;
	void *context;
};

static inline bool ends_like(const struct seek_entry *x, const char *p)
{
	const char *end = p + GRAM + x->behind;

	return !((load(end - TAIL) ^ x->tail[0]) | (load(end - TAIL / 2) ^ x->tail[1]));
}

/* Does a form end near the group at p? TAIL - GRAM bytes in front of it and stride - 1 behind it
 * can be read. */
static inline bool probe(const struct seek *s, const char *p, size_t most)
{
	size_t slot = hash(p), at = s->slots[slot].first, last = s->slots[slot].last;
	bool any = false;

	for (size_t i = 0; i < most; i++) {
		any |= ends_like(&s->entries[at], p);
		at += at < last;
	}
	return any;
}

/* The same sixteen bytes: which forms is it? What ended before data was told before. */
static bool follow(const struct seek_look *l, const char *p, ptrdiff_t end)
{
	const struct seek *s = l->s;
	size_t slot = hash(p);

	for (size_t i = s->slots[slot].first; i <= s->slots[slot].last; i++) {
		const struct seek_entry *x = &s->entries[i];
		ptrdiff_t at = end + (ptrdiff_t)x->behind;

		if (!ends_like(x, p))
			continue;
		for (size_t k = 0; at > 0 && at <= l->n && k < s->needles->n; k++)
			if (needle_at(&s->needles->v[k], l->before, l->data, at) &&
			    !l->fn(l->context, &s->needles->v[k], at))
				return false;
	}
	return true;
}

/* A group near either end of data: what is not there is zeros, which no form has. */
static bool look_at_edge(const struct seek_look *l, ptrdiff_t from)
{
	char around[TAIL + STRIDE_MAX + GRAM] = { 0 };
	ptrdiff_t first = from - (TAIL - GRAM), stop = from + GRAM + (ptrdiff_t)l->s->stride - 1;
	const char *p = around + TAIL - GRAM;

	if (stop > l->n)
		stop = l->n;
	for (ptrdiff_t i = first; i < stop; i++)
		if (i >= 0)
			around[i - first] = l->data[i];
		else if (-i <= (ptrdiff_t)l->before.n)
			around[i - first] = l->before.p[(ptrdiff_t)l->before.n + i];
	return !probe(l->s, p, l->s->most) || follow(l, p, from + GRAM);
}

bool seek_feed(const struct seek *s, int64_t at, struct egress_text before, const char *data,
	       size_t n, seek_fn *fn, void *context)
{
	const struct seek_look l = { s, before, data, (ptrdiff_t)n, fn, context };
	ptrdiff_t stride = (ptrdiff_t)s->stride, from = -(stride + GRAM - 2);
	ptrdiff_t over = (ptrdiff_t)((at + from) % stride);

	if (!s->needles->n)
		return true;
	from += over > 0 ? stride - over : -over; /* the next multiple, also of negative offsets */
	for (; from + GRAM <= l.n && from < TAIL - GRAM; from += stride)
		if (-from <= (ptrdiff_t)before.n && !look_at_edge(&l, from))
			return false;
	for (; from + GRAM + stride - 1 <= l.n; from += stride) {
		/* With the number known beforehand it is twice as fast. */
		bool near = s->most == FEW ? probe(s, data + from, FEW)
					   : probe(s, data + from, s->most);

		if (__builtin_expect(near, 0) && !follow(&l, data + from, from + GRAM))
			return false;
	}
	for (; from + GRAM <= l.n; from += stride)
		if (!look_at_edge(&l, from))
			return false;
	return true;
}
