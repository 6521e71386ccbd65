/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek.c - places at every multiple of the stride are looked at. A form of n bytes is
 * entered with the last `stride` four-byte groups it has, one of which falls on such a place
 * wherever the form lies; so a form is found in the call that brings its last byte, and no later
 * than that. */
#include "egress/seek.h"

#include <string.h>

#define GRAM 4
#define STRIDE_MAX 64 /* more would only make the table larger */
#define BITS 16
#define SLOTS ((size_t)1 << BITS)

struct entry {
	uint32_t needle, next; /* next: index + 1; 0 ends the chain */
	uint32_t behind;       /* bytes of the form behind the group */
};

struct seek {
	const struct needles *needles;
	size_t stride;
	uint64_t maybe[SLOTS / 64]; /* fits the first cache level; the chains do not */
	uint32_t heads[SLOTS];
	struct entry *entries;
	size_t n;
};

/* Without case, and some more: what differs in bit 5 alone is compared later. */
static inline size_t hash(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return ((v | 0x20202020U) * 2654435761U) >> (32 - BITS);
}

static size_t shortest(const struct needles *n)
{
	size_t min = STRIDE_MAX + GRAM - 1;

	for (size_t i = 0; i < n->n; i++)
		if (n->v[i].v.n < min)
			min = n->v[i].v.n;
	return min;
}

static void enter(struct seek *s, size_t needle)
{
	const struct variant *v = &s->needles->v[needle].v;

	for (size_t behind = 0; behind < s->stride; behind++) {
		size_t h = hash(v->p + v->n - GRAM - behind);

		s->entries[s->n] =
			(struct entry){ (uint32_t)needle, s->heads[h], (uint32_t)behind };
		s->heads[h] = (uint32_t)++s->n;
		s->maybe[h / 64] |= (uint64_t)1 << (h % 64);
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
		enter(s, i);
	*ret = s;
	return 0;
}

struct look {
	const struct seek *s;
	struct egress_text before;
	const char *data;
	ptrdiff_t n;
	seek_fn *fn;
	void *context;
};

static inline bool may_be(const struct seek *s, size_t h)
{
	return s->maybe[h / 64] >> (h % 64) & 1;
}

/* Four bytes with this hash end at `end`. What ended before data was told before. */
static bool follow(const struct look *l, size_t h, ptrdiff_t end)
{
	const struct seek *s = l->s;

	for (uint32_t i = s->heads[h]; i; i = s->entries[i - 1].next) {
		const struct entry *x = &s->entries[i - 1];
		const struct needle *k = &s->needles->v[x->needle];
		ptrdiff_t at = end + (ptrdiff_t)x->behind;

		if (at <= 0 || at > l->n || !needle_at(k, l->before, l->data, at))
			continue;
		if (!l->fn(l->context, k, at))
			return false;
	}
	return true;
}

/* A group that begins before data, `back` bytes of it. */
static bool follow_across(const struct look *l, ptrdiff_t back)
{
	char gram[GRAM];

	for (ptrdiff_t i = 0; i < GRAM; i++)
		gram[i] = i < back ? l->before.p[(ptrdiff_t)l->before.n - back + i]
				   : l->data[i - back];
	return !may_be(l->s, hash(gram)) || follow(l, hash(gram), GRAM - back);
}

bool seek_feed(const struct seek *s, int64_t at, struct egress_text before, const char *data,
	       size_t n, seek_fn *fn, void *context)
{
	const struct look l = { s, before, data, (ptrdiff_t)n, fn, context };
	ptrdiff_t stride = (ptrdiff_t)s->stride, from = -(stride + GRAM - 2);
	ptrdiff_t over = (ptrdiff_t)((at + from) % stride);

	if (!s->needles->n)
		return true;
	from += over > 0 ? stride - over : -over; /* the next multiple, also of negative offsets */
	for (; from < 0; from += stride)
		if (-from <= (ptrdiff_t)before.n && from + GRAM <= l.n && !follow_across(&l, -from))
			return false;
	for (; from + GRAM <= l.n; from += stride) {
		size_t h = hash(data + from);

		if (__builtin_expect(may_be(s, h), 0) && !follow(&l, h, from + GRAM))
			return false;
	}
	return true;
}
