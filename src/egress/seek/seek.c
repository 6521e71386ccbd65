/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek/seek.c - places at every multiple of the stride are looked at. A form is entered with
 * one group of bytes for each way it can lie to the stride, so wherever it lies one of its groups
 * falls on such a place, and it is found in the call that brings its last byte.
 *
 * How long a look takes must tell nothing of the forms to whoever can have a text of their choice
 * looked at and measure. A group leads to one row. Of the row one entry is tried, always: the one
 * with the group's tag, or the first. An entry is a keyed sum of the form's last bytes, as many as
 * SECRET_SHOWS characters can have, all of a form that is shorter; as many are read and summed
 * whatever the entry is. So the work at a place is the same for every text, also where a group is
 * right, and the only branch is taken where all those bytes stand. They are always the same bytes
 * of a form: who knows some of them cannot find the next one by it. */
#include "egress/seek/seek.h"

#include "egress/seek/seek_table.h"

#define BATCH 16 /* places looked at together, so that they do not wait for one another */
#define NEAR 512 /* places near an end of the text, in a copy */
#define ENDS 512

static_assert(ENDS >= 2 * (SEEK_BEHIND + 1), "what two places can lead to differs");

/* An end that was told of: two places may lead to the same. */
struct seek_end {
	uint64_t feed;
	ptrdiff_t to;
};

struct seek {
	struct seek_table table;
	struct seek_end told[ENDS];
	uint64_t feed, work;
};

/* --- making --- */

int seek_new(struct arena *a, const struct needles *n, struct seek **ret, struct err *e)
{
	struct seek *s = arena_alloc(a, sizeof(*s));
	struct seek_table *t;

	if (!s)
		return err_nomem(e);
	*ret = s;
	t = &s->table;
	for (size_t i = 0; i < n->n; i++) {
		/* NOLINTNEXTLINE(bugprone-sizeof-expression): it is an array of pointers */
		const struct needle **slot = ARENA_PUSH(a, t->forms, t->n);

		if (!slot)
			return err_nomem(e);
		*slot = &n->v[i];
	}
	return t->n ? seek_table_fill(a, t, e) : 0;
}

uint64_t seek_work(const struct seek *s)
{
	return s->work;
}

/* --- places --- */

static SEEK_INLINE unsigned seek_is_there(const struct seek_table *t, const struct seek_row *r,
					  uint64_t m, const char *end)
{
	unsigned k = seek_slot(m), meta = r->meta[k];
	const char *to = end + SEEK_ENDS(meta);
	uint32_t sum = seek_sum(t->key, to - SEEK_LENGTH(meta), to);

	return (sum == r->sum[k]) & (m != 0);
}

/* Does an entry's form stand at one of BATCH places, the first of which ends at p? */
static SEEK_INLINE unsigned any_of(const struct seek_table *t, const char *p, ptrdiff_t stride,
				   unsigned most)
{
	const struct seek_row *const rows = t->rows;
	const char *to[BATCH], *from[BATCH];
	uint64_t h[BATCH];
	uint32_t want[BATCH];
	unsigned any = 0;

	for (int i = 0; i < BATCH; i++) {
		h[i] = seek_hash(t, p + i * stride);
		__builtin_prefetch(&rows[h[i] >> t->shift]);
	}
	for (unsigned nth = 0; nth < most; nth++) {
		for (int i = 0; i < BATCH; i++) {
			const struct seek_row *r = &rows[h[i] >> t->shift];
			uint64_t m = seek_slots(r, SEEK_TAG(h[i]));
			unsigned k, meta;

			for (unsigned j = 0; j < nth; j++)
				m &= m - 1;
			k = seek_slot(m);
			meta = r->meta[k];
			to[i] = p + i * stride + SEEK_ENDS(meta);
			from[i] = to[i] - SEEK_LENGTH(meta);
			want[i] = r->sum[k];
		}
		for (int i = 0; i < BATCH; i++)
			any |= (unsigned)(seek_sum(t->key, from[i], to[i]) == want[i]);
	}
	return any;
}

/* The next place from `end` on where an entry's bytes stand; behind `stop`: there is none. */
static SEEK_INLINE ptrdiff_t walk_as(const struct seek_table *t, const char *p, ptrdiff_t end,
				     ptrdiff_t stop, unsigned most)
{
	const struct seek_table local = *t; /* in registers */
	const ptrdiff_t stride = (ptrdiff_t)t->stride, step = BATCH * stride;

	for (; end + step - stride <= stop; end += step)
		if (__builtin_expect(any_of(&local, p + end, stride, most), 0))
			break;
	for (; end <= stop; end += stride) {
		uint64_t h = seek_hash(t, p + end), m;
		const struct seek_row *r = &t->rows[h >> t->shift];
		unsigned any = 0;

		m = seek_slots(r, SEEK_TAG(h));
		for (unsigned i = 0; i < most; i++, m &= m - 1)
			any |= seek_is_there(t, r, m, p + end);
		if (__builtin_expect(any, 0))
			break;
	}
	return end;
}

/* With the numbers known beforehand it is faster. */
static __attribute__((noinline)) ptrdiff_t walk(const struct seek_table *t, const char *p,
						ptrdiff_t end, ptrdiff_t stop)
{
	return t->most == 1 ? walk_as(t, p, end, stop, 1) : walk_as(t, p, end, stop, t->most);
}

/* --- ends --- */

/* The forms that end in from + 1..to of the text. */
struct seek_call {
	struct seek *s;
	const struct seek_text *t;
	ptrdiff_t from, to;
	seek_fn *fn;
	void *context;
};

