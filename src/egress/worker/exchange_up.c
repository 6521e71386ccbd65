/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange_up.c - the body of a request on its way up: scanned, then framed anew. */
#include <string.h>

#include "base/text/cleanup.h"
#include "egress/worker/exchange_internal.h"

struct decoded {
	struct exchange *x;
	struct egress_verdict *v;
};

/* What the body says, in the coding or without one; what is released of it is not for sending. What
 * it is packed in below a coding the decoder tells. */
static bool scan_said(struct exchange *x, char *p, size_t n, bool last, struct egress_verdict *v)
{
	struct scan_release ignored;

	x->d->turn += n;
	x->decoded += n;
	if (!exchange_budget_up(x, p, n, last, v))
		return false;
	if (!decoder_decodes(x->decoder) && !nest_feed(x->nest_up, p, n, last, v))
		return false;
	return x->json_up ? json_scan_feed(x->json_up, p, n, last, exchange_piece(x), v)
			  : scan_feed(x->scan_up, p, n, last, &ignored, v);
}

static int scan_decoded(void *context, char *p, size_t n, struct err *e UNUSED)
{
	struct decoded *d = context;

	return scan_said(d->x, p, n, false, d->v) ? 0 : -EPERM;
}

static int broken_chunks(struct err *e)
{
	return err_set(e, ERR_INTERNAL, EBADMSG, "chunks that are malformed");
}

/* What is in the chunks of aws-chunked; behind the last of them nothing is. */
static int feed_wrapped(struct exchange *x, const char *p, size_t n, bool last, struct decoded *d,
			struct err *e)
{
	while (n) {
		struct http1_text piece;
		ssize_t took = http1_body_read(&x->wrapped, p, n, &piece);
		int r = 0;

		if (took <= 0)
			return broken_chunks(e);
		if (piece.n)
			r = decoder_feed(x->decoder, piece.p, piece.n, false, scan_decoded, d, e);
		if (r < 0)
			return r;
		p += took;
		n -= (size_t)took;
	}
	if (last && !http1_body_done(&x->wrapped))
		return broken_chunks(e);
	return last ? decoder_feed(x->decoder, "", 0, true, scan_decoded, d, e) : 0;
}

static int scan_deeper(void *context, const struct peel_piece *piece, char *p, struct err *e UNUSED)
{
	struct decoded *d = context;

	return nest_piece(d->x->nest_up, piece, p, d->v) ? 0 : -EPERM;
}

/* Nothing can be taken out of a coded body: it passes as it is or not at all. */
static bool check_coded(struct exchange *x, char *p, size_t n, bool last, struct egress_verdict *v)
{
	struct decoded d = { .x = x, .v = v };
	struct scan_release ignored;
	struct err e = { 0 };
	char none[1] = "";
	int r;

	if (!scan_feed(x->scan_coded, p, n, last, &ignored, v))
		return false;
	decoder_tell(x->decoder, scan_deeper, &d);
	r = x->unwraps ? feed_wrapped(x, p, n, last, &d, &e)
		       : decoder_feed(x->decoder, p, n, last, scan_decoded, &d, &e);
	if (r == -EPERM || !packed_unread(x, decoder_unreadable(x->decoder), v))
		return false;
	if (r == -EPIPE && x->k->plan->leaks.strict)
		return verdict_deny(v, EGRESS_LEAK, "send the body uncoded",
				    "a request body in a content coding cannot be scanned: %s",
				    unreadable_text(UNREADABLE_GONE));
	if (r == -EPIPE)
		return packed_unread(x, UNREADABLE_GONE, v);
	if (r < 0)
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL,
				    "the request's content coding is broken");
	if (last && !scan_said(x, none, 0, true, v))
		return false;
	return nest_settle(x->nest_up, v) && packed_unread(x, nest_unreadable(x->nest_up), v);
}

/* Sends of a coded body what a token that is still to come cannot be in: nothing of a small one
 * before all of it was looked at. */
static bool send_coded(struct exchange *x, char *p, size_t n, bool last, struct egress_verdict *v)
{
	size_t out = last ? x->coded.len + n : 0;

	if (!check_coded(x, p, n, last, v))
		return false;
	buf_add(&x->coded, p, n);
	if (x->coded.failed)
		return verdict_deny(v, EGRESS_LEAK, "send the body uncoded",
				    "a coded request body that says next to nothing");
	if (!last && x->coded.len >= CODED_HOLD && x->decoded >= scan_hold(x->k->scanner))
		out = x->coded_old;
	if (out)
		x->way->ops->body(x->way, buf_str(&x->coded), out);
	if (!last && x->coded.len >= CODED_HOLD && x->decoded >= scan_hold(x->k->scanner)) {
		x->coded.len -= out;
		memmove(x->coded.data, x->coded.data + out, x->coded.len);
		x->coded_old = x->coded.len;
		x->decoded = 0;
	}
	return true;
}

