/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek/view.c - a tree of lenses. Each reads what the one above it shows, undoes one kind of
 * escape and shows the rest as it is, with the place of every byte in the stream.
 *
 * A lens sleeps until an escape of its kind comes, and shows what stood before it, too, as far as a
 * form could begin; it sleeps again when none has come for as long. A form that is written with
 * escapes is named by the lens that undid the last of them: one that has no escape of every lens
 * above is somebody else's, and named there. */
#include "egress/seek/view.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "egress/seek/lines.h"
#include "egress/seek/wake.h"

#define SLICE 4096
#define FIRST 512 /* of a slice that wakes a lens: most sleep again */
#define REACH_MIN 128
#define REACH_MOST ((size_t)SECRET_MAX * SECRET_ESCAPED)
#define EDGE 64 /* bytes on either side of where two calls meet */

enum { ROOT, LENSES = 11 };

static const struct {
	unsigned of; /* above it */
	enum unescape_kind kind;
	unsigned depth;
} lenses[LENSES] = {
	[ROOT] = { ROOT, UNESCAPE_KINDS, 0 },
	[1] = { ROOT, UNESCAPE_SIGNS, 1 },
	[2] = { 1, UNESCAPE_SIGNS, 2 },
	[3] = { ROOT, UNESCAPE_QUOTED, 1 },
	[4] = { 1, UNESCAPE_QUOTED, 2 },
	[5] = { 3, UNESCAPE_SIGNS, 2 },
	/* of the stream itself lines.h does it */
	[6] = { 1, UNESCAPE_LINES, 2 },
	[7] = { 2, UNESCAPE_LINES, 3 },
	[8] = { 3, UNESCAPE_LINES, 2 },
	[9] = { 4, UNESCAPE_LINES, 3 },
	[10] = { 5, UNESCAPE_LINES, 3 },
};

/* How far a lens shows text around an escape, in longest forms: what is below it undoes more, and
 * has a form in fewer bytes. */
static const size_t reaches[UNESCAPE_KINDS + 1] = {
	[UNESCAPE_SIGNS] = 3,
	[UNESCAPE_QUOTED] = 8,
	[UNESCAPE_LINES] = 1,
	[UNESCAPE_KINDS] = 8,
};

/* Where a byte stands in the stream, modulo 2^32; how many bytes it is there; what was undone. */
struct view_place {
	uint32_t from;
	uint32_t n : 26, undone : 6;
};

#define UNDONE(depth) (1U << (2 * ((depth)-1)))
/* The bit next to it: what was undone stood before the byte, and was left out. */
#define ALL_UNDONE 0x15U
#define GAPS 0x2aU

/* What a lens shows in the call at hand: what it showed before, and from `fresh` on what is new. */
struct view_room {
	char *p;
	struct view_place *at;
	size_t n, fresh;
	bool shows, ends; /* anything at all; nothing from now on */
};

struct views {
	struct seek *seek;
	struct base64_lines *lines;
	size_t n_needles, reach[LENSES], kept; /* of all lenses together */
	struct view_room rooms[LENSES];
};

struct lens {
	bool awake;
	size_t kept;  /* bytes that it showed last */
	size_t far;   /* shown since the last escape */
	unsigned gap; /* and that one left out what stood here: what the next byte is told */
	size_t lag;   /* what is above it ends in so many bytes that may become an escape */
	char *p;
	struct view_place *at;
};

struct view {
	struct views *views;
	struct lens lens[LENSES];
	char *text; /* the lenses', when one has been woken */
	struct view_place *places;
	bool used;  /* since it was wiped */
	bool slept; /* through the last call */

	/* of the call at hand */
	const struct seek_text *t;
	bool last, ends; /* nothing follows the call; the slice at hand */
	view_fn *fn;
	void *context;
	const struct view_room *room; /* being searched */
	unsigned depth;
};

/* --- making --- */

/* A class: how far is read is seen by who measures. */
static size_t reach_of(size_t longest, size_t times)
{
	size_t reach = REACH_MIN;

	while (reach < longest)
		reach *= 2;
	reach *= times;
	return reach < REACH_MOST ? reach : REACH_MOST;
}

