/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scrub.c - seek.h names where a form of a secret ends; what lies between is passed on.
 *
 * What is held back must tell nothing of the secret to whoever can have a text of their choice sent
 * down: it follows from the stream alone. No form has a blank or a control in it, so everything
 * behind the last such byte waits for the next one; a line, and so an event of a stream, is out
 * when it ends. A run without any is held to a constant that no form exceeds. */
#include "egress/scan/scrub.h"

#include <string.h>

#include "egress/seek/view.h"

#define SCRUBBER_BYTES ((size_t)64 << 20)
#define SLICE 16384
#define AROUND 48
/* Ranges do not overlap, and none is shorter than the shortest secret. */
#define RANGES_MAX (SLICE / SECRET_MIN + SECRET_MAX / SECRET_MIN)

struct scrub_range;

struct scrubber {
	struct arena *arena; /* holds forms of secrets */
	struct needles needles;
	struct views *views;
	const struct secret *secrets;
	bool delayed;               /* a form may have a blank in it: only the constant counts */
	struct scrub *whole;        /* for texts that are there as a whole */
	struct scrub_range *ranges; /* of the slice at hand, whose ever it is */
	struct scrubber *next;      /* which took its place; NULL: none did */
	size_t streams;             /* that are open */
};

/* From the first byte of the slice; what came earlier lies before it. */
struct scrub_range {
	ptrdiff_t from, to;
	const char *name; /* its placeholder */
	bool joined;      /* goes on from one that was replaced before */
};

struct scrub {
	struct scrubber *scrubber;
	struct view *view;
	struct decoder *decoder; /* NULL: the body has no coding */
	char *held, *tail;       /* the last bytes that came; room for the next such */
	size_t held_n, room;
	size_t unsent; /* of them: not passed on yet */
	int64_t fed, older_fed;
	struct view *older; /* of the table of before, while something is held; NULL: none */
	struct scrubber *older_of;
	unsigned hits;

	/* of the call at hand */
	size_t n_ranges;
	const struct secret *names; /* of the table that is asked */
	const char *data;
	size_t n;
	struct buf *out;
};

/* --- the scrubber --- */

static void scrub_drop(struct scrub *b)
{
	if (b->held)
		explicit_bzero(b->held, b->room);
	if (b->tail)
		explicit_bzero(b->tail, b->room);
	free(b->held);
	free(b->tail);
}

static struct scrub *scrub_free(struct scrub *b)
{
	if (!b)
		return NULL;
	(void)decoder_free(b->decoder);
	(void)view_free(b->view);
	scrub_drop(b);
	free(b);
	return NULL;
}
DEFINE_CLEANUP(scrub_whole, struct scrub *, scrub_free)