/* The n bytes before `to`, wherever they lie. */
static const char *in_one_piece(const struct seek_text *t, ptrdiff_t to, size_t n, char *room)
{
	ptrdiff_t from = to - (ptrdiff_t)n;
	size_t old = from < 0 ? (size_t)-from : 0, part = old < n ? old : n;

	if (!old)
		return t->data + from;
	memcpy(room, t->before.p + t->before.n - old, part);
	if (part < n)
		memcpy(room + part, t->data, n - part);
	return room;
}

static bool equals(const struct seek_call *l, const struct needle *x, ptrdiff_t to)
{
	const struct seek_text *t = l->t;
	char room[SECRET_MAX * SECRET_GROWS];
	const char *p;

	if ((ptrdiff_t)x->v.n > to + (ptrdiff_t)t->before.n)
		return false;
	/* Most are not meant. */
	p = in_one_piece(t, to, 8, room);
	if (seek_load(p) != seek_load(x->v.p + x->v.n - 8))
		return false;
	l->s->work += x->v.n;
	return needle_is(x, in_one_piece(t, to, x->v.n, room), t->caseless);
}

/* What an entry sums stands here: whose is it? */
static bool tell_of(const struct seek_call *l, ptrdiff_t to)
{
	const struct seek_table *t = &l->s->table;

	l->s->work += t->n;
	for (size_t k = 0; k < t->n; k++)
		if (equals(l, t->forms[k], to) && !l->fn(l->context, t->forms[k], to))
			return false;
	return true;
}

/* p: where offset 0 of the data would be. */
static bool seek_follow(const struct seek_call *l, const char *p, ptrdiff_t end)
{
	const struct seek_table *t = &l->s->table;
	uint64_t h = seek_hash(t, p + end);
	const struct seek_row *r = &t->rows[h >> t->shift];

	for (uint64_t m = seek_slots(r, SEEK_TAG(h)); m; m &= m - 1) {
		ptrdiff_t to = end + SEEK_ENDS(r->meta[seek_slot(m)]);
		struct seek_end *told = &l->s->told[to & (ENDS - 1)];

		if (to <= l->from || to > l->to || !seek_is_there(t, r, m, p + end) ||
		    (told->feed == l->s->feed && told->to == to))
			continue;
		*told = (struct seek_end){ l->s->feed, to };
		if (!tell_of(l, to))
			return false;
	}
	return true;
}

/* --- a text --- */

/* All places whose groups end in from..stop. */
static bool look_at_seek(const struct seek_call *l, const char *p, ptrdiff_t from, ptrdiff_t stop)
{
	ptrdiff_t stride = (ptrdiff_t)l->s->table.stride, end = from;
	ptrdiff_t over = (ptrdiff_t)((l->t->at + from) % stride);

	end += over > 0 ? stride - over : -over; /* the next multiple, also of negative offsets */
	while (end <= stop) {
		ptrdiff_t first = end;

		end = walk(&l->s->table, p, end, stop);
		l->s->work += (size_t)((end - first) / stride + (end <= stop));
		if (end <= stop && !seek_follow(l, p, end))
			return false;
		end += stride;
	}
	return true;
}

/* The same for places near the ends of the text, in a copy with zeros around it, which no form
 * has. */
static bool look_near(const struct seek_call *l, ptrdiff_t from, ptrdiff_t stop)
{
	char room[SEEK_SPAN + NEAR + SEEK_BEHIND];
	const struct seek_text *t = l->t;
	ptrdiff_t low = from - (ptrdiff_t)SEEK_SPAN, high = stop + SEEK_BEHIND;
	ptrdiff_t a = low, z = high, n = (ptrdiff_t)t->n, before = (ptrdiff_t)t->before.n;

	a = a < -before ? -before : a;
	z = z > n ? n : z;
	if (a >= z)
		return true;
	memset(room, 0, (size_t)(a - low));
	if (a < 0)
		memcpy(room + (a - low), t->before.p + before + a, (size_t)((z < 0 ? z : 0) - a));
	if (z > 0)
		memcpy(room + ((a > 0 ? a : 0) - low), t->data + (a > 0 ? a : 0),
		       (size_t)(z - (a > 0 ? a : 0)));
	memset(room + (z - low), 0, (size_t)(high - z));
	/* Places are counted from the text's beginning, which the copy need not have. */
	return look_at_seek(l, (const char *)((uintptr_t)room - (uintptr_t)low), from, stop);
}

static bool seek_look_at(struct seek_call l)
{
	const struct seek_table *t = &l.s->table;
	ptrdiff_t low = (ptrdiff_t)SEEK_SPAN, high = (ptrdiff_t)(l.t->n) - (ptrdiff_t)t->behind;
	ptrdiff_t from = l.from + 1 - (ptrdiff_t)t->behind, last;

	if (!t->n || !l.t->n)
		return true;
	for (; from <= l.to; from = last + 1) {
		bool inside = from >= low && from <= high;

		last = inside ? high : from + NEAR - 1;
		if (from < low && low <= high && last >= low)
			last = low - 1;
		last = last < l.to ? last : l.to;
		if (!(inside ? look_at_seek(&l, l.t->data, from, last) : look_near(&l, from, last)))
			return false;
	}
	return true;
}

bool seek_part(struct seek *s, const struct seek_text *t, ptrdiff_t from, ptrdiff_t to, seek_fn *fn,
	       void *context)
{
	s->feed++;
	return seek_look_at((struct seek_call){ s, t, from, to, fn, context });
}

bool seek_feed(struct seek *s, const struct seek_text *t, seek_fn *fn, void *context)
{
	return seek_part(s, t, 0, (ptrdiff_t)t->n, fn, context);
}
