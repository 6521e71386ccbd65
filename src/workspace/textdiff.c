/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/textdiff.c - see textdiff.h.
 *
 * Lines get numbers, equal ones the same. Those that the other side has not are changed, and left
 * out of what follows; for the rest Myers' algorithm finds the middle of a shortest way, from both
 * ends, and goes on in both halves. Each step of it costs one of WORK: where they are used up, what
 * is between is changed as a whole. */
#include "workspace/textdiff.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/cleanup.h"

enum { WORK = 1 << 24 };

struct text_line {
	const char *p;
	uint32_t len; /* with its newline */
	uint32_t at;  /* its place: those of b come behind those of a */
};

struct side {
	const struct text_line *lines;
	size_t n;
	uint32_t *id;   /* of each line */
	bool *changed;  /* of each line, and of one behind the last */
	uint32_t *kept; /* places of the lines that are compared */
	int kept_n;
};

struct compare {
	struct side a, b;
	int *forth, *back; /* by diagonal, how far a way got: within twice the lines of 0 */
	int zero;          /* the place of diagonal 0 */
	long work;
};

static size_t textdiff_lines(struct textdiff_side s, struct text_line *out, size_t most,
			     size_t first)
{
	size_t n = 0;

	for (size_t at = 0; at < s.len; n++) {
		const char *end = memchr(s.data + at, '\n', s.len - at);
		size_t len = end ? (size_t)(end - (s.data + at)) + 1 : s.len - at;

		if (n == most)
			return n + 1;
		out[n] = (struct text_line){ s.data + at, (uint32_t)len, (uint32_t)(first + n) };
		at += len;
	}
	return n;
}

static int line_order(const void *x, const void *y)
{
	const struct text_line *a = x, *b = y;
	int r = a->len != b->len ? (a->len < b->len ? -1 : 1) : memcmp(a->p, b->p, a->len);

	return r ? r : a->at < b->at ? -1 : a->at > b->at;
}

/* Sorted, equal lines are neighbours. A line that only one side has is changed. */
static void number_lines(struct compare *c, struct text_line *sorted, size_t n)
{
	qsort(sorted, n, sizeof(*sorted), line_order);
	for (size_t i = 0, to; i < n; i = to) {
		for (to = i + 1; to < n && sorted[to].len == sorted[i].len &&
				 memcmp(sorted[to].p, sorted[i].p, sorted[i].len) == 0;
		     to++)
			;
		for (size_t k = i; k < to; k++) {
			bool second = sorted[k].at >= c->a.n;
			struct side *s = second ? &c->b : &c->a;
			size_t at = sorted[k].at - (second ? c->a.n : 0);

			s->id[at] = (uint32_t)i;
			s->changed[at] = (sorted[i].at >= c->a.n) == (sorted[to - 1].at >= c->a.n);
		}
	}
}

static void keep_common(struct side *s)
{
	s->kept_n = 0;
	for (size_t i = 0; i < s->n; i++)
		if (!s->changed[i])
			s->kept[s->kept_n++] = (uint32_t)i;
}

static bool same_line(const struct compare *c, int x, int y)
{
	return c->a.id[c->a.kept[x]] == c->b.id[c->b.kept[y]];
}

struct box {
	int x0, x1, y0, y1;
};

static void box_changed(const struct compare *c, const struct box *b)
{
	for (int x = b->x0; x < b->x1; x++)
		c->a.changed[c->a.kept[x]] = true;
	for (int y = b->y0; y < b->y1; y++)
		c->b.changed[c->b.kept[y]] = true;
}

/* No way gets to this diagonal within the box. */
enum { NOWHERE_FORTH = -1, NOWHERE_BACK = INT_MAX };

/* Goes one edit further from the upper left on every diagonal. true: it meets a way from below. */
static bool reach_forth(struct compare *c, const struct box *b, int d, bool odd, int *mx, int *my)
{
	const int first = b->x0 - b->y0, last = b->x1 - b->y1;
	int *v = c->forth + c->zero, *w = c->back + c->zero;

	for (int k = first - d; k <= first + d; k += 2) {
		int right = d && k > first - d ? v[k - 1] : NOWHERE_FORTH;
		int down = d && k < first + d ? v[k + 1] : NOWHERE_FORTH;
		int x;

		right = right == NOWHERE_FORTH || right == b->x1 ? NOWHERE_FORTH : right + 1;
		down = down == NOWHERE_FORTH || down - k > b->y1 ? NOWHERE_FORTH : down;
		x = d == 0 ? b->x0 : right > down ? right : down;
		for (c->work--;
		     x != NOWHERE_FORTH && x < b->x1 && x - k < b->y1 && same_line(c, x, x - k);
		     x++)
			c->work--;
		v[k] = x;
		if (x != NOWHERE_FORTH && odd && k > last - d && k < last + d && x >= w[k]) {
			*mx = x;
			*my = x - k;
			return true;
		}
	}
	return false;
}

