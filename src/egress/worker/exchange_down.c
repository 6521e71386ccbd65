/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange_down.c - the answer on its way down: its head written anew, its body
 * looked at and scrubbed. */
#include <string.h>

#include "base/text/cleanup.h"
#include "egress/oauth/oauth.h"
#include "egress/worker/exchange_internal.h"

#define INTERIM_MAX 16

/* A connection from the pool may have been closed just then: once more on a new one, if nothing of
 * the request would be sent twice that could matter. */
static bool try_again(struct exchange *x)
{
	static const char *const safe[] = { "GET", "HEAD", "OPTIONS" };
	bool harmless = false;

	for (size_t i = 0; i < ARRAY_LEN(safe); i++)
		harmless |= strcmp(x->t.method, safe[i]) == 0;
	if (!exchange_connection(x)->reused || x->has_body || !harmless)
		return false;
	(void)exchange_open(x, true);
	return true;
}

void exchange_scrubbed(struct exchange *x, struct buf *out, struct http1_text t)
{
	struct err e = { 0 };

	if (!x->k->scrubber)
		buf_add(out, t.p, t.n);
	else if (scrub_text(x->k->scrubber, t.p, t.n, out, &x->scrubbed, &e) < 0)
		out->failed = true; /* better no answer than one with a value in it */
}

/* Nobody asked for a part; half of a value is nothing a scrubber knows. */
static bool is_part(const struct exchange *x, const struct http1_answer *a)
{
	return x->k->scrubber && a->status == 206;
}

/* Beside a credential what is packed passes as what it says, so that no length tells how well a
 * value and a text of the guest's choice are packed together; what cannot be read does not. */
static bool is_closed(const struct exchange *x, const struct http1_answer *a)
{
	struct codings c = { 0 };
	unsigned n = 0;

	for (size_t i = 0; x->bound && i < a->n_fields; i++)
		if (a->fields[i].is == HTTP1_NAME_CONTENT_ENCODING &&
		    (++n > 1 || coding_parse(exchange_text(a->fields[i].value), &c) < 0))
			return true;
	return false;
}

/* What may not come down although it was let out. */
static bool judge_answer(const struct exchange *x, const struct http1_answer *a,
			 struct egress_verdict *v)
{
	if (is_part(x, a))
		return verdict_deny(v, EGRESS_CREDENTIAL_MISUSE, NULL,
				    "a part of an answer, while the run has a credential");
	if (is_closed(x, a))
		return verdict_deny(
			v, EGRESS_BAD_ANSWER,
			"have the host send it as it is, or ask a name that no "
			"credential is bound to",
			"%s sent an answer in a content coding that the door cannot read, although "
			"it was asked not to: beside a credential it cannot pass",
			x->t.v.host.name);
	return true;
}

/* The head as it goes down, scrubbed: its first line, the fields that pass, an empty line. */
static void write_head(struct exchange *x, const struct http1_answer *a, struct buf *b,
		       struct down_head *h)
{
	size_t reason, first;

	buf_puts(b, "HTTP/1.1 ");
	buf_putu(b, (uint64_t)a->status, 0);
	buf_putc(b, ' ');
	reason = b->len;
	exchange_scrubbed(x, b, a->reason);
	first = b->len + 2;
	buf_puts(b, "\r\n");
	for (size_t i = 0; i < a->n_fields; i++) {
		const struct http1_field *f = &a->fields[i];

		if (!exchange_passes(f) || exchange_listed_off(a->fields, a->n_fields, f) ||
		    ((x->scrub || x->bound) && f->is == HTTP1_NAME_CONTENT_ENCODING))
			continue;
		exchange_scrubbed(x, b, f->name);
		buf_puts(b, ": ");
		exchange_scrubbed(x, b, f->value);
		buf_puts(b, "\r\n");
	}
	buf_puts(b, "\r\n");
	if (b->failed)
		return;
	h->reason = (struct http1_text){ b->data + reason, first - 2 - reason };
	h->fields = (struct http1_text){ b->data + first, b->len - 2 - first };
}

