/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/unpack/peel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "egress/unpack/archive_walk.h"

#define MEMORY ((size_t)20 << 20)
#define CONTENT ((uint64_t)256 << 20)
#define SWELL_RATIO 1100 /* a little more than the best that deflate can do */
#define SWELL_FREE ((uint64_t)8 << 20)
#define PATIENCE_US ((uint64_t)2 * 1000 * 1000)
#define OUT_CHUNK 65536
#define ZIP_LEAST 22 /* the shortest end of one */

enum peel_text_state {
	TEXT_BEGINS, /* what it is packed in is not clear yet */
	TEXT_READS,
	TEXT_BETWEEN, /* one of its kind is over, and another may begin */
	TEXT_PLAIN,
	TEXT_OVER, /* nothing may follow */
};

/* A text, and what it is packed in. */
struct peel_text {
	struct peel *e;
	struct peel_text *of;
	unsigned depth;
	unsigned coding; /* so many codings were said from here on */
	bool told, began, over, sure;
	bool behind; /* something that has ended: zeros fill up records */
	bool zipped; /* a zip: whoever reads it begins at the end */
	enum peel_text_state state;
	enum packed_as packing;
	char start[PACKING_START];
	size_t n_start;
	struct codec *codec;
	struct zip_walk *zip;
	struct tar_walk *tar;
	struct peel_text *inner; /* what it says, or its member at hand */
	char *out;
};

struct peel {
	struct codec_pool pool;
	enum packed_as codings[PEEL_CODINGS];
	unsigned n_codings, depth;
	bool stopped; /* nothing but what was said is read any more */
	enum unreadable unreadable;
	struct peel_text *body;
	struct peel_spent *spent;
	uint64_t said; /* bytes that the codings that were said made */
	uint64_t taken;
	uint64_t call_in, call_said;
	uint64_t since; /* of the processor's time */
	peel_told *tell;
	void *arg;
};

static int text_feed(struct peel_text *t, const char *p, size_t n);
static int text_end(struct peel_text *t);

/* ---- making ---- */

static struct peel_text *text_new(struct peel *e, struct peel_text *of, bool told)
{
	struct peel_text *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->e = e;
	t->of = of;
	t->depth = of ? of->depth + 1 : e->depth;
	t->told = told;
	t->coding = !of ? e->n_codings : of->coding ? of->coding - 1 : 0;
	/* Nothing is told of the way from one coding to the next. */
	if (t->coding)
		t->told = false;
	return t;
}

static void text_drop(struct peel_text *t)
{
	t->codec = codec_free(t->codec);
	t->zip = zip_walk_free(t->zip);
	t->tar = tar_walk_free(t->tar);
	free(t->out);
	t->out = NULL;
}

static struct peel_text *text_free(struct peel_text *t)
{
	while (t) {
		struct peel_text *inner = t->inner;

		text_drop(t);
		free(t);
		t = inner;
	}
	return NULL;
}

struct peel *peel_new(const struct peel_want *w)
{
	struct peel *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->pool = (struct codec_pool){ .most = MEMORY, .of = w->memory };
	e->n_codings = w->n_codings < PEEL_CODINGS ? w->n_codings : PEEL_CODINGS;
	memcpy(e->codings, w->codings, sizeof(e->codings));
	e->depth = w->depth;
	e->body = text_new(e, NULL, false);
	return e->body ? e : peel_free(e);
}

struct peel *peel_free(struct peel *e)
{
	if (e)
		e->body = text_free(e->body);
	free(e);
	return NULL;
}

/* ---- bounds ---- */