static bool reach_back(struct compare *c, const struct box *b, int d, bool odd, int *mx, int *my)
{
	const int first = b->x0 - b->y0, last = b->x1 - b->y1;
	int *v = c->forth + c->zero, *w = c->back + c->zero;

	for (int k = last - d; k <= last + d; k += 2) {
		int left = d && k < last + d ? w[k + 1] : NOWHERE_BACK;
		int up = d && k > last - d ? w[k - 1] : NOWHERE_BACK;
		int x;

		left = left == NOWHERE_BACK || left == b->x0 ? NOWHERE_BACK : left - 1;
		up = up == NOWHERE_BACK || up - k < b->y0 ? NOWHERE_BACK : up;
		x = d == 0 ? b->x1 : left < up ? left : up;
		for (c->work--; x != NOWHERE_BACK && x > b->x0 && x - k > b->y0 &&
				same_line(c, x - 1, x - k - 1);
		     x--)
			c->work--;
		w[k] = x;
		if (x != NOWHERE_BACK && !odd && k >= first - d && k <= first + d && x <= v[k]) {
			*mx = x;
			*my = x - k;
			return true;
		}
	}
	return false;
}

/* A point on a shortest way through the box. false: it took too much work. */
static bool middle(struct compare *c, const struct box *b, int *mx, int *my)
{
	const bool odd = ((b->x1 - b->x0) - (b->y1 - b->y0)) & 1;

	for (int d = 0; c->work > 0; d++)
		if (reach_forth(c, b, d, odd, mx, my) || reach_back(c, b, d, odd, mx, my))
			return true;
	return false;
}

/* The boxes that are left wait in a list: halves of halves, never more than there are lines. */
static int compare_kept(struct compare *c)
{
	size_t room = (size_t)c->a.kept_n + (size_t)c->b.kept_n + 2, n = 0;
	CLEANUP(mem) struct box *todo = calloc(room, sizeof(*todo));

	if (!todo)
		return -ENOMEM;
	todo[n++] = (struct box){ 0, c->a.kept_n, 0, c->b.kept_n };
	while (n) {
		struct box b = todo[--n];
		int x, y;

		for (; b.x0 < b.x1 && b.y0 < b.y1 && same_line(c, b.x0, b.y0); b.x0++)
			b.y0++;
		for (; b.x0 < b.x1 && b.y0 < b.y1 && same_line(c, b.x1 - 1, b.y1 - 1); b.x1--)
			b.y1--;
		if (b.x0 == b.x1 || b.y0 == b.y1 || n + 2 > room || !middle(c, &b, &x, &y) ||
		    (x == b.x0 && y == b.y0) || (x == b.x1 && y == b.y1)) {
			box_changed(c, &b);
			continue;
		}
		todo[n++] = (struct box){ b.x0, x, b.y0, y };
		todo[n++] = (struct box){ x, b.x1, y, b.y1 };
	}
	return 0;
}

/* ---- what is said of it ---- */

static void put_range(struct buf *out, char sign, size_t from, size_t n)
{
	buf_putc(out, sign);
	buf_putu(out, n ? from + 1 : from, 1);
	if (n != 1) {
		buf_putc(out, ',');
		buf_putu(out, n, 1);
	}
}

static void put_line(struct buf *out, char mark, const struct text_line *l)
{
	buf_putc(out, mark);
	buf_add(out, l->p, l->len);
	if (l->p[l->len - 1] != '\n')
		buf_puts(out, "\n\\ No newline at end of file\n");
}

struct span {
	size_t a, b; /* where the next lines are */
};

/* Over lines that are equal, then over those that are changed. false: there were none. */
static bool next_change(const struct compare *c, struct span *s, size_t *same)
{
	for (*same = 0;
	     s->a < c->a.n && s->b < c->b.n && !c->a.changed[s->a] && !c->b.changed[s->b];
	     (*same)++, s->b++)
		s->a++;
	return s->a < c->a.n || s->b < c->b.n;
}

