/* SPDX-License-Identifier: Apache-2.0 */
/* egress/exchange_up.c - the body of a request on its way up: scanned, then framed anew. */
#include <string.h>

#include "base/cleanup.h"
#include "egress/exchange.h"

struct decoded {
	struct session *s;
	struct egress_verdict *v;
};

static int scan_decoded(void *context, char *p, size_t n, struct err *e)
{
	struct decoded *d = context;
	struct scan_release ignored;

	(void)e;
	return scan_feed(d->s->x.scan_up, p, n, false, &ignored, d->v) ? 0 : -EPERM;
}

/* Nothing can be taken out of a coded body: what would be redacted passes as it is, what is blocked
 * is blocked. */
static bool check_coded(struct session *s, const char *p, size_t n, bool last,
			struct egress_verdict *v)
{
	struct decoded d = { .s = s, .v = v };
	struct scan_release ignored;
	struct err e = { 0 };
	char none[1] = "";
	int r = decoder_feed(s->x.decoder, p, n, last, scan_decoded, &d, &e);

	if (r == -EPERM)
		return false;
	if (r < 0)
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL,
				    "the request's content coding is broken");
	return !last || scan_feed(s->x.scan_up, none, 0, true, &ignored, v);
}

static bool check_up(struct session *s, const char *p, size_t n, bool last, struct scan_release *r,
		     struct egress_verdict *v)
{
	if (s->x.decoder)
		return check_coded(s, p, n, last, v);
	/* The scan may redact in place: the bytes are the guest's link's own. */
	return !s->x.scan_up || scan_feed(s->x.scan_up, (char *)(uintptr_t)p, n, last, r, v);
}

static bool send_up(struct session *s, const char *p, size_t n, bool last)
{
	struct exchange *x = &s->x;
	struct scan_release r = { .data = egress_text(p, n) };
	struct egress_verdict v = { 0 };

	if (!rate_sent(s->k->rate, n, &v) || !check_up(s, p, n, last, &r, &v)) {
		exchange_stop(s, &v);
		return false;
	}
	x->bytes_out += n;
	return exchange_put(&s->up->link, x->up_chunked, r.held.p, r.held.n) &&
	       exchange_put(&s->up->link, x->up_chunked, r.data.p, r.data.n);
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
