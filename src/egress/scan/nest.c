/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/scan/nest.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/buf.h"
#include "base/text/cleanup.h"

#define DEPTHS (PEEL_DEPTH + PEEL_CODINGS + 1)
#define RUN_LEAST 24 /* bytes that a run has to say before anybody reads it */
#define MARK_MOST 74 /* "\r\n--" and seventy signs */
#define PARTS_ROOM ((size_t)1 << 20)
#define DECODED 3072
#define QUEUE_MOST ((size_t)8 << 20)
#define LATERS_MOST 4096

/* What a run of base64 says. It is read later: who finds it is in the middle of a scan, or of what
 * the unpacker says. */
struct nest_later {
	struct nest_later *next;
	struct nest *inner;
	unsigned depth;
	struct buf said; /* not read yet */
	bool over;
};

struct nest_run {
	struct nest_later *later;
	char begins[RUN_LEAST];
	size_t n;
	uint32_t bits;
	unsigned n_bits;
};

struct nest_text {
	struct nest *of;
	unsigned depth;
	struct scan *scan;
	struct nest_run run;
};

enum nest_state { NEST_STARTS, NEST_READS, NEST_PLAIN };

struct nest {
	struct nest_want want;
	struct nest *top;
	unsigned depth;
	struct peel_spent spent; /* of the top alone, like the next two */
	enum unreadable unreadable;
	bool packed;
	struct nest_later *laters;
	size_t queued, n_laters;

	struct nest_text own;
	struct nest_text texts[DEPTHS]; /* unpacked, by their depth */
	enum nest_state state;
	char start[PACKING_START];
	size_t n_start;
	struct unpack_body *body;

	bool looked, parts, in_head; /* at the first bytes; it is in parts */
	char mark[MARK_MOST + 1];
	size_t n_mark;
	struct buf hold;
	struct egress_verdict *v; /* of the call at hand */
};

/* ---- making ---- */

static struct nest *nest_make(const struct nest_want *w, struct nest *top, unsigned depth)
{
	struct nest *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->want = *w;
	(void)scanner_hold(w->scanner);
	n->top = top ? top : n;
	n->depth = depth;
	n->hold = (struct buf)BUF_INIT(PARTS_ROOM);
	n->own = (struct nest_text){ .of = n, .depth = depth };
	for (unsigned i = 0; i < DEPTHS; i++)
		n->texts[i] = (struct nest_text){ .of = n, .depth = i };
	return n;
}

int nest_new(const struct nest_want *w, struct nest **ret, struct err *e)
{
	*ret = nest_make(w, NULL, 0);
	return *ret ? 0 : err_nomem(e);
}

static void nest_text_close(struct nest_text *t)
{
	t->scan = scan_close(t->scan);
	if (t->run.later)
		t->run.later->over = true;
	t->run = (struct nest_run){ 0 };
}

struct nest *nest_free(struct nest *n)
{
	if (!n)
		return NULL;
	nest_text_close(&n->own);
	for (unsigned i = 0; i < DEPTHS; i++)
		nest_text_close(&n->texts[i]);
	for (struct nest_later *l = n->laters, *next; l; l = next) {
		next = l->next;
		(void)nest_free(l->inner);
		buf_done(&l->said);
		free(l);
	}
	(void)unpacking_free(n->body);
	buf_done(&n->hold);
	scanner_release(n->want.scanner);
	free(n);
	return NULL;
}

bool nest_packed(const struct nest *n)
{
	return n->packed;
}

enum unreadable nest_unreadable(const struct nest *n)
{
	return n->unreadable;
}

static void nest_note(struct nest *n, enum unreadable why)
{
	if (n->top->unreadable == UNREADABLE_NOT)
		n->top->unreadable = why;
}

/* ---- texts ---- */

static bool nest_on_run(void *context, const char *p, size_t len, bool ends,
			struct egress_verdict *v);

static bool nest_out_of_memory(struct egress_verdict *v)
{
	return verdict_deny(v, EGRESS_INTERNAL, NULL, "no memory");
}

/* Pixels and machine code look like anything; what was packed by itself is looked at all the same.
 */
static bool nest_text_open(struct nest_text *t, enum content_class is, struct egress_verdict *v)
{
	const struct nest_want *w = &t->of->want;
	struct err e = { 0 };

	nest_text_close(t);
	if (scan_open(w->scanner, w->direction, &t->scan, &e) < 0)
		return nest_out_of_memory(v);
	scan_keep(t->scan);
	if (w->direction == SCAN_IN)
		scan_stops(t->scan);
	if (w->direction == SCAN_IN || (is != CONTENT_TEXT && t->depth > 1))
		scan_values(t->scan);
	scan_packed(t->scan, nest_on_run, t);
	return true;
}