/* The head of the next one stands between what ended and what follows. */
static bool next_message(struct exchange *x, struct egress_verdict *v)
{
	struct err e = { 0 };

	x->scan_up = scan_close(x->scan_up);
	return scan_open(x->k->scanner, SCAN_OUT, &x->scan_up, &e) == 0 ||
	       verdict_deny(v, EGRESS_INTERNAL, NULL, "%s", e.what);
}

/* The scan may redact in place. */
static bool send_plain(struct exchange *x, char *p, size_t n, bool last, struct egress_verdict *v)
{
	struct scan_release r = { .data = egress_text(p, n) };
	bool whole = grpc_pass(&x->msg_up, p, n) && x->scan_up;
	struct buf *out = exchange_piece(x);
	size_t ready;

	if (x->msg_up.packed && !packed_unread(x, UNREADABLE_METHOD, v))
		return false;
	if (!exchange_budget_up(x, p, n, last, v) ||
	    (x->nest_up && !packed_feed(x, x->nest_up, p, n, last, v)))
		return false;
	if (x->json_up) {
		if (!json_scan_feed(x->json_up, p, n, last, out, v))
			return false;
		r.data = egress_text(buf_str(out), out->len);
	} else if (x->scan_up && !scan_feed(x->scan_up, p, n, last || whole, &r, v)) {
		return false;
	}
	if (x->nest_up &&
	    !(nest_settle(x->nest_up, v) && packed_unread(x, nest_unreadable(x->nest_up), v)))
		return false;
	if (x->nest_up && (nest_packed(x->nest_up) || x->coded.len)) {
		buf_add(&x->coded, r.held.p, r.held.n);
		if (!packed_ready(x->nest_up, &x->coded, r.data.p, r.data.n, last, &ready))
			return verdict_deny(v, EGRESS_INTERNAL, NULL, "no memory");
		if (ready)
			x->way->ops->body(x->way, buf_str(&x->coded), ready);
		packed_gone(&x->coded, ready);
		return true;
	}
	if (r.held.n)
		x->way->ops->body(x->way, r.held.p, r.held.n);
	if (r.data.n)
		x->way->ops->body(x->way, r.data.p, r.data.n);
	return last || !whole || next_message(x, v);
}

bool exchange_send_up(struct exchange *x, char *p, size_t n, bool last)
{
	struct egress_verdict v = { 0 };

	if (!rate_sent(x->k->rate, n, &v) ||
	    !(x->decoder ? send_coded(x, p, n, last, &v) : send_plain(x, p, n, last, &v))) {
		exchange_stop(x, &v);
		return false;
	}
	x->t.bytes_out += n;
	return true;
}

bool exchange_takes(const struct exchange *x)
{
	if (exchange_is_websocket(x))
		return websocket_takes(x);
	if (x->waits_body || x->held_whole)
		return exchange_holds(x);
	return (x->state == EXCHANGE_ASKS || x->state == EXCHANGE_ANSWERS) && !x->up_done &&
	       !x->way->ops->full(x->way);
}

void exchange_body(struct exchange *x, char *p, size_t n, bool last)
{
	x->fed = true;
	if (x->waits_body) {
		exchange_hold(x, p, n, last);
		return;
	}
	if (!exchange_send_up(x, p, n, last))
		return;
	if (last)
		x->way->ops->end(x->way, (struct http1_text){ "", 0 });
	x->up_done = last;
	if (!last && exchange_told(x))
		(void)link_push(x->way->ops->link(x->way));
}

void exchange_body_end(struct exchange *x, struct http1_text trailers)
{
	CLEANUP(buf) struct buf lines = BUF_INIT(HEAD_ROOM);
	struct egress_verdict v = { 0 };
	char none[1] = "";

	if (!trailers.n || x->waits_body) {
		exchange_body(x, none, 0, true);
		return;
	}
	x->fed = true;
	if (!exchange_trailers_up(x, trailers, &lines, &v) || lines.failed) {
		exchange_stop(x, &v);
		return;
	}
	if (!exchange_send_up(x, none, 0, true))
		return;
	x->way->ops->end(x->way, (struct http1_text){ buf_str(&lines), lines.len });
	x->up_done = true;
}