int views_new(struct arena *a, const struct needles *n, struct views **ret, struct err *e)
{
	struct views *w = arena_alloc(a, sizeof(*w));
	size_t room[LENSES];

	if (!w)
		return err_nomem(e);
	*w = (struct views){ .n_needles = n->n };
	for (unsigned i = 0; n->n && i < LENSES; i++) {
		struct view_room *r = &w->rooms[i];

		w->reach[i] = reach_of(n->longest, reaches[lenses[i].kind]);
		room[i] = w->reach[i] + (i == ROOT ? SLICE : room[lenses[i].of]) + VIEW_LATE;
		w->kept += i == ROOT ? 0 : w->reach[i];
		r->p = arena_alloc(a, room[i]);
		r->at = arena_alloc(a, room[i] * sizeof(*r->at));
		if (!r->p || !r->at)
			return err_nomem(e);
	}
	*ret = w;
	return seek_new(a, n, &w->seek, e) < 0 ||
			       lines_new(a, w->seek, reach_of(n->longest, 1), &w->lines, e) < 0
		       ? -e->code
		       : 0;
}

void views_wipe(struct views *w)
{
	if (w->lines)
		lines_wipe(w->lines);
	for (unsigned i = 0; w->n_needles && i < LENSES; i++)
		explicit_bzero(w->rooms[i].p, w->reach[i] + SLICE);
}

int view_new(struct views *w, struct view **ret, struct err *e)
{
	struct view *v = calloc(1, sizeof(*v));

	if (!v)
		return err_nomem(e);
	v->views = w;
	*ret = v;
	return 0;
}

static void lens_sleep(struct lens *l)
{
	l->awake = false;
	l->gap = 0;
	l->kept = l->far = l->lag = 0;
}

void view_reset(struct view *v)
{
	v->lens[ROOT].lag = 0;
	for (unsigned i = 0; v->lens[ROOT].awake && i < LENSES; i++)
		lens_sleep(&v->lens[LENSES - 1 - i]);
}

void view_wipe(struct view *v)
{
	if (v->used)
		explicit_bzero(v->text, v->views->kept);
	v->used = false;
}

struct seek *views_seek(const struct views *w)
{
	return w->seek;
}

struct view *view_free(struct view *v)
{
	if (!v)
		return NULL;
	view_wipe(v);
	free(v->text);
	free(v->places);
	free(v);
	return NULL;
}

static bool view_make_room(struct view *v)
{
	size_t at = 0;

	v->used = true;
	if (v->text)
		return true;
	v->text = malloc(v->views->kept);
	v->places = malloc(v->views->kept * sizeof(*v->places));
	if (!v->text || !v->places) {
		free(v->text);
		free(v->places);
		v->text = NULL;
		v->places = NULL;
		v->used = false;
		return false;
	}
	for (unsigned i = ROOT + 1; i < LENSES; i++) {
		v->lens[i].p = v->text + at;
		v->lens[i].at = v->places + at;
		at += v->views->reach[i];
	}
	return true;
}

/* --- one lens --- */

static void show_as_it_is(struct view_room *to, const struct view_room *of, size_t from, size_t n)
{
	memcpy(to->p + to->n, of->p + from, n);
	memcpy(to->at + to->n, of->at + from, n * sizeof(*to->at));
	to->n += n;
}

/* The escape at of->p[i]: what it stands for, or what is to be told of the gap that it leaves. */
static void show_undone(struct view_room *to, const struct view_room *of, size_t i,
			const struct unescaped *u, unsigned depth, unsigned *gap)
{
	const struct view_place *first = &of->at[i], *end = &of->at[i + u->took - 1];
	struct view_place x = { .from = first->from };
	unsigned undone = UNDONE(depth);

	for (size_t k = 0; k < u->took; k++)
		undone |= (first[k].undone | (k ? first[k].undone >> 1 : 0)) & ALL_UNDONE;
	if (!u->n) {
		*gap |= (undone << 1 | first->undone) & GAPS;
		return;
	}
	x.n = (end->from + end->n - first->from) & 0x3ffffff;
	x.undone = (undone | *gap | first->undone) & (ALL_UNDONE | GAPS);
	*gap = 0;
	for (size_t k = 0; k < u->n; k++) {
		to->p[to->n] = u->p[k];
		to->at[to->n++] = x;
	}
}

