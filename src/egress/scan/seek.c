/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/seek.c - places at every multiple of the stride are looked at. A form of n bytes is
 * entered with the last `stride` twelve-byte groups it has, one of which falls on such a place
 * wherever the form lies; so a form is found in the call that brings its last byte, and no later
 * than that.
 *
 * How long a look takes must tell nothing of the forms to whoever can have a text of their choice
 * looked at and measure. A group leads to one row of a table, and every row has the same number of
 * entries, all of which are tried, always. An entry is the sum of a whole form: a rolling hash with
 * a key of its own, of which the sum over any run of bytes is two loads and a turn. So all of a
 * form is there or nothing is seen: the end of one, in however long a form, is worth as little as
 * any other bytes. Rows without forms have entries that equal nothing, which read the same places
 * as the others do. Only where a whole form stands is there more to do. */
#include "egress/scan/seek.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define GRAM 12
#define STRIDE_MAX 32 /* more would only make the table larger */
#define AHEAD 4       /* places; their rows are fetched meanwhile */
#define PAD (STRIDE_MAX * (AHEAD + 1) + GRAM)
#define BITS_MIN 10
#define FEW 4 /* entries of a row; more are rare */
#define BEHIND_BITS 5
#define CASE 0x2020202020202020ULL
#define PIECE 16384

static_assert(SECRET_MIN > GRAM, "every form has as many bytes");
static_assert(STRIDE_MAX <= 1 << BEHIND_BITS, "what is behind a group has room");
static_assert((uint64_t)SECRET_MAX * SECRET_GROWS < 1U << (32 - BEHIND_BITS), "and so has a form");

/* Without case: what differs in bit 5 alone is compared later. Eight bytes, so that a row is half a
 * line of the cache; one look in a thousand million has another sum's and is compared in vain. */
struct seek_entry {
	uint32_t sum;
	uint32_t size; /* bytes of the form, then BEHIND_BITS: how many of them are behind the group
			*/
};

struct seek {
	const struct needles *needles;
	size_t stride;
	size_t most; /* entries of a row */
	unsigned shift;
	struct seek_entry *rows;
	uint32_t key[256]; /* of a byte; the same with and without bit 5 */
	size_t reach;      /* so far back a form may begin, as far as anybody is to know */
	char *text;        /* what is looked at, in one piece */
	uint32_t *sums;    /* sums[i]: of the first i bytes of it */
	uint64_t work;
};

static inline uint64_t load(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v | CASE;
}

static inline uint32_t turn(uint32_t v, unsigned n)
{
	return v << (n & 31) | v >> (-n & 31);
}

static inline struct seek_entry entry(uint32_t sum, size_t n, size_t behind)
{
	return (struct seek_entry){ sum, (uint32_t)(n << BEHIND_BITS | behind) };
}

static inline ptrdiff_t behind(const struct seek_entry *x)
{
	return x->size & ((1U << BEHIND_BITS) - 1);
}