static uint64_t peel_clock(void)
{
	struct timespec t = { 0 };

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void peel_note(struct peel *e, enum unreadable why)
{
	if (e->unreadable == UNREADABLE_NOT)
		e->unreadable = why;
}

/* Between two steps. What was said is read to its end, whatever it takes, as a browser would. */
static int peel_paced(struct peel *e, const struct peel_text *t)
{
	uint64_t now;

	if (t->coding)
		return 0;
	if (e->stopped)
		return -ESTALE;
	now = peel_clock();
	e->spent->us += now - e->since;
	e->since = now;
	return e->spent->us > PATIENCE_US ? -ETIME : 0;
}

static int peel_swells(struct peel *e, const struct peel_text *t, size_t n)
{
	if (t->of && t->of->coding) {
		e->said += n;
		e->call_said += n;
		return (e->said > SWELL_FREE && e->said / SWELL_RATIO > e->taken) ||
				       (e->call_said > SWELL_FREE &&
					e->call_said / SWELL_RATIO > e->call_in)
			       ? -EFBIG
			       : 0;
	}
	e->spent->out += n;
	return e->spent->out > CONTENT || (e->spent->out > SWELL_FREE &&
					   e->spent->out / SWELL_RATIO > e->spent->in)
		       ? -EFBIG
		       : 0;
}

static int text_tell(struct peel_text *t, const char *p, size_t n, bool ends)
{
	struct peel_piece piece = { .depth = t->depth, .ends = ends, .p = p, .n = n };

	if (!t->told || (ends && !t->began))
		return 0;
	piece.begins = !t->began;
	if (piece.begins)
		piece.is = content_class(p, n);
	t->began = true;
	return t->e->tell(t->e->arg, &piece);
}

/* ---- members ---- */

static int member_begins(void *arg, bool packed)
{
	struct peel_text *t = arg;

	t->inner = text_new(t->e, t, packed);
	return t->inner ? 0 : -ENOMEM;
}

static int member_data(void *arg, const char *p, size_t n)
{
	struct peel_text *t = arg;
	int r = t->inner->told ? peel_swells(t->e, t->inner, n) : 0;

	return r < 0 ? r : text_feed(t->inner, p, n);
}

static int member_ends(void *arg)
{
	struct peel_text *t = arg;
	int r = text_end(t->inner);

	t->inner = text_free(t->inner);
	return r;
}

static void member_unreadable(void *arg, enum unreadable why)
{
	struct peel_text *t = arg;

	peel_note(t->e, why);
}

static int member_paced(void *arg)
{
	struct peel_text *t = arg;

	return peel_paced(t->e, t);
}

static const struct members_ops members = { member_begins, member_data, member_ends,
					    member_unreadable, member_paced };

/* ---- reading ---- */

static int text_open(struct peel_text *t)
{
	struct codec_pool *pool = &t->e->pool;
	bool opened;

	if (t->packing == PACKING_ZIP) {
		t->zip = zip_walk_new(pool, &members, t);
		opened = t->zip;
	} else if (t->packing == PACKING_TAR) {
		t->tar = tar_walk_new(pool, &members, t);
		opened = t->tar;
	} else {
		t->codec = codec_new(t->packing, pool);
		if (!t->inner)
			t->inner = text_new(t->e, t, true);
		if (!t->out)
			t->out = malloc(OUT_CHUNK);
		opened = t->codec && t->inner && t->out;
	}
	t->state = TEXT_READS;
	return opened ? 0 : -ENOMEM;
}

/* The stream is over; *p and *n are what is left behind it. */
static void text_closes(struct peel_text *t)
{
	t->codec = codec_free(t->codec);
	t->state = t->coding && t->packing != PACKING_GZIP && t->packing != PACKING_ZSTD
			   ? TEXT_OVER
			   : TEXT_BETWEEN;
	t->behind = true;
	t->n_start = 0;
}

static int text_read_codec(struct peel_text *t, const char **p, size_t *n)
{
	struct codec_io io = { .in = *p, .in_n = *n, .room = OUT_CHUNK };
	bool full;

	do {
		int r, given;

		io.out = t->out;
		io.out_n = 0;
		r = codec_step(t->codec, &io);
		*p = io.in;
		*n = io.in_n;
		full = io.out_n == OUT_CHUNK;
		given = io.out_n ? peel_swells(t->e, t->inner, io.out_n) : 0;
		if (given == 0 && io.out_n)
			given = text_feed(t->inner, t->out, io.out_n);
		if (given == 0)
			given = peel_paced(t->e, t);
		if (given < 0 || r < 0)
			return given < 0 ? given : r;
		if (r == CODEC_ENDS) {
			text_closes(t);
			return 0;
		}
	} while (*n || full);
	return 0;
}

static int text_read_members(struct peel_text *t, const char **p, size_t *n)
{
	bool over = false;
	size_t left = *n;
	int r = t->zip ? zip_walk_feed(t->zip, *p, *n, &over, &left)
		       : tar_walk_feed(t->tar, *p, *n, &over, &left);

	*p += *n - left;
	*n = left;
	if (r < 0 || !over)
		return r;
	t->zipped = t->zip;
	text_drop(t);
	t->state = TEXT_BEGINS;
	t->behind = true;
	t->n_start = 0;
	return 0;
}

/* What it holds cannot be read: for a coding that was said that is the end, all else goes on
 * unread. */
static int text_gives_up(struct peel_text *t, int r)
{
	struct peel *e = t->e;

	if (t->coding || r == -ECANCELED)
		return r;
	if (r == -EBADMSG && !t->sure && !t->zipped)
		r = 0;
	else if (r == -EBADMSG)
		peel_note(e, UNREADABLE_BROKEN);
	else if (r == -EFBIG)
		peel_note(e, UNREADABLE_BIG);
	else if (r == -ETIME)
		peel_note(e, UNREADABLE_SLOW);
	else if (r == -ENOMEM)
		peel_note(e, UNREADABLE_MEMORY);
	else if (r != -ESTALE)
		return r;
	e->stopped |= r == -EFBIG || r == -ETIME;
	r = t->inner ? text_end(t->inner) : 0;
	t->inner = text_free(t->inner);
	text_drop(t);
	t->state = TEXT_PLAIN;
	return r;
}

static int text_takes(struct peel_text *t, const char *p, size_t n);

static int text_inner_ends(struct peel_text *t)
{
	int r = t->inner ? text_end(t->inner) : 0;

	t->inner = text_free(t->inner);
	return r;
}

/* Gathered is enough to say what begins here. Of a text that goes on behind one packing the same
 * again belongs to it; padding does not count. */
static int text_decides(struct peel_text *t, bool last)
{
	size_t n = t->n_start;
	char start[PACKING_START];
	bool more = false;
	int r;

	memcpy(start, t->start, n);
	if (t->state == TEXT_BETWEEN) {
		bool again = packing_again(t->packing, start, n);

		if (!again && !last && n < 10)
			return 0;
		if (!again && t->coding)
			return -EBADMSG;
		if (!again) {
			r = text_inner_ends(t);
			t->state = TEXT_BEGINS;
			return r < 0 ? r : text_decides(t, last);
		}
	} else if (t->coding) {
		t->packing = t->e->codings[t->e->n_codings - t->coding];
		if (t->packing == PACKING_DEFLATE && n < 2 && !last)
			return 0;
		/* zlib's by the book and bare in practice: the first two bytes tell. */
		if (t->packing == PACKING_DEFLATE)
			t->packing = n > 1 && (start[0] & 15) == 8 &&
						     ((unsigned char)start[0] * 256 +
						      (unsigned char)start[1]) %
								     31 ==
							     0
					     ? PACKING_ZLIB
					     : PACKING_BARE;
	} else {
		t->packing = packing_of(start, n, &more, &t->sure);
		if (t->packing == PACKING_NONE) {
			t->state = more && !last ? TEXT_BEGINS : TEXT_PLAIN;
			if (t->zipped && t->state == TEXT_PLAIN && n >= ZIP_LEAST)
				peel_note(t->e, UNREADABLE_BROKEN);
			return 0;
		}
		if (t->depth - t->e->n_codings >= PEEL_DEPTH) {
			if (t->sure)
				peel_note(t->e, UNREADABLE_DEEP);
			t->state = TEXT_PLAIN;
			return 0;
		}
	}
	t->n_start = 0;
	r = text_open(t);
	return r < 0 ? r : text_takes(t, start, n);
}

static int text_gathers(struct peel_text *t, const char **p, size_t *n)
{
	size_t k = PACKING_START - t->n_start;

	if (t->behind && !t->coding && !t->n_start)
		while (*n && !**p) {
			(*p)++;
			(*n)--;
		}
	/* Most of it is told by the first few. */
	if (t->n_start < 16 && k > 16 - t->n_start)
		k = 16 - t->n_start;
	k = k < *n ? k : *n;
	memcpy(t->start + t->n_start, *p, k);
	t->n_start += k;
	*p += k;
	*n -= k;
	return t->n_start ? text_decides(t, false) : 0;
}

/* The bytes go to whatever reads them. */
static int text_takes(struct peel_text *t, const char *p, size_t n)
{
	int r = 0;

	while (n && r == 0) {
		if (t->state == TEXT_PLAIN)
			return 0;
		if (t->e->stopped && !t->coding)
			r = -ESTALE;
		else if (t->state == TEXT_OVER)
			r = -EBADMSG;
		else if (t->state != TEXT_READS)
			r = text_gathers(t, &p, &n);
		else if (t->codec)
			r = text_read_codec(t, &p, &n);
		else
			r = text_read_members(t, &p, &n);
	}
	return r < 0 ? text_gives_up(t, r) : 0;
}

static int text_feed(struct peel_text *t, const char *p, size_t n)
{
	int r = text_tell(t, p, n, false);

	return r < 0 ? r : text_takes(t, p, n);
}

static bool text_whole(const struct peel_text *t)
{
	return t->zip ? zip_walk_whole(t->zip) : t->tar ? tar_walk_whole(t->tar) : !t->codec;
}

static int text_end(struct peel_text *t)
{
	int r = 0;

	if (t->over)
		return 0;
	t->over = true;
	if ((t->state == TEXT_BEGINS || t->state == TEXT_BETWEEN) && t->n_start &&
	    !(t->e->stopped && !t->coding))
		r = text_decides(t, true);
	if (r < 0)
		r = text_gives_up(t, r);
	if (r == 0 && t->state == TEXT_READS && !text_whole(t))
		r = text_gives_up(t, -EBADMSG);
	if (r == 0)
		r = text_inner_ends(t);
	return r < 0 ? r : text_tell(t, "", 0, true);
}

/* ---- feeding ---- */

int peel_feed(struct peel *e, const char *p, size_t n, bool last, struct peel_spent *spent,
	      peel_told *told, void *arg)
{
	int r;

	e->spent = spent;
	e->tell = told;
	e->arg = arg;
	e->since = peel_clock();
	e->call_in = n;
	e->call_said = 0;
	e->taken += n;
	spent->in += n;
	r = n ? text_feed(e->body, p, n) : 0;
	if (r == 0 && last)
		r = text_end(e->body);
	return r;
}

enum unreadable peel_unreadable(const struct peel *e)
{
	return e->unreadable;
}

bool peel_idle(const struct peel *e)
{
	return e->body->state == TEXT_PLAIN && !e->body->coding;
}