/* All of it from `i` on; what is undecided at its end lags. */
static void lens_read(struct lens *l, struct view_room *to, const struct view_room *of, size_t i,
		      unsigned which, bool last)
{
	enum unescape_kind k = lenses[which].kind;
	unsigned depth = lenses[which].depth;
	struct unescaped u;

	while (i < of->n) {
		size_t sign = wake_sign(k, of->p, i, of->n), begin = to->n;
		enum unescape_found f;

		f = unescape_one(k, of->p, sign, of->n, last, &u);
		show_as_it_is(to, of, i, sign - i + (sign < of->n && f == UNESCAPE_NONE));
		if (to->n > begin) {
			to->at[begin].undone |= l->gap & GAPS;
			l->gap = 0;
		}
		l->far += to->n - begin;
		i = sign + (f == UNESCAPE_NONE);
		if (f == UNESCAPE_MORE) {
			l->lag = of->n - sign;
			break;
		}
		if (f == UNESCAPE_ONE) {
			show_undone(to, of, sign, &u, depth, &l->gap);
			i = sign + u.took;
			l->far = 0;
		}
	}
}

/* A match is this lens's when an escape of every lens above is in it. What was left out before its
 * first byte is not. */
static bool view_on_end(void *context, const struct needle *n, ptrdiff_t end)
{
	const struct view *v = context;
	const struct view_room *r = v->room;
	size_t to = r->fresh + (size_t)end, from = to - n->v.n;
	uint32_t zero = (uint32_t)v->t->at;
	unsigned undone = r->at[from].undone & ALL_UNDONE,
		 all = ALL_UNDONE & (UNDONE(v->depth + 1) - 1);

	for (size_t i = from + 1; i < to; i++)
		undone |= (r->at[i].undone | r->at[i].undone >> 1) & ALL_UNDONE;
	if ((undone & all) != all)
		return true;
	return v->fn(v->context, n, (int32_t)(r->at[from].from - zero),
		     (int32_t)(r->at[to - 1].from + r->at[to - 1].n - zero));
}

static bool lens_search(struct view *v, unsigned which)
{
	const struct view_room *r = &v->views->rooms[which];
	struct seek_text t = { .before = egress_text(r->p, r->fresh),
			       .data = r->p + r->fresh,
			       .n = r->n - r->fresh,
			       .caseless = v->t->caseless };

	v->room = r;
	v->depth = lenses[which].depth;
	return seek_feed(v->views->seek, &t, view_on_end, v);
}

/* false: stop. */
static bool lens_run(struct view *v, unsigned which)
{
	const struct view_room *of = &v->views->rooms[lenses[which].of];
	struct view_room *to = &v->views->rooms[which];
	size_t reach = v->views->reach[which], i;
	struct lens *l = &v->lens[which];

	to->shows = to->ends = false;
	to->n = 0;
	if (!of->shows)
		return true;
	i = l->lag < of->fresh ? of->fresh - l->lag : 0;
	l->lag = 0;
	if (l->awake) {
		memcpy(to->p, l->p, l->kept);
		memcpy(to->at, l->at, l->kept * sizeof(*to->at));
		to->n = l->kept;
	} else {
		size_t first = wake_first(lenses[which].kind,
					  &(struct wake_text){ of->p, of->n, v->ends }, i, &l->lag);

		i = first < reach ? 0 : first - reach;
		if (first < of->n)
			show_as_it_is(to, of, i, first - i);
		else if (of->ends)
			l->lag = 0;
		if (first >= of->n)
			return true;
		i = first;
		l->awake = true;
		l->kept = 0;
	}
	to->fresh = l->kept;
	lens_read(l, to, of, i, which, v->ends);
	to->shows = true;
	if (!lens_search(v, which))
		return false;
	to->ends = of->ends || (l->far >= reach && !l->lag);
	if (to->ends) {
		lens_sleep(l);
		return true;
	}
	l->kept = to->n < reach ? to->n : reach;
	memcpy(l->p, to->p + to->n - l->kept, l->kept);
	memcpy(l->at, to->at + to->n - l->kept, l->kept * sizeof(*l->at));
	return true;
}

/* --- the stream --- */

/* Its bytes from..to, wherever they lie. */
static void stream_bytes(const struct seek_text *t, ptrdiff_t from, ptrdiff_t to, char *p)
{
	ptrdiff_t old = from < 0 ? (to < 0 ? to : 0) - from : 0;

	if (old > 0)
		memcpy(p, t->before.p + ((ptrdiff_t)t->before.n + from), (size_t)old);
	if (to > from + old)
		memcpy(p + old, t->data + from + old, (size_t)(to - from - old));
}

/* The first escape from `at` on that wakes a lens; t->n: none. Where the stream's last bytes count,
 * they are looked at in a copy. */