static bool nest_text_feed(struct nest_text *t, char *p, size_t n, bool last,
			   struct egress_verdict *v)
{
	struct scan_release ignored;

	if (!t->scan)
		return true;
	if (!scan_feed(t->scan, p, n, last, &ignored, v))
		return false;
	if (last)
		nest_text_close(t);
	return true;
}

bool nest_piece(struct nest *n, const struct peel_piece *piece, char *p, struct egress_verdict *v)
{
	struct nest_text *t = &n->texts[piece->depth < DEPTHS ? piece->depth : DEPTHS - 1];

	n->top->packed = true;
	if (piece->begins && !nest_text_open(t, piece->is, v))
		return false;
	return nest_text_feed(t, p, piece->n, piece->ends, v);
}

/* ---- what is packed ---- */

static int nest_told(void *arg, const struct peel_piece *piece, char *p)
{
	struct nest *n = arg;

	return nest_piece(n, piece, p, n->v) ? 0 : -EPERM;
}

static bool nest_unpacks(struct nest *n, const char *p, size_t len, bool last)
{
	int r = n->body->idle && n->body->unreadable != UNREADABLE_GONE
			? 0
			: unpacking_feed(n->body, p, len, last, nest_told, n);

	if (n->body->unreadable)
		nest_note(n, n->body->unreadable);
	if (r == -EPERM)
		return false;
	if (r < 0 || last)
		n->state = NEST_PLAIN;
	return true;
}

static bool nest_decides(struct nest *n, bool last)
{
	const struct unpack_want w = { .depth = n->depth };
	bool more, sure;
	enum packed_as k = packing_of(n->start, n->n_start, &more, &sure);

	if (k == PACKING_NONE) {
		n->state = more && !last ? NEST_STARTS : NEST_PLAIN;
		return true;
	}
	if (n->depth >= PEEL_DEPTH) {
		nest_note(n, UNREADABLE_DEEP);
		n->state = NEST_PLAIN;
		return true;
	}
	n->body = unpacking_free(n->body);
	if (unpacking_new(n->want.unpack, &w, &n->top->spent, &n->body) < 0)
		return nest_out_of_memory(n->v);
	n->top->packed = true;
	n->state = NEST_READS;
	return nest_unpacks(n, n->start, n->n_start, false);
}

static bool nest_source(struct nest *n, const char *p, size_t len, bool last)
{
	while (len && n->state == NEST_STARTS) {
		/* Most is told by the first few. */
		size_t to = n->n_start < 16 ? 16 : PACKING_START, k = to - n->n_start;

		k = k < len ? k : len;
		memcpy(n->start + n->n_start, p, k);
		n->n_start += k;
		p += k;
		len -= k;
		if (!nest_decides(n, false))
			return false;
	}
	if (last && n->state == NEST_STARTS && n->n_start && !nest_decides(n, true))
		return false;
	return n->state != NEST_READS || nest_unpacks(n, p, len, last);
}

static void nest_again(struct nest *n)
{
	n->state = NEST_STARTS;
	n->n_start = 0;
}

/* ---- parts ---- */

static void nest_drop(struct nest *n, size_t k)
{
	n->hold.len -= k;
	memmove(n->hold.data, n->hold.data + k, n->hold.len);
}

/* A part's head, or its content up to the mark; false with *more: not all of it is there. */
static bool nest_part(struct nest *n, bool last, bool *more)
{
	const char *p = buf_str(&n->hold), *sign = n->in_head ? "\r\n\r\n" : n->mark;
	size_t len = n->in_head ? 4 : n->n_mark, keep = len - 1;
	const char *at = memmem(p, n->hold.len, sign, len);
	size_t k = at ? (size_t)(at - p) : n->hold.len > keep ? n->hold.len - keep : 0;

	*more = at == NULL;
	if (n->in_head) {
		nest_drop(n, at ? k + len : k);
		n->in_head = !at;
		return true;
	}
	if (!at && last)
		k = n->hold.len;
	if ((k || at) && !nest_source(n, p, k, at != NULL || last))
		return false;
	nest_drop(n, at ? k + len : k);
	if (at) {
		n->in_head = true;
		nest_again(n);
	}
	return true;
}

static bool nest_parts(struct nest *n, const char *p, size_t len, bool last)
{
	bool more = false;

	buf_add(&n->hold, p, len);
	if (n->hold.failed)
		return nest_out_of_memory(n->v);
	while (!more)
		if (!nest_part(n, last, &more))
			return false;
	return true;
}

/* A body of parts begins with the mark between them, whatever its head said. */
static void nest_looks(struct nest *n, const char *p, size_t len)
{
	const char *end = len > 4 && memcmp(p, "--", 2) == 0
				  ? memchr(p, '\r', len < MARK_MOST ? len : MARK_MOST)
				  : NULL;

	n->looked = true;
	if (!end || end - p < 3)
		return;
	n->parts = n->in_head = true;
	n->n_mark = (size_t)(end - p) + 2;
	memcpy(n->mark, "\r\n", 2);
	memcpy(n->mark + 2, p, n->n_mark - 2);
}

