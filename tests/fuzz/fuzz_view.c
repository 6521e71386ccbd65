/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_view.c - a text in any pieces is read as the plainest reader reads it, who undoes the
 * escapes of all of it, in every order and two deep, and compares at every place. */
#include "fuzz.h"

#include "base/text/arena.h"
#include "egress/seek/unescape.h"
#include "egress/seek/view.h"

enum { MOST = 1024, FINDS = 4096 };

static const struct secret secrets[] = {
	{ .name = "A", .value = "aaac+/\"aaac&aaac", .len = 16 },
	{ .name = "B", .value = "0123456789abcdef", .len = 16 },
	{ .name = "C", .value = "k%41=AB\\/x&amp;y=zz?", .len = 20 },
};

struct shown {
	char p[MOST];
	long from[MOST], to[MOST];
	size_t n;
};

struct find {
	size_t secret;
	long from, to;
};

struct finds {
	struct find v[FINDS];
	size_t n;
	long at; /* of the call */
};

static bool has(const struct finds *f, struct find x)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].secret == x.secret && f->v[i].from == x.from && f->v[i].to == x.to)
			return true;
	return false;
}

static void add(struct finds *f, size_t secret, long from, long to)
{
	struct find x = { secret, from, to };

	if (has(f, x))
		return;
	require(f->n < FINDS);
	f->v[f->n++] = x;
}

static void search(const struct shown *s, const struct needles *n, struct finds *f)
{
	for (size_t k = 0; k < n->n; k++)
		for (size_t i = 0; i + n->v[k].v.n <= s->n; i++)
			if (((s->p[i] ^ n->v[k].v.p[0]) | 0x20) == 0x20 &&
			    needle_is(&n->v[k], s->p + i, false))
				add(f, n->v[k].secret, s->from[i], s->to[i + n->v[k].v.n - 1]);
}

static void undo(enum unescape_kind k, const struct shown *of, struct shown *ret)
{
	struct unescaped u;

	ret->n = 0;
	for (size_t at = 0; at < of->n; at += u.took) {
		if (unescape_one(k, of->p, at, of->n, true, &u) != UNESCAPE_ONE) {
			u = (struct unescaped){ .took = 1, .n = 1 };
			u.p[0] = of->p[at];
		}
		for (size_t i = 0; i < u.n; i++) {
			require(ret->n < MOST);
			ret->p[ret->n] = u.p[i];
			ret->from[ret->n] = of->from[at];
			ret->to[ret->n++] = of->to[at + u.took - 1];
		}
	}
}

static void plainly(const uint8_t *data, size_t size, const struct needles *n, struct finds *f)
{
	static const int orders[][3] = { { 0, 0, 2 }, { 0, 1, 2 }, { 1, 0, 2 } };
	static struct shown one, two;

	for (size_t i = 0; i < 3; i++) {
		struct shown *a = &one, *b = &two, *swap, lines;

		a->n = size;
		memcpy(a->p, data, size);
		for (size_t k = 0; k < size; k++) {
			a->from[k] = (long)k;
			a->to[k] = (long)k + 1;
		}
		for (size_t depth = 0; depth < 3; depth++) {
			search(a, n, f);
			undo(UNESCAPE_LINES, a, &lines);
			search(&lines, n, f);
			undo((enum unescape_kind)orders[i][depth], a, b);
			swap = a;
			a = b;
			b = swap;
		}
		search(a, n, f);
	}
}

static bool note(void *context, const struct needle *n, ptrdiff_t from, ptrdiff_t to)
{
	struct finds *f = context;

	add(f, n->secret, f->at + from, f->at + to);
	return true;
}

static void in_pieces(struct views *w, const uint8_t *data, size_t size, size_t step,
		      struct finds *f)
{
	struct view *v = NULL;
	struct err e;

	require(view_new(w, &v, &e) == 0);
	for (size_t at = 0;; at += step) {
		size_t take = size - at < step ? size - at : step;
		struct seek_text t = { .at = (int64_t)at,
				       .before = egress_text((const char *)data, at),
				       .data = (const char *)data + at,
				       .n = take };

		f->at = (long)at;
		require(view_feed(v, &t, at + take == size, note, f) == 0);
		if (at + take == size)
			break;
	}
	v = view_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct finds want, whole, cut;
	static struct arena *a;
	static struct needles n;
	static struct views *w;
	struct err e;

	want.n = whole.n = cut.n = 0;
	if (size > MOST)
		size = MOST;
	if (!a)
		require((a = arena_new(64 << 20)) && needles_new(a, secrets, 3, &n, &e) == 0 &&
			views_new(a, &n, &w, &e) == 0);
	plainly(data, size, &n, &want);
	in_pieces(w, data, size, size + 1, &whole);
	in_pieces(w, data, size, size ? 1 + data[0] % 67U : 1, &cut);
	for (size_t i = 0; i < whole.n; i++)
		require(has(&want, whole.v[i]));
	for (size_t i = 0; i < cut.n; i++)
		require(has(&want, cut.v[i]));
	for (size_t i = 0; i < want.n && !memchr(data, 0, size); i++)
		require(has(&whole, want.v[i]) && has(&cut, want.v[i]));
	return 0;
}