static void over_change(const struct compare *c, struct span *s, struct textdiff_count *count)
{
	for (; s->a < c->a.n && c->a.changed[s->a]; s->a++)
		count->removed++;
	for (; s->b < c->b.n && c->b.changed[s->b]; s->b++)
		count->added++;
}

static void put_hunk(const struct compare *c, struct span from, struct span to, struct buf *out)
{
	buf_puts(out, "@@ ");
	put_range(out, '-', from.a, to.a - from.a);
	buf_putc(out, ' ');
	put_range(out, '+', from.b, to.b - from.b);
	buf_puts(out, " @@\n");
	while (from.a < to.a || from.b < to.b) {
		for (; from.a < to.a && c->a.changed[from.a]; from.a++)
			put_line(out, '-', &c->a.lines[from.a]);
		for (; from.b < to.b && c->b.changed[from.b]; from.b++)
			put_line(out, '+', &c->b.lines[from.b]);
		for (; from.a < to.a && !c->a.changed[from.a] && from.b < to.b &&
		       !c->b.changed[from.b];
		     from.a++, from.b++)
			put_line(out, ' ', &c->a.lines[from.a]);
	}
}

static void put_hunks(const struct compare *c, struct buf *out, struct textdiff_count *count)
{
	struct span at = { 0, 0 }, from, end;
	size_t same;
	bool more = next_change(c, &at, &same);

	while (more) {
		size_t lead = same < TEXTDIFF_CONTEXT ? same : TEXTDIFF_CONTEXT, tail;

		from = (struct span){ at.a - lead, at.b - lead };
		do {
			over_change(c, &at, count);
			end = at;
			more = next_change(c, &at, &same);
		} while (more && same <= 2 * (size_t)TEXTDIFF_CONTEXT);
		tail = same < TEXTDIFF_CONTEXT ? same : TEXTDIFF_CONTEXT;
		end = (struct span){ end.a + tail, end.b + tail };
		if (out)
			put_hunk(c, from, end, out);
	}
}

/* ---- all of it ---- */

static int compare_lines(struct text_line *lines, size_t an, size_t bn, struct compare *c)
{
	const size_t n = an + bn;
	CLEANUP(mem) struct text_line *sorted = malloc((n + 1) * sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, lines, n * sizeof(*sorted));
	number_lines(c, sorted, n);
	keep_common(&c->a);
	keep_common(&c->b);
	c->work = WORK;
	return compare_kept(c);
}

static int diff_lines(struct text_line *lines, size_t an, size_t bn, struct buf *out,
		      struct textdiff_count *count)
{
	const size_t n = an + bn;
	CLEANUP(mem) uint32_t *numbers = calloc(2 * n + 2, sizeof(*numbers));
	CLEANUP(mem) bool *changed = calloc(n + 2, sizeof(*changed));
	CLEANUP(mem) int *ways = calloc(8 * n + 32, sizeof(*ways));
	struct compare c = { .zero = 2 * (int)n + 8 };
	int r;

	if (!numbers || !changed || !ways)
		return -ENOMEM;
	c.a = (struct side){ lines, an, numbers, changed, numbers + n, 0 };
	c.b = (struct side){ lines + an, bn, numbers + an, changed + an + 1, numbers + n + an, 0 };
	c.forth = ways;
	c.back = ways + 4 * n + 16;
	r = compare_lines(lines, an, bn, &c);
	if (r == 0)
		put_hunks(&c, out, count);
	return r;
}

int textdiff(struct textdiff_side a, struct textdiff_side b, struct buf *out,
	     struct textdiff_count *count)
{
	CLEANUP(mem) struct text_line *lines = NULL;
	size_t an, bn;

	*count = (struct textdiff_count){ 0, 0 };
	if (a.len > TEXTDIFF_BYTES || b.len > TEXTDIFF_BYTES)
		return TEXTDIFF_LARGE;
	if ((a.len && memchr(a.data, 0, a.len)) || (b.len && memchr(b.data, 0, b.len)))
		return TEXTDIFF_BINARY;
	lines = calloc(2 * (size_t)TEXTDIFF_LINES + 1, sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	an = textdiff_lines(a, lines, TEXTDIFF_LINES, 0);
	if (an > TEXTDIFF_LINES)
		return TEXTDIFF_LARGE;
	bn = textdiff_lines(b, lines + an, TEXTDIFF_LINES, an);
	if (bn > TEXTDIFF_LINES)
		return TEXTDIFF_LARGE;
	if (diff_lines(lines, an, bn, out, count) < 0 || (out && out->failed))
		return -ENOMEM;
	return TEXTDIFF_TEXT;
}