bool nest_feed(struct nest *n, const char *p, size_t len, bool last, struct egress_verdict *v)
{
	n->v = v;
	if (len && !n->looked)
		nest_looks(n, p, len);
	if (n->parts)
		return nest_parts(n, p, len, last);
	return n->state == NEST_PLAIN || nest_source(n, p, len, last);
}

/* ---- runs of base64 ---- */

static int sixty_four(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

static struct nest_later *nest_later_new(struct nest_text *t)
{
	struct nest *top = t->of->top;
	struct nest_later **at = &top->laters, *l;

	if (t->depth >= PEEL_DEPTH || top->n_laters == LATERS_MOST) {
		nest_note(top, t->depth >= PEEL_DEPTH ? UNREADABLE_DEEP : UNREADABLE_BIG);
		return NULL;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		nest_note(top, UNREADABLE_MEMORY);
		return NULL;
	}
	l->depth = t->depth + 1;
	l->said = (struct buf)BUF_INIT(QUEUE_MOST);
	while (*at)
		at = &(*at)->next;
	*at = l;
	top->n_laters++;
	top->packed = true;
	return l;
}

static void nest_queue(struct nest_text *t, const char *p, size_t n)
{
	struct nest_later *l = t->run.later;
	struct nest *top = t->of->top;

	if (top->queued + n > QUEUE_MOST) {
		nest_note(top, UNREADABLE_BIG);
		return;
	}
	top->queued += n;
	buf_add(&l->said, p, n);
}

static void nest_said(struct nest_text *t, const char *p, size_t len)
{
	struct nest_run *r = &t->run;
	size_t k = RUN_LEAST - r->n < len ? RUN_LEAST - r->n : len;

	if (r->n < RUN_LEAST) {
		memcpy(r->begins + r->n, p, k);
		r->n += k;
		if (r->n < RUN_LEAST)
			return;
		r->later = nest_later_new(t);
		if (r->later)
			nest_queue(t, r->begins, r->n);
		p += k;
		len -= k;
	}
	if (r->later && len)
		nest_queue(t, p, len);
}

/* What waits of one run. */
static bool nest_reads(struct nest *top, struct nest_later *l, struct egress_verdict *v)
{
	CLEANUP(buf) struct buf b = l->said;
	bool over = l->over;

	l->said = (struct buf)BUF_INIT(QUEUE_MOST);
	top->queued -= b.len < top->queued ? b.len : top->queued;
	if (b.failed)
		return nest_out_of_memory(v);
	if (!l->inner) {
		l->inner = nest_make(&top->want, top, l->depth);
		if (!l->inner || !nest_text_open(&l->inner->own, CONTENT_TEXT, v))
			return nest_out_of_memory(v);
	}
	return nest_feed(l->inner, buf_str(&b), b.len, over, v) &&
	       nest_text_feed(&l->inner->own, b.len ? b.data : (char[1]){ 0 }, b.len, over, v);
}

bool nest_settle(struct nest *n, struct egress_verdict *v)
{
	bool more = true;

	while (more) {
		more = false;
		for (struct nest_later **at = &n->laters, *l; (l = *at);) {
			bool over = l->over;

			if (!l->said.len && !over) {
				at = &l->next;
				continue;
			}
			more = true;
			if (!nest_reads(n, l, v))
				return false;
			if (!over)
				continue;
			*at = l->next;
			n->n_laters--;
			(void)nest_free(l->inner);
			buf_done(&l->said);
			free(l);
		}
	}
	return true;
}

static bool nest_on_run(void *context, const char *p, size_t len, bool ends,
			struct egress_verdict *v UNUSED)
{
	struct nest_text *t = context;
	struct nest_run *r = &t->run;
	char out[DECODED + 4];
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int six = sixty_four(p[i]);

		if (six < 0)
			continue;
		r->bits = r->bits << 6 | (uint32_t)six;
		r->n_bits += 6;
		if (r->n_bits >= 8) {
			r->n_bits -= 8;
			out[n++] = (char)(r->bits >> r->n_bits & 0xff);
		}
		if (n == DECODED) {
			nest_said(t, out, n);
			n = 0;
		}
	}
	nest_said(t, out, n);
	if (ends) {
		if (r->later)
			r->later->over = true;
		*r = (struct nest_run){ 0 };
	}
	return true;
}

bool nest_run(void *nest, const char *p, size_t len, bool ends, struct egress_verdict *v)
{
	struct nest *n = nest;

	return nest_on_run(&n->own, p, len, ends, v);
}