static inline size_t row_of(const struct seek *s, const char *p)
{
	uint64_t h = load(p) ^ load(p + GRAM - 8) * 0xff51afd7ed558ccdULL;

	return (size_t)((h * 0x9e3779b97f4a7c15ULL) >> s->shift);
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

static int make_key(struct seek *s, struct err *e)
{
	char *to = (char *)s->key;

	for (size_t at = 0, n; at < sizeof(s->key); at += n) {
		n = sizeof(s->key) - at < 256 ? sizeof(s->key) - at : 256;
		if (getrandom(to + at, n, 0) != (ssize_t)n)
			return err_sys(e, "no random bytes for the search");
	}
	for (size_t i = 0; i < 256; i++)
		s->key[i] = s->key[i | 0x20];
	return 0;
}

static uint32_t sum_of(const struct seek *s, const char *p, size_t n)
{
	uint32_t h = 0;

	for (size_t i = 0; i < n; i++)
		h = turn(h, 1) ^ s->key[(unsigned char)p[i]];
	return h;
}

/* The entries by their rows; counts are those of each row. */
static size_t count_rows(struct seek *s, uint32_t *counts)
{
	size_t most = FEW;

	for (size_t i = 0; i < s->needles->n; i++) {
		const struct variant *v = &s->needles->v[i].v;

		for (size_t back = 0; back < s->stride; back++) {
			uint32_t *c = &counts[row_of(s, v->p + v->n - GRAM - back)];

			if (++*c > most)
				most = *c;
		}
	}
	return most;
}

static void enter(struct seek *s, const struct variant *v, uint32_t *counts)
{
	uint32_t sum = sum_of(s, v->p, v->n);

	for (size_t back = 0; back < s->stride; back++) {
		size_t row = row_of(s, v->p + v->n - GRAM - back);

		s->rows[row * s->most + --counts[row]] = entry(sum, v->n, back);
	}
}

/* What equals nothing, and reads where one of the forms would. */
static void fill_up(struct seek *s, size_t n_rows)
{
	uint64_t x = (uint64_t)s->key[0] << 32 | s->key[1] | 1;

	for (size_t i = 0; i < n_rows * s->most; i++) {
		const struct needles *n = s->needles;

		if (s->rows[i].size)
			continue;
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		s->rows[i] = entry((uint32_t)(x * 0x9e3779b97f4a7c15ULL >> 32), n->v[x % n->n].v.n,
				   (size_t)(x >> 32) % s->stride);
	}
}

static int make_rows(struct arena *a, struct seek *s, struct err *e)
{
	size_t entries = s->needles->n * s->stride, n_rows = (size_t)1 << BITS_MIN;
	CLEANUP(mem) uint32_t *counts = NULL;

	s->shift = 64 - BITS_MIN;
	for (; n_rows < 4 * entries; s->shift--)
		n_rows *= 2;
	counts = calloc(n_rows, sizeof(*counts));
	if (!counts)
		return err_nomem(e);
	s->most = count_rows(s, counts);
	s->rows = arena_alloc(a, n_rows * s->most * sizeof(*s->rows));
	if (!s->rows)
		return err_nomem(e);
	for (size_t i = 0; i < s->needles->n; i++)
		enter(s, &s->needles->v[i].v, counts);
	fill_up(s, n_rows);
	return 0;
}

/* One of three, so that it says next to nothing of how long a form is. */
static size_t reach_of(size_t longest)
{
	return longest <= 1024 ? 1024 : longest <= 4096 ? 4096 : (size_t)SECRET_MAX * SECRET_GROWS;
}

int seek_new(struct arena *a, const struct needles *n, struct seek **ret, struct err *e)
{
	struct seek *s = arena_alloc(a, sizeof(*s));

	if (!s)
		return err_nomem(e);
	s->needles = n;
	s->stride = shortest(n) - GRAM + 1;
	s->reach = reach_of(n->longest);
	*ret = s;
	if (!n->n)
		return 0;
	s->text = arena_alloc(a, PAD + s->reach + PIECE + PAD);
	s->sums = arena_alloc(a, (PAD + s->reach + PIECE + PAD + 1) * sizeof(*s->sums));
	if (!s->text || !s->sums)
		return err_nomem(e);
	/* In front of both: zeros, which no form has. */
	memset(s->text, 0, PAD);
	memset(s->sums, 0, PAD * sizeof(*s->sums));
	s->text += PAD;
	s->sums += PAD;
	return make_key(s, e) < 0 || make_rows(a, s, e) < 0 ? -e->code : 0;
}

uint64_t seek_work(const struct seek *s)
{
	return s->work;
}

/* --- looking --- */

/* One piece of what seek_feed was given; it stands in s->text behind what came before it. */
struct seek_look {
	ptrdiff_t have, n; /* bytes before it, and its own */
	ptrdiff_t done;    /* of the whole, before it */
	const struct seek_text *whole;
	seek_fn *fn;
	void *context;
};

/* Four at a time, so that one does not wait for the other. */
static void add_up(struct seek *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s->text;
	uint32_t *to = s->sums, h = 0;

	*to = 0;
	for (; n >= 4; n -= 4, p += 4, to += 4) {
		uint32_t a = s->key[p[0]], b = turn(a, 1) ^ s->key[p[1]],
			 c = turn(b, 1) ^ s->key[p[2]], d = turn(c, 1) ^ s->key[p[3]];

		to[1] = turn(h, 1) ^ a;
		to[2] = turn(h, 2) ^ b;
		to[3] = turn(h, 3) ^ c;
		to[4] = h = turn(h, 4) ^ d;
	}
	for (; n; n--, to++)
		to[1] = h = turn(h, 1) ^ s->key[*p++];
}

/* The next piece behind the last bytes of what came before. */
static void lay_out(struct seek *s, struct seek_look *l)
{
	const struct seek_text *t = l->whole;
	size_t had = l->done ? (size_t)(l->have + l->n) : t->before.n,
	       left = t->n - (size_t)l->done, have = had < s->reach ? had : s->reach;
	const char *old = l->done ? s->text : t->before.p;

	if (have)
		memmove(s->text, old + had - have, have);
	l->have = (ptrdiff_t)have;
	l->n = left < PIECE ? (ptrdiff_t)left : PIECE;
	memcpy(s->text + have, t->data + l->done, (size_t)l->n);
	memset(s->text + have + l->n, 0, PAD);
	add_up(s, have + (size_t)l->n + STRIDE_MAX);
}

/* `end`: of the group, in the text. */
static inline bool is_whole(const struct seek *s, const struct seek_entry *x, ptrdiff_t end)
{
	uint32_t n = x->size >> BEHIND_BITS;
	ptrdiff_t to = end + behind(x), from = to - (ptrdiff_t)n;
	bool fits = from >= 0;

	from = fits ? from : 0;
	return ((s->sums[to] ^ turn(s->sums[from], n)) == x->sum) & fits;
}

static inline bool probe(const struct seek *s, ptrdiff_t end, size_t most)
{
	const struct seek_entry *row = &s->rows[row_of(s, s->text + end - GRAM) * most];
	unsigned any = 0;

	for (size_t i = 0; i < most; i++)
		any |= is_whole(s, &row[i], end);
	return any;
}

/* The sum of a form: which one is it? */
static bool name_at(struct seek *s, const struct seek_look *l, ptrdiff_t to)
{
	for (size_t k = 0; k < s->needles->n; k++) {
		const struct needle *x = &s->needles->v[k];

		s->work += x->v.n;
		if ((ptrdiff_t)x->v.n <= to &&
		    needle_is(x, s->text + to - x->v.n, l->whole->caseless) &&
		    !l->fn(l->context, x, l->done + to - l->have))
			return false;
	}
	return true;
}

/* What ended before the piece was told before, and two entries may mean the same end. */
static bool follow(struct seek *s, const struct seek_look *l, ptrdiff_t end)
{
	const struct seek_entry *row = &s->rows[row_of(s, s->text + end - GRAM) * s->most];
	uint64_t seen = 0;

	for (size_t i = 0; i < s->most; i++) {
		ptrdiff_t back = behind(&row[i]), to = end + back;

		if (!is_whole(s, &row[i], end) || to <= l->have || to > l->have + l->n ||
		    (seen >> back & 1))
			continue;
		seen |= (uint64_t)1 << back;
		if (!name_at(s, l, to))
			return false;
	}
	return true;
}

/* The next place from `end` on where a form may stand; behind `stop`: there is none. */
static inline ptrdiff_t next_found(const struct seek *s, ptrdiff_t end, ptrdiff_t stop, size_t most)
{
	ptrdiff_t stride = (ptrdiff_t)s->stride;

	for (; end <= stop; end += stride) {
		size_t later = row_of(s, s->text + end - GRAM + AHEAD * stride);

		__builtin_prefetch(&s->rows[later * most]);
		if (__builtin_expect(probe(s, end, most), 0))
			break;
	}
	return end;
}

static bool look(struct seek *s, struct seek_look *l)
{
	ptrdiff_t stride = (ptrdiff_t)s->stride, from = -(stride + GRAM - 2);
	ptrdiff_t over = (ptrdiff_t)((l->whole->at + l->done + from) % stride), end, stop;

	lay_out(s, l);
	from += over > 0 ? stride - over : -over; /* the next multiple, also of negative offsets */
	end = l->have + from + GRAM;
	stop = l->have + l->n;
	while (end <= stop) {
		ptrdiff_t first = end;

		/* With the number known beforehand it is faster. */
		end = s->most == FEW ? next_found(s, end, stop, FEW)
				     : next_found(s, end, stop, s->most);
		s->work += s->most * (size_t)((end - first) / stride + (end <= stop));
		if (end <= stop && !follow(s, l, end))
			return false;
		end += stride;
	}
	return true;
}

bool seek_feed(struct seek *s, const struct seek_text *t, seek_fn *fn, void *context)
{
	struct seek_look l = { .whole = t, .fn = fn, .context = context };

	for (; s->needles->n && l.done < (ptrdiff_t)t->n; l.done += l.n)
		if (!look(s, &l))
			return false;
	return true;
}