static ptrdiff_t first_of_all(struct view *v, ptrdiff_t at)
{
	const struct seek_text *t = v->t;
	ptrdiff_t n = (ptrdiff_t)t->n;
	struct wake_text x = { t->data, t->n, v->last };
	size_t *lag = &v->lens[ROOT].lag;

	*lag = 0;
	if (at < EDGE / 2 && t->before.n) {
		ptrdiff_t from = -(ptrdiff_t)(t->before.n < EDGE ? t->before.n : EDGE);
		ptrdiff_t to = n < EDGE ? n : EDGE, stop = n < EDGE / 2 ? n : EDGE / 2;
		char room[2 * EDGE];
		struct wake_text edge = { room, (size_t)(to - from), v->last && to == n };

		stream_bytes(t, from, to, room);
		at = from +
		     (ptrdiff_t)wake_near(&edge, (size_t)(at - from), (size_t)(stop - from), lag);
		if (at < stop || *lag)
			return *lag ? n : at;
	}
	return at < n ? (ptrdiff_t)wake_far(&x, (size_t)at, lag) : n;
}

/* What stands around at..to is shown to the lenses. */
static void root_show(struct view *v, ptrdiff_t at, ptrdiff_t to)
{
	struct view_room *r = &v->views->rooms[ROOT];
	ptrdiff_t from = at - (ptrdiff_t)v->views->reach[ROOT];

	if (from < -(ptrdiff_t)v->t->before.n)
		from = -(ptrdiff_t)v->t->before.n;
	stream_bytes(v->t, from, to, r->p);
	r->n = (size_t)(to - from);
	for (size_t i = 0; i < r->n; i++)
		r->at[i] = (struct view_place){ .from = (uint32_t)(v->t->at + from) + (uint32_t)i,
						.n = 1 };
	r->fresh = (size_t)(at - from);
	r->shows = true;
}

static bool any_awake(const struct view *v)
{
	bool any = false;

	for (unsigned i = ROOT + 1; i < LENSES; i++)
		any |= v->lens[i].awake || v->lens[i].lag;
	return any;
}

/* 0, 1 or -ENOMEM. */
static int look_through(struct view *v)
{
	ptrdiff_t n = (ptrdiff_t)v->t->n, at = 0;

	if (!v->lens[ROOT].awake)
		at = -(ptrdiff_t)v->lens[ROOT].lag;
	if (at < -(ptrdiff_t)v->t->before.n)
		at = -(ptrdiff_t)v->t->before.n;
	do {
		ptrdiff_t to;

		if (!v->lens[ROOT].awake)
			at = first_of_all(v, at);
		if (at >= n && !v->lens[ROOT].awake)
			break;
		v->slept = false;
		if (!view_make_room(v))
			return -ENOMEM;
		to = at + (v->lens[ROOT].awake ? SLICE : FIRST);
		to = to < n ? to : n;
		v->ends = v->last && to == n;
		root_show(v, at, to);
		v->lens[ROOT].awake = true;
		for (unsigned i = ROOT + 1; i < LENSES; i++)
			if (!lens_run(v, i))
				return 1;
		v->lens[ROOT].awake = any_awake(v);
		at = to;
	} while (at < n);
	return 0;
}

int view_feed(struct view *v, const struct seek_text *t, bool last, view_fn *fn, void *context)
{
	int r;

	v->t = t;
	v->last = last;
	v->fn = fn;
	v->context = context;
	v->slept = false;
	if (!v->views->n_needles)
		return 0;
	if (!lines_feed(v->views->lines, t, fn, context))
		return 1;
	v->slept = !v->lens[ROOT].lag;
	r = look_through(v);
	v->slept &= !v->lens[ROOT].lag;
	return r;
}

bool view_slept(const struct view *v)
{
	return v->slept;
}

static bool is_line_end(char c)
{
	return c == '\n' || c == '\r';
}

/* Across which bytes of 0x20 and less a form may go on: what is NUL in UTF-16, and the ends of
 * lines there, the end of a quoted line, and that of one in base64 unless something else is known
 * to follow. */
bool view_goes_on(const char *p, size_t at, size_t n)
{
	char before = at ? p[at - 1] : ' ', more = at > 1 ? p[at - 2] : ' ';
	struct unescaped u;
	size_t end = at;

	if (!p[at])
		return (unsigned char)before > 0x20 || (is_line_end(before) && !more);
	if (!is_line_end(p[at]))
		return false;
	if (!before)
		return (unsigned char)more > 0x20 || is_line_end(more);
	if (p[at] == '\n' && before == '\r')
		end--;
	if (end && p[end - 1] == '=')
		return true;
	return unescape_one(UNESCAPE_LINES, p, end, n, false, &u) != UNESCAPE_NONE;
}
