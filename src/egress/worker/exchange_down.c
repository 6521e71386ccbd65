/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange_down.c - the answer on its way down: its head written anew, its body
 * looked at and scrubbed. */
#include <string.h>

#include "base/cleanup.h"
#include "egress/worker/exchange.h"

#define INTERIM_MAX 16

/* A connection from the pool may have been closed just then: once more on a new one, if nothing of
 * the request would be sent twice that could matter. */
static bool try_again(struct session *s)
{
	struct exchange *x = &s->x;
	static const char *const safe[] = { "GET", "HEAD", "OPTIONS" };
	bool harmless = false;

	for (size_t i = 0; i < ARRAY_LEN(safe); i++)
		harmless |= strcmp(x->method, safe[i]) == 0;
	if (!s->up->reused || x->answered || x->has_body || !harmless || s->up->link.in.len)
		return false;
	s->up = upstream_free(s->up);
	s->up = upstream_get(s, &x->v, s->secure, true);
	x->sent = false;
	if (!s->up)
		session_answer(s, 503, "internal", "no memory");
	return true;
}

static void add_value(struct session *s, struct buf *out, struct http1_text t)
{
	struct err e = { 0 };

	if (!s->k->scrubber)
		buf_add(out, t.p, t.n);
	else if (scrub_text(s->k->scrubber, t.p, t.n, out, &s->x.scrubbed, &e) < 0)
		out->failed = true; /* better no answer than one with a value in it */
}

/* Nobody asked for a part; half of a value is nothing a scrubber knows. */
static bool is_part(const struct session *s, const struct http1_answer *a)
{
	return s->k->scrubber && a->status == 206;
}

/* Whatever its coding, its length would tell how well a value and a text of the guest's choice are
 * packed together: also that of an answer without a body. */
static bool is_packed(const struct session *s, const struct http1_answer *a)
{
	struct codings c = { 0 };

	for (size_t i = 0; s->x.bound && i < a->n_fields; i++)
		if (http1_text_is(a->fields[i].name, "Content-Encoding") &&
		    (coding_parse(exchange_text(a->fields[i].value), &c) < 0 || c.n))
			return true;
	return false;
}

/* What may not come down although it was let out. */
static bool judge_answer(const struct session *s, const struct http1_answer *a,
			 struct egress_verdict *v)
{
	if (is_part(s, a))
		return verdict_deny(v, EGRESS_CREDENTIAL_MISUSE, NULL,
				    "a part of an answer, while the run has a credential");
	if (is_packed(s, a))
		return verdict_deny(
			v, EGRESS_BAD_ANSWER,
			"have the host send it as it is, or ask a name that no "
			"credential is bound to",
			"%s sent an answer in a content coding although it was asked "
			"not to: beside a credential its length would tell of the value",
			s->x.v.host.name);
	return true;
}

static enum down_framing frame_down(const struct exchange *x, const struct http1_answer *a)
{
	if (a->framing == HTTP1_NO_BODY)
		return DOWN_NONE;
	if (a->framing == HTTP1_LENGTH && !x->scrub)
		return DOWN_LENGTH;
	return x->minor == 1 ? DOWN_CHUNKED : DOWN_CLOSE;
}

static void write_answer(struct session *s, const struct http1_answer *a)
{
	CLEANUP(buf) struct buf b = BUF_INIT(HEAD_ROOM);
	struct exchange *x = &s->x;
	struct http1_text length = http1_field(a, "Content-Length");

	buf_printf(&b, "HTTP/1.1 %d ", a->status);
	add_value(s, &b, a->reason);
	buf_puts(&b, "\r\n");
	for (size_t i = 0; i < a->n_fields; i++) {
		const struct http1_field *f = &a->fields[i];

		if (!exchange_passes(f->name) ||
		    exchange_listed_off(a->fields, a->n_fields, f->name) ||
		    (x->scrub && http1_text_is(f->name, "Content-Encoding")))
			continue;
		add_value(s, &b, f->name);
		buf_puts(&b, ": ");
		add_value(s, &b, f->value);
		buf_puts(&b, "\r\n");
	}
	if (x->down == DOWN_LENGTH)
		buf_printf(&b, "Content-Length: %llu\r\n", (unsigned long long)a->length);
	else if (x->down == DOWN_CHUNKED)
		buf_puts(&b, "Transfer-Encoding: chunked\r\n");
	else if (length.p && a->status != 204 && !x->bound) /* of HEAD and 304: what it would be */
		buf_printf(&b, "Content-Length: %.*s\r\n", (int)length.n, length.p);
	if (!x->keep_guest)
		buf_puts(&b, "Connection: close\r\n");
	buf_puts(&b, "\r\n");
	if (b.failed)
		s->guest.broken = true;
	else
		look_at(s, buf_str(&b), b.len, a->framing == HTTP1_NO_BODY);
	(void)link_add(&s->guest, buf_str(&b), b.len);
}

