/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_hex.c - 64 hexadecimal digits that stand alone.
 *
 * No literal finds them. A run of 64 has a digit at every 64th place, so only those are looked at;
 * a digit there is followed to both ends of its run. */
#include "egress/scan/scan_internal.h"

#define RUN 32 /* the shortest of interest */
#define LONG 64

static const unsigned char hex_digit[256] = {
	['0' ... '9'] = 1,
	['a' ... 'f'] = 1,
	['A' ... 'F'] = 1,
};

static inline unsigned is_hex(char c)
{
	return hex_digit[(unsigned char)c];
}

static bool scan_hex_is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_';
}

static char byte_at(const struct scan *b, int64_t at)
{
	return at >= b->base ? b->data[at - b->base]
			     : b->win[b->which][b->win_n - (size_t)(b->base - at)];
}

/* Where the run around `at` begins, as far as it matters. */
static int64_t run_start(const struct scan *b, int64_t at)
{
	int64_t first = scan_first(b) < 0 ? 0 : scan_first(b), from = at;

	while (from > first && at - from <= LONG && is_hex(byte_at(b, from - 1)))
		from--;
	return from;
}

/* A word ends, or begins, at this place. */
static bool is_edge(const struct scan *b, int64_t before, int64_t behind)
{
	int64_t first = scan_first(b) < 0 ? 0 : scan_first(b), end = b->base + (int64_t)b->n;

	return before < first || behind >= end || !scan_hex_is_word(byte_at(b, before)) ||
	       !scan_hex_is_word(byte_at(b, behind));
}

static bool is_twilio(const struct scan *b, int64_t from)
{
	int64_t first = scan_first(b) < 0 ? 0 : scan_first(b);
	bool seen[256] = { false };
	unsigned different = 0;

	if (from - 2 < first || byte_at(b, from - 2) != 'S' || byte_at(b, from - 1) != 'K' ||
	    !is_edge(b, from - 3, from - 2))
		return false;
	for (int i = 0; i < RUN; i++) {
		unsigned char c = (unsigned char)byte_at(b, from + i);

		different += !seen[c];
		seen[c] = true;
	}
	return different >= 8;
}

/* The run that ends before `to` has been seen whole: tells it when it is one of the two. */
static bool check_run(struct scan *b, int64_t to)
{
	static const struct shape hex = { .kind = LEAK_HEX64 }; /* a mask goes no further */
	int64_t from = run_start(b, to - 1);

	if (!is_edge(b, to - 1, to))
		return true;
	if (to - from == LONG && is_edge(b, from - 1, from))
		return b->hashed || scan_found(b, LEAK_HEX64, &hex, false, from, to);
	if (to - from == RUN && is_twilio(b, from))
		return scan_found(b, LEAK_TWILIO, &hex, false, from - 2, to);
	return true;
}

/* The next place to look at from i on, n when there is none. A run of 32 holds two places that are
 * 16 apart, and what lies between them. No branch for each: in ordinary text they are toss-ups. */
static size_t next_place(const struct scan *b, size_t i)
{
	const char *p = b->data;
	unsigned before;

	if (i >= b->n) /* beyond the end there may be nothing to read */
		return b->n;
	before = i >= RUN / 2 ? is_hex(p[i - RUN / 2]) : 1;
	for (; i < b->n; i += RUN / 2) {
		unsigned here = is_hex(p[i]);

		if (before & here & (i >= RUN / 4 ? is_hex(p[i - RUN / 4]) : 1))
			return i;
		before = here;
	}
	return b->n;
}

bool scan_hex(struct scan *b)
{
	int64_t end = b->base + (int64_t)b->n;
	size_t i;

	if (b->needles_only || (b->scanner->actions[LEAK_HEX64] == LEAK_OFF &&
				b->scanner->actions[LEAK_TWILIO] == LEAK_OFF))
		return true;
	/* A run that the last piece ended with, and whose end could not be seen then. */
	if (b->base > 0 && b->n && b->win_n && !is_hex(b->data[0]) &&
	    is_hex(byte_at(b, b->base - 1)) && !check_run(b, b->base))
		return false;
	i = b->n && is_hex(b->data[0]) ? 0 : RUN / 2;
	while ((i = next_place(b, i)) < b->n) {
		while (i < b->n && is_hex(b->data[i]))
			i++;
		if (i < b->n && !check_run(b, b->base + (int64_t)i))
			return false;
		i += RUN / 2;
	}
	/* Without a next piece the end of the stream is the end of the run. */
	if (b->last && end > 0 && (b->n || b->win_n) && end > scan_first(b) &&
	    is_hex(byte_at(b, end - 1)) && !check_run(b, end))
		return false;
	return true;
}