void exchange_send_head(struct exchange *x, const struct http1_answer *a)
{
	CLEANUP(buf) struct buf b = BUF_INIT(HEAD_ROOM);
	struct down_head h = { .status = a->status, .body = DOWN_STREAM, .length = a->length };

	if (a->framing == HTTP1_NO_BODY)
		h.body = DOWN_NONE;
	else if (a->framing == HTTP1_LENGTH && !x->scrub)
		h.body = DOWN_LENGTH;
	if (h.body == DOWN_NONE && a->status != 204 && !x->bound)
		h.absent = http1_field(a, "Content-Length");
	write_head(x, a, &b, &h);
	if (x->endpoint && h.body != DOWN_NONE && !b.failed) {
		x->sealed = (struct buf)BUF_INIT(OAUTH_ANSWER_MAX);
		x->kept = b;
		b = (struct buf){ 0 };
		x->kept_head = h;
		x->keeps = true;
		x->state = EXCHANGE_ANSWERS;
		return;
	}
	if (!b.failed)
		look_at(x, b.data, b.len, h.body == DOWN_NONE);
	if (b.failed || !x->d->ops->head(x->d, &h))
		exchange_cut(x);
	else
		x->state = EXCHANGE_ANSWERS;
}

/* What the body must go through on its way down. */
static bool open_filters(struct exchange *x, const struct http1_answer *a)
{
	struct codings c = { 0 };
	struct err e = { 0 };
	size_t n = http1_count(a->fields, a->n_fields, "Content-Encoding");

	if (x->k->scanner && scan_open(x->k->scanner, SCAN_IN, &x->scan_down, &e) < 0)
		return false;
	if (x->scan_down && x->k->scrubber)
		scan_shapes(x->scan_down);
	if (a->framing == HTTP1_NO_BODY)
		return true;
	if (!x->k->scrubber || !scrub_needed(x->k->scrubber)) {
		/* What it says is looked at where it can be read. */
		if (x->scan_down && n == 1 &&
		    coding_parse(exchange_text(http1_field(a, "Content-Encoding")), &c) == 0 && c.n)
			(void)decoder_new(x->k->unpack, &c, &x->decoder_down, &e);
		return true;
	}
	/* Unasked for, and unreadable: a secret could be in there. */
	if (n > 1 || (n && coding_parse(exchange_text(http1_field(a, "Content-Encoding")), &c) < 0))
		return false;
	x->msg_down.on = !n && !x->endpoint && grpc_is(a->fields, a->n_fields);
	if (x->bound && x->k->scanner && !packed_open(x, SCAN_IN, &x->nest_down, &x->t.v))
		return false;
	x->later = (struct buf)BUF_INIT(CODED_MAX * 4);
	return scrub_open(x->k->scrubber, x->k->unpack, n ? &c : NULL, &x->scrub, &e) == 0;
}

static bool interim(struct exchange *x, const struct http1_answer *a)
{
	if (++x->interim > INTERIM_MAX)
		return false;
	if (a->status == 100 && x->expects) {
		x->expects = false;
		(void)x->d->ops->head(x->d, &(struct down_head){ .status = 100 });
	}
	return true;
}

static void take_answer(struct exchange *x, const struct up_answer *got)
{
	const struct http1_answer *a = &got->head;
	struct egress_verdict v = { 0 };

	if (!rate_received(x->k->rate, got->n, &v) || !judge_answer(x, a, &v)) {
		exchange_stop(x, &v);
		return;
	}
	if (!open_filters(x, a)) {
		exchange_fail(x, 502, "the answer has a content coding nobody asked for");
		return;
	}
	x->t.status = a->status;
	exchange_budget_answer(x, a);
	exchange_send_head(x, a);
}

bool exchange_answer(struct exchange *x)
{
	struct up_answer a;
	struct err e = { 0 };
	enum up_read r = x->way->ops->answer(x->way, &a, &e);

	if (r == UP_READ_NOTHING || r == UP_READ_MOVED)
		return r == UP_READ_MOVED;
	if (r == UP_READ_LOST && try_again(x))
		return true;
	if (r != UP_READ_THERE)
		exchange_fail(x, 502, e.what);
	else if (a.head.status == 101)
		websocket_open(x, &a.head);
	else if (a.head.status >= 200)
		take_answer(x, &a);
	else if (!interim(x, &a.head))
		exchange_fail(x, 502, "the host says nothing but 1xx");
	return true;
}