/* What the body must go through on its way down. */
static bool open_filters(struct session *s, const struct http1_answer *a)
{
	struct exchange *x = &s->x;
	struct codings c = { 0 };
	struct err e = { 0 };
	size_t n = http1_count(a->fields, a->n_fields, "Content-Encoding");

	if (s->k->scanner && scan_open(s->k->scanner, SCAN_IN, &x->scan_down, &e) < 0)
		return false;
	if (a->framing == HTTP1_NO_BODY)
		return true;
	if (!s->k->scrubber || !scrub_needed(s->k->scrubber)) {
		/* What it says is looked at where it can be read. */
		if (x->scan_down && n == 1 &&
		    coding_parse(exchange_text(http1_field(a, "Content-Encoding")), &c) == 0 && c.n)
			(void)decoder_new(&c, &x->decoder_down, &e);
		return true;
	}
	/* Unasked for, and unreadable: a secret could be in there. */
	if (n > 1 || (n && coding_parse(exchange_text(http1_field(a, "Content-Encoding")), &c) < 0))
		return false;
	return scrub_open(s->k->scrubber, n ? &c : NULL, &x->scrub, &e) == 0;
}

static bool interim(struct session *s, const struct http1_answer *a)
{
	if (++s->x.interim > INTERIM_MAX)
		return false;
	if (a->status == 100 && s->x.expects) {
		s->x.expects = false;
		(void)link_add(&s->guest, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	}
	return true;
}

bool exchange_answer(struct session *s)
{
	struct link *u = &s->up->link;
	struct exchange *x = &s->x;
	struct egress_verdict v = { 0 };
	struct http1_answer a;
	struct err e = { 0 };
	ssize_t n = u->in.len ? http1_read_answer(link_data(u), u->in.len, x->asked, &a, &e) : 0;

	if (n == 0) {
		if (link_fill(u))
			return true;
		if (!u->eof && !u->broken)
			return false;
		if (!try_again(s))
			exchange_fail(s, 502, "the host closed the connection without an answer");
		return true;
	}
	if (n < 0) {
		exchange_fail(s, 502, e.what);
		return true;
	}
	if (a.status < 200) {
		if (!interim(s, &a))
			exchange_fail(s, 502, "the host says nothing but 1xx");
		else
			link_take(u, (size_t)n);
		return true;
	}
	if (!rate_received(s->k->rate, (size_t)n, &v) || !judge_answer(s, &a, &v)) {
		exchange_stop(s, &v);
		return true;
	}
	if (!open_filters(s, &a)) {
		exchange_fail(s, 502, "the answer has a content coding nobody asked for");
		return true;
	}
	x->status = a.status;
	x->keep_upstream = a.keeps_alive;
	x->down = frame_down(x, &a);
	/* With the request half sent nobody knows where the next one begins. */
	x->keep_guest &= x->down != DOWN_CLOSE && x->up_done;
	write_answer(s, &a);
	http1_body_init(&x->down_body, &a);
	x->answered = true;
	link_take(u, (size_t)n);
	return true;
}

static bool send_down(struct session *s, const char *p, size_t n, bool last)
{
	struct exchange *x = &s->x;
	bool chunked = x->down == DOWN_CHUNKED;
	struct egress_verdict v = { 0 };

	if (!rate_received(s->k->rate, n, &v)) {
		exchange_stop(s, &v);
		return false;
	}
	x->bytes_in += n;
	if (x->scrub) {
		struct buf *out = &s->k->piece;
		struct err e;

		if (!out->max)
			*out = (struct buf)BUF_INIT(FLOW_MAX / 2);
		out->len = 0;
		out->failed = false;
		if (scrub_feed(x->scrub, p, n, last, out, &e) < 0 || out->failed) {
			exchange_fail(s, 502, "the answer's content coding is broken");
			return false;
		}
		s->turn += out->len;
		look_at(s, buf_str(out), out->len, last);
		return exchange_put(&s->guest, chunked, buf_str(out), out->len);
	}
	look_at_body(s, p, n, last);
	return exchange_put(&s->guest, chunked, p, n);
}

static bool end_down(struct session *s)
{
	struct exchange *x = &s->x;

	if (!send_down(s, "", 0, true))
		return true;
	if (x->down == DOWN_CHUNKED)
		(void)link_add(&s->guest, "0\r\n\r\n", 5);
	x->down_done = true;
	return true;
}

bool exchange_down(struct session *s)
{
	struct link *u = &s->up->link;
	struct exchange *x = &s->x;
	size_t most = x->scrub && scrub_coded(x->scrub) ? CODED_PIECE : PIECE;
	bool moved = false;

	while (s->state == SESSION_EXCHANGE && !x->down_done && !link_full(&s->guest) &&
	       !session_tired(s)) {
		struct http1_text piece;
		ssize_t n;

		if (http1_body_done(&x->down_body))
			return end_down(s);
		if (!u->in.len && !link_fill(u)) {
			if (!u->eof && !u->broken)
				break;
			/* Cut short: the guest must not take it for whole. */
			if (u->broken || http1_body_end(&x->down_body) < 0) {
				exchange_fail(s, 502, "the answer was cut short");
				return true;
			}
			x->keep_upstream = false;
			continue;
		}
		n = http1_body_read(&x->down_body, link_data(u),
				    u->in.len < most ? u->in.len : most, &piece);
		if (n < 0) {
			exchange_fail(s, 502, "the answer's chunks are malformed");
			return true;
		}
		if (piece.n && !send_down(s, piece.p, piece.n, false))
			return true;
		link_take(u, (size_t)n);
		if (session_told(s))
			(void)link_push(&s->guest);
		s->turn += (size_t)n;
		moved = true;
	}
	return moved;
}