static int alloc(struct scrubber *s, struct scrub **ret, struct err *e)
{
	CLEANUP(scrub_whole) struct scrub *b = calloc(1, sizeof(*b));

	if (!b)
		return err_nomem(e);
	b->scrubber = s;
	if (view_new(s->views, &b->view, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(b);
	return 0;
}

static const struct secret *own_list(struct arena *a, const struct secret *secrets, size_t n)
{
	struct secret *own = arena_alloc(a, (n + 1) * sizeof(*own));

	if (own && n)
		memcpy(own, secrets, n * sizeof(*own));
	return own;
}

int scrubber_new(const struct secret *secrets, size_t n, bool delayed, struct scrubber **ret,
		 struct err *e)
{
	CLEANUP(scrubber) struct scrubber *s = calloc(1, sizeof(*s));

	if (!s || !(s->arena = arena_new(SCRUBBER_BYTES)))
		return err_nomem(e);
	s->secrets = own_list(s->arena, secrets, n);
	s->delayed = delayed;
	s->ranges = arena_alloc(s->arena, RANGES_MAX * sizeof(*s->ranges));
	if (!s->ranges || !s->secrets)
		return err_nomem(e);
	if (needles_new(s->arena, secrets, n, &s->needles, e) < 0 ||
	    views_new(s->arena, &s->needles, &s->views, e) < 0 || alloc(s, &s->whole, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(s);
	return 0;
}

struct scrubber *scrubber_free(struct scrubber *s)
{
	if (!s)
		return NULL;
	(void)scrub_free(s->whole);
	if (s->views)
		views_wipe(s->views);
	for (size_t i = 0; i < s->needles.n; i++)
		explicit_bzero((char *)(uintptr_t)s->needles.v[i].v.p, s->needles.v[i].v.n);
	(void)arena_free(s->arena);
	free(s);
	return NULL;
}

/* One stream fewer; one that was replaced counts as a stream of its successor. */
static void scrubber_leave(struct scrubber *s)
{
	while (s) {
		struct scrubber *next = s->next;

		if (--s->streams || !next)
			return;
		(void)scrubber_free(s);
		s = next;
	}
}

int scrubber_renew(struct scrubber **s, const struct secret *secrets, size_t n, struct err *e)
{
	struct scrubber *old = *s, *new = NULL;

	if (scrubber_new(secrets, n, old->delayed, &new, e) < 0)
		return -e->code;
	*s = new;
	old->next = new;
	old->streams++;
	new->streams++;
	scrubber_leave(old);
	return 0;
}

static void scrub_drop_older(struct scrub *b)
{
	b->older = view_free(b->older);
	if (b->older_of)
		scrubber_leave(b->older_of);
	b->older_of = NULL;
}

bool scrub_needed(const struct scrubber *s)
{
	return s->needles.n > 0;
}

int scrub_open(struct scrubber *s, struct unpack_side *u, const struct codings *codings,
	       struct scrub **ret, struct err *e)
{
	CLEANUP(scrub_whole) struct scrub *b = NULL;

	if (alloc(s, &b, e) < 0)
		return -e->code;
	if (codings && codings->n && decoder_new(u, codings, &b->decoder, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(b);
	s->streams++;
	return 0;
}

struct scrub *scrub_close(struct scrub *b)
{
	struct scrubber *s;

	if (!b)
		return NULL;
	s = b->scrubber;
	scrub_drop_older(b);
	(void)scrub_free(b);
	scrubber_leave(s);
	return NULL;
}

/* --- one slice --- */

/* Ranges come in no order but nearly so: what overlaps becomes one, the rest is put in its place.
 */
static bool scrub_on_end(void *context, const struct needle *k, ptrdiff_t from, ptrdiff_t to)
{
	struct scrub *b = context;
	ptrdiff_t first = -(ptrdiff_t)b->unsent;
	struct scrub_range *ranges = b->scrubber->ranges;
	struct scrub_range r = { from, to, b->names[k->secret].placeholder, false };
	size_t i = b->n_ranges, stop;

	b->hits++;
	if (r.from < first) {
		r.from = first;
		r.joined = true;
	}
	while (i && ranges[i - 1].from >= r.to)
		i--;
	stop = i;
	while (i && ranges[i - 1].to > r.from) {
		const struct scrub_range *x = &ranges[--i];

		r.from = x->from < r.from ? x->from : r.from;
		r.to = x->to > r.to ? x->to : r.to;
		r.joined |= x->joined;
	}
	if (i == stop && b->n_ranges == RANGES_MAX)
		return false;
	memmove(&ranges[i + 1], &ranges[stop], (b->n_ranges - stop) * sizeof(r));
	b->n_ranges = b->n_ranges - (stop - i) + 1;
	ranges[i] = r;
	return true;
}

static void scrub_put(struct scrub *b, ptrdiff_t from, ptrdiff_t to)
{
	if (from < 0 && from < to) {
		ptrdiff_t stop = to < 0 ? to : 0;

		buf_add(b->out, b->held + (ptrdiff_t)b->held_n + from, (size_t)(stop - from));
		from = stop;
	}
	if (from < to)
		buf_add(b->out, b->data + from, (size_t)(to - from));
}

typedef unsigned char bytes16 __attribute__((vector_size(16)));

/* Behind the last of the bytes that is 0x20 or less; 0: there is none. */
static size_t behind_last_low(const char *p, size_t n)
{
	bytes16 x[4], low;

	for (; n >= sizeof(x); n -= sizeof(x)) {
		uint64_t half[2];

		memcpy(x, p + n - sizeof(x), sizeof(x));
		low = (bytes16)(x[0] <= ' ') | (bytes16)(x[1] <= ' ') | (bytes16)(x[2] <= ' ') |
		      (bytes16)(x[3] <= ' ');
		memcpy(half, &low, sizeof(half));
		if (half[0] | half[1])
			break;
	}
	while (n && (unsigned char)p[n - 1] > 0x20)
		n--;
	return n;
}

/* May a form stand on both sides of data[i]? Of what came before the last bytes are enough. */
static bool goes_on(const struct scrub *b, size_t i)
{
	char room[2 * AROUND];
	size_t before = b->held_n < AROUND ? b->held_n : AROUND, n = b->n < AROUND ? b->n : AROUND;

	if (i >= AROUND / 2)
		return view_goes_on(b->data, i, b->n);
	if (before)
		memcpy(room, b->held + b->held_n - before, before);
	memcpy(room + before, b->data, n);
	return view_goes_on(room, before + i, before + n);
}

/* How many bytes at the end are held back: those behind the last blank or control, but for what a
 * form may go on across. */
static size_t open_run(const struct scrub *b)
{
	size_t n = b->scrubber->delayed ? 0 : behind_last_low(b->data, b->n), all;

	while (n && goes_on(b, n - 1))
		n = behind_last_low(b->data, n - 1);
	all = b->n - n + (n ? 0 : b->held_n);
	return all < SCRUB_HOLD ? all : SCRUB_HOLD;
}

static int scrub_make_room(struct scrub *b, size_t n, struct err *e)
{
	size_t room = b->room ? b->room : 512;
	struct scrub old = *b;

	if (n <= b->room)
		return 0;
	while (room < n)
		room *= 2;
	b->held = malloc(room);
	b->tail = malloc(room);
	b->room = room;
	if (b->held && b->tail) {
		if (old.held_n)
			memcpy(b->held, old.held, old.held_n);
		scrub_drop(&old);
		return 0;
	}
	free(b->held);
	free(b->tail);
	*b = old;
	return err_nomem(e);
}

/* Keeps the last n bytes that came, those that were replaced as well: forms may overlap. */
static int keep_tail(struct scrub *b, size_t n, struct err *e)
{
	size_t in_data = n < b->n ? n : b->n;
	char *swap;

	if (scrub_make_room(b, n, e) < 0)
		return -e->code;
	if (n > in_data)
		memcpy(b->tail, b->held + b->held_n - (n - in_data), n - in_data);
	if (in_data)
		memcpy(b->tail + n - in_data, b->data + b->n - in_data, in_data);
	swap = b->held;
	b->held = b->tail;
	b->tail = swap;
	b->held_n = n;
	return 0;
}

/* Secrets that came meanwhile count from here on. What is held may be the beginning of one that the
 * old table has: that goes on beside the new one until nothing is held. */
static int scrub_catch_up(struct scrub *b, struct err *e)
{
	struct scrubber *s = b->scrubber, *old = s;
	struct view *view = NULL;

	while (s->next)
		s = s->next;
	if (s == old)
		return 0;
	if (view_new(s->views, &view, e) < 0)
		return -e->code;
	s->streams++;
	b->scrubber = s;
	if (b->older) {
		(void)view_free(b->view);
		scrubber_leave(old);
	} else {
		b->older = b->view;
		b->older_of = old;
		b->older_fed = b->fed;
	}
	b->view = view;
	b->fed = 0;
	if (!b->held_n)
		scrub_drop_older(b);
	return 0;
}

/* Where secrets end in the slice. */
static int scrub_look(struct scrub *b, bool last, struct err *e)
{
	struct seek_text t = {
		.at = b->fed, .before = egress_text(b->held, b->held_n), .data = b->data, .n = b->n
	};
	int r;

	b->n_ranges = 0;
	b->names = b->scrubber->secrets;
	r = view_feed(b->view, &t, last, scrub_on_end, b);
	b->fed += (int64_t)b->n;
	if (r == 0 && b->older) {
		t.at = b->older_fed;
		b->names = b->older_of->secrets;
		r = view_feed(b->older, &t, last, scrub_on_end, b);
		b->older_fed += (int64_t)b->n;
	}
	return r ? err_set(e, ERR_INTERNAL, EIO, "an answer cannot be scrubbed") : 0;
}

static int slice(struct scrub *b, const char *p, size_t n, bool last, struct err *e)
{
	const struct scrubber *s = b->scrubber;
	ptrdiff_t at = -(ptrdiff_t)b->unsent;
	size_t tail, keep;

	b->data = p;
	b->n = n;
	if (scrub_look(b, last, e) < 0)
		return -e->code;
	for (size_t i = 0; i < b->n_ranges; i++) {
		const struct scrub_range *r = &s->ranges[i];

		scrub_put(b, at, r->from);
		if (!r->joined)
			buf_puts(b->out, r->name ? r->name : "[REDACTED]");
		at = r->to;
	}
	tail = last || !s->needles.n ? 0 : open_run(b);
	keep = (ptrdiff_t)tail > (ptrdiff_t)n - at ? (size_t)((ptrdiff_t)n - at) : tail;
	scrub_put(b, at, (ptrdiff_t)n - (ptrdiff_t)keep);
	if (keep_tail(b, tail, e) < 0)
		return -e->code;
	b->unsent = keep;
	if (!b->held_n)
		scrub_drop_older(b);
	return b->out->failed ? err_nomem(e) : 0;
}

static int scrub_plain(struct scrub *b, const char *p, size_t n, bool last, struct err *e)
{
	do {
		size_t take = n < SLICE ? n : SLICE;

		if (scrub_catch_up(b, e) < 0)
			return -e->code;
		if (slice(b, p, take, last && take == n, e) < 0)
			return -e->code;
		n -= take;
		p = n ? p + take : NULL;
	} while (n);
	return 0;
}

static int decoded(void *context, char *p, size_t n, struct err *e)
{
	return scrub_plain(context, p, n, false, e);
}

int scrub_feed(struct scrub *b, const char *p, size_t n, bool last, struct buf *out, struct err *e)
{
	b->out = out;
	if (!b->decoder)
		return scrub_plain(b, p, n, last, e);
	if (decoder_feed(b->decoder, p, n, last, decoded, b, e) < 0)
		return -e->code;
	return last ? scrub_plain(b, "", 0, true, e) : 0;
}

bool scrub_coded(const struct scrub *b)
{
	return b->decoder != NULL;
}

unsigned scrub_hits(const struct scrub *b)
{
	return b->hits;
}

int scrub_text(struct scrubber *s, const char *p, size_t n, struct buf *out, unsigned *hits,
	       struct err *e)
{
	struct scrub *b = s->whole;

	view_reset(b->view);
	b->fed = 0;
	b->held_n = b->unsent = 0;
	b->hits = 0;
	if (scrub_feed(b, p, n, true, out, e) < 0)
		return -e->code;
	*hits += b->hits;
	return 0;
}
