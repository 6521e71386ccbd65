/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange_up.c - the body of a request on its way up: scanned, then framed anew. */
#include <string.h>

#include "base/cleanup.h"
#include "egress/worker/exchange.h"

struct decoded {
	struct session *s;
	struct egress_verdict *v;
};

static struct buf *piece(struct session *s)
{
	struct buf *b = &s->k->piece;

	if (!b->max)
		*b = (struct buf)BUF_INIT(FLOW_MAX / 2);
	b->len = 0;
	b->failed = false;
	return b;
}

/* What the body says, in the coding or without one; what is released of it is not for sending. */
static bool scan_said(struct session *s, char *p, size_t n, bool last, struct egress_verdict *v)
{
	struct scan_release ignored;

	s->turn += n;
	s->x.decoded += n;
	return s->x.json_up ? json_scan_feed(s->x.json_up, p, n, last, piece(s), v)
			    : scan_feed(s->x.scan_up, p, n, last, &ignored, v);
}

static int scan_decoded(void *context, char *p, size_t n, struct err *e)
{
	struct decoded *d = context;

	(void)e;
	return scan_said(d->s, p, n, false, d->v) ? 0 : -EPERM;
}

/* Nothing can be taken out of a coded body: it passes as it is or not at all. */
static bool check_coded(struct session *s, const char *p, size_t n, bool last,
			struct egress_verdict *v)
{
	struct decoded d = { .s = s, .v = v };
	struct scan_release ignored;
	struct err e = { 0 };
	char none[1] = "";
	int r;

	if (!scan_feed(s->x.scan_coded, (char *)(uintptr_t)p, n, last, &ignored, v))
		return false;
	r = decoder_feed(s->x.decoder, p, n, last, scan_decoded, &d, &e);
	if (r == -EPERM)
		return false;
	if (r < 0)
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL,
				    "the request's content coding is broken");
	return !last || scan_said(s, none, 0, true, v);
}

/* Sends of a coded body what a token that is still to come cannot be in: nothing of a small one
 * before all of it was looked at. */
static bool send_coded(struct session *s, const char *p, size_t n, bool last,
		       struct egress_verdict *v)
{
	struct exchange *x = &s->x;
	size_t out = last ? x->coded.len + n : 0;

	if (!check_coded(s, p, n, last, v))
		return false;
	buf_add(&x->coded, p, n);
	if (x->coded.failed)
		return verdict_deny(v, EGRESS_LEAK, "send the body uncoded",
				    "a coded request body that says next to nothing");
	if (!last && x->coded.len >= CODED_HOLD && x->decoded >= scan_hold(s->k->scanner))
		out = x->coded_old;
	if (!exchange_put(&s->up->link, x->up_chunked, buf_str(&x->coded), out))
		s->up->link.broken = true;
	if (!last && x->coded.len >= CODED_HOLD && x->decoded >= scan_hold(s->k->scanner)) {
		x->coded.len -= out;
		memmove(x->coded.data, x->coded.data + out, x->coded.len);
		x->coded_old = x->coded.len;
		x->decoded = 0;
	}
	return true;
}

/* The bytes are the guest's link's own: the scan may redact in place. */
static bool send_plain(struct session *s, const char *p, size_t n, bool last,
		       struct egress_verdict *v)
{
	struct link *up = &s->up->link;
	bool chunked = s->x.up_chunked;
	struct scan_release r = { .data = egress_text(p, n) };
	struct buf *out = piece(s);

	if (s->x.json_up) {
		if (!json_scan_feed(s->x.json_up, p, n, last, out, v))
			return false;
		r.data = egress_text(buf_str(out), out->len);
	} else if (s->x.scan_up && !scan_feed(s->x.scan_up, (char *)(uintptr_t)p, n, last, &r, v)) {
		return false;
	}
	if (!exchange_put(up, chunked, r.held.p, r.held.n) ||
	    !exchange_put(up, chunked, r.data.p, r.data.n))
		up->broken = true;
	return true;
}

static bool send_up(struct session *s, const char *p, size_t n, bool last)
{
	struct egress_verdict v = { 0 };

	if (!rate_sent(s->k->rate, n, &v) ||
	    !(s->x.decoder ? send_coded(s, p, n, last, &v) : send_plain(s, p, n, last, &v))) {
		exchange_stop(s, &v);
		return false;
	}
	s->x.bytes_out += n;
	return !s->up->link.broken;
}

bool exchange_up(struct session *s)
{
	struct exchange *x = &s->x;
	bool moved = false;

	while (s->state == SESSION_EXCHANGE && !x->up_done && !link_full(&s->up->link) &&
	       !session_tired(s)) {
		struct http1_text piece;
		ssize_t n;

		if (http1_body_done(&x->up_body)) {
			if (!send_up(s, "", 0, true))
				return true;
			if (x->up_chunked)
				(void)link_add(&s->up->link, "0\r\n\r\n", 5);
			x->up_done = true;
			return true;
		}
		if (!s->guest.in.len && !link_fill(&s->guest))
			break;
		n = http1_body_read(&x->up_body, link_data(&s->guest),
				    s->guest.in.len < PIECE ? s->guest.in.len : PIECE, &piece);
		if (n < 0) {
			struct egress_verdict v = { 0 };

			(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL,
					   "the chunks are malformed");
			exchange_stop(s, &v);
			return true;
		}
		if (piece.n && !send_up(s, piece.p, piece.n, false))
			return true;
		link_take(&s->guest, (size_t)n);
		if (session_told(s))
			(void)link_push(&s->up->link);
		s->turn += (size_t)n;
		moved = true;
	}
	return moved;
}
