/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan_hex.c - 64 hexadecimal digits that stand alone.
 *
 * No literal finds them. A run of 64 has a digit at every 64th place, so only those are looked at;
 * a digit there is followed to both ends of its run. */
#include "egress/scan_internal.h"

#define RUN 64

static inline bool is_hex(char c)
{
	return (unsigned char)(c - '0') < 10 || (unsigned char)((c | 32) - 'a') < 6;
}

static bool is_word(char c)
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

	while (from > first && at - from <= RUN && is_hex(byte_at(b, from - 1)))
		from--;
	return from;
}

/* The run that ends before `to` has been seen whole: tells it when it is one. */
static bool check_run(struct scan *b, int64_t to)
{
	/* What comes in at its place in the table of shapes: only the class is of use here. */
	static const struct shape hex = { .kind = LEAK_HEX64 };
	int64_t end = b->base + (int64_t)b->n, from = run_start(b, to - 1);

	if (to - from != RUN || (to < end && is_word(byte_at(b, to))) ||
	    (from > 0 && from > scan_first(b) && is_word(byte_at(b, from - 1))))
		return true;
	return scan_found(b, LEAK_HEX64, &hex, false, from, to);
}

static bool three(const char *p, ptrdiff_t step)
{
	return is_hex(p[step]) && is_hex(p[step * 16]) && is_hex(p[step * 32]);
}

/* A run of 64 that holds this place also holds the 32 before it or the 32 behind. */
static bool worth_a_look(const struct scan *b, int64_t at)
{
	size_t i = (size_t)(at - b->base);

	return i < RUN / 2 || i + RUN / 2 >= b->n || three(b->data + i, -1) ||
	       three(b->data + i, 1);
}

bool scan_hex(struct scan *b)
{
	int64_t end = b->base + (int64_t)b->n, at;

	if (b->needles_only || b->scanner->actions[LEAK_HEX64] == LEAK_OFF)
		return true;
	/* A run that the last piece ended with, and whose end could not be seen then. */
	if (b->base > 0 && b->n && b->win_n && !is_hex(b->data[0]) &&
	    is_hex(byte_at(b, b->base - 1)) && !check_run(b, b->base))
		return false;
	for (at = b->n && is_hex(b->data[0]) ? b->base : b->base + RUN - 1; at < end; at += RUN) {
		if (!is_hex(b->data[at - b->base]) || !worth_a_look(b, at))
			continue;
		while (at < end && is_hex(b->data[at - b->base]))
			at++;
		if (at < end && !check_run(b, at))
			return false;
	}
	/* Without a next piece the end of the stream is the end of the run. */
	if (b->last && end > 0 && (b->n || b->win_n) && end > scan_first(b) &&
	    is_hex(byte_at(b, end - 1)) && !check_run(b, end))
		return false;
	return true;
}