/* Nothing is held back of a message that is whole. */
static int next_scrub(struct exchange *x)
{
	struct err e = { 0 };

	x->scrubbed += scrub_hits(x->scrub);
	x->scrub = scrub_close(x->scrub);
	return scrub_open(x->k->scrubber, x->k->unpack, NULL, &x->scrub, &e);
}

static bool put_down(struct exchange *x, const char *p, size_t n)
{
	if (!n || x->d->ops->data(x->d, p, n))
		return true;
	exchange_cut(x);
	return false;
}

/* A scrubbed piece of what may hold something packed, which nobody can scrub: the value in it is
 * the end of the answer. */
static bool packed_down(struct exchange *x, struct http1_text piece, bool last)
{
	struct egress_verdict v = { 0 };
	size_t ready;

	if (!packed_feed(x, x->nest_down, piece.p, piece.n, last, &v)) {
		exchange_stop(x, &v);
		return false;
	}
	if (!nest_packed(x->nest_down) && !x->later.len)
		return put_down(x, piece.p, piece.n);
	if (!packed_ready(x->nest_down, &x->later, piece.p, piece.n, last, &ready)) {
		exchange_cut(x);
		return false;
	}
	if (!put_down(x, buf_str(&x->later), ready))
		return false;
	packed_gone(&x->later, ready);
	return true;
}

/* A piece of the body, scrubbed and looked at; false: the exchange is over. */
static bool send_down(struct exchange *x, const char *p, size_t n, bool last)
{
	struct http1_text out = { p, n };
	bool whole = grpc_pass(&x->msg_down, p, n);
	struct egress_verdict v = { 0 };

	if (!rate_received(x->k->rate, n, &v)) {
		exchange_stop(x, &v);
		return false;
	}
	x->t.bytes_in += n;
	if (x->scrub) {
		struct buf *clean = exchange_piece(x);
		struct err e;

		if (scrub_feed(x->scrub, p, n, last || whole, clean, &e) < 0 || clean->failed ||
		    (whole && !last && next_scrub(x) < 0)) {
			exchange_fail(x, 502, "the answer's content coding is broken");
			return false;
		}
		x->d->turn += clean->len;
		out = (struct http1_text){ buf_str(clean), clean->len };
		if (x->keeps)
			return exchange_oauth_take(x, out.p, out.n);
		look_at(x, out.p, out.n, last);
	} else {
		look_at_body(x, p, n, last);
	}
	exchange_budget_down(x, (struct http1_text){ p, n }, out);
	if (x->nest_down)
		return packed_down(x, out, last);
	return put_down(x, out.p, out.n);
}

static void end_down(struct exchange *x, struct http1_text trailers)
{
	CLEANUP(buf) struct buf b = BUF_INIT(HEAD_ROOM);

	if (!x->keeps)
		exchange_trailers_down(x, trailers, &b);
	if (!send_down(x, "", 0, true))
		return;
	if (x->keeps) {
		exchange_oauth_end(x);
		return;
	}
	exchange_budget_end(x, true); /* before the guest knows: its next request may be here */
	if (!b.failed && x->d->ops->end(x->d, (struct http1_text){ buf_str(&b), b.len }))
		x->state = EXCHANGE_DONE;
	else
		exchange_cut(x);
}

bool exchange_down(struct exchange *x)
{
	size_t most = x->scrub && scrub_coded(x->scrub) ? CODED_PIECE : PIECE;
	bool moved = false;

	while (!x->d->ops->full(x->d) && !downstream_tired(x->d)) {
		struct up_piece piece = { 0 };
		struct err e = { 0 };
		enum up_read r = x->way->ops->piece(x->way, most, &piece, &e);

		if (r == UP_READ_NOTHING)
			break;
		if (r == UP_READ_END) {
			end_down(x, piece.trailers);
			return true;
		}
		/* Cut short: the guest must not take it for whole. */
		if (r == UP_READ_LOST || r == UP_READ_BAD) {
			exchange_fail(x, 502, e.what);
			return true;
		}
		if (piece.data.n && !send_down(x, piece.data.p, piece.data.n, false))
			return true;
		x->d->turn += piece.n;
		moved = true;
	}
	return moved;
}
