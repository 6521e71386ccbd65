/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/session_http.c - HTTP/1 with a guest: the downstream of one exchange after another.
 *
 * The exchange decides and says what is to be answered; how a body is cut off from what follows it,
 * and whether another request may follow, is decided here. */
#include <string.h>

#include "base/text/cleanup.h"
#include "egress/worker/session.h"

#define PIECE 16384

static struct session *session_of(struct downstream *d)
{
	return CONTAINER_OF(d, struct session, down);
}

/* ---- the answer ---- */

static void choose_framing(struct session *s, const struct down_head *h)
{
	if (h->body == DOWN_NONE)
		s->framing = FRAMED_NONE;
	else if (h->body == DOWN_LENGTH)
		s->framing = FRAMED_LENGTH;
	else
		s->framing = s->minor == 1 ? FRAMED_CHUNKED : FRAMED_CLOSE;
	/* With the request half sent nobody knows where the next one begins. */
	s->keep &= s->framing != FRAMED_CLOSE && s->fed;
}

static bool add_number(struct link *g, const char *before, uint64_t v, const char *after)
{
	char digits[HTTP1_DIGITS];
	size_t n = http1_digits(digits, v, 10);

	return link_add(g, before, strlen(before)) && link_add(g, digits, n) &&
	       link_add(g, after, strlen(after));
}

static bool head_of_websocket(struct session *s, const struct down_head *h)
{
	static const char upgrade[] = "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
	struct link *g = &s->guest;

	s->framing = FRAMED_CLOSE;
	s->keep = false;
	return add_number(g, "HTTP/1.1 ", 101, " ") && link_add(g, h->reason.p, h->reason.n) &&
	       link_add(g, upgrade, sizeof(upgrade) - 1) && link_add(g, h->fields.p, h->fields.n) &&
	       link_add(g, "\r\n", 2);
}

static bool on_head(struct downstream *d, const struct down_head *h)
{
	struct session *s = session_of(d);
	struct link *g = &s->guest;
	bool ok;

	if (h->status == 100)
		return link_add(g, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	if (h->status == 101)
		return head_of_websocket(s, h);
	choose_framing(s, h);
	ok = add_number(g, "HTTP/1.1 ", (uint64_t)h->status, " ") &&
	     link_add(g, h->reason.p, h->reason.n) && link_add(g, "\r\n", 2) &&
	     link_add(g, h->fields.p, h->fields.n);
	if (ok && s->framing == FRAMED_LENGTH)
		ok = add_number(g, "Content-Length: ", h->length, "\r\n");
	else if (ok && s->framing == FRAMED_CHUNKED)
		ok = link_add(g, "Transfer-Encoding: chunked\r\n", 28);
	else if (ok && h->absent.p)
		ok = link_add(g, "Content-Length: ", 16) && link_add(g, h->absent.p, h->absent.n) &&
		     link_add(g, "\r\n", 2);
	return ok && (s->keep || link_add(g, "Connection: close\r\n", 19)) &&
	       link_add(g, "\r\n", 2);
}

static bool on_data(struct downstream *d, const char *p, size_t n)
{
	struct session *s = session_of(d);
	struct link *g = &s->guest;
	bool ok = exchange_put(g, s->framing == FRAMED_CHUNKED, p, n);

	if (ok && session_told(s))
		(void)link_push(g);
	return ok;
}

static bool session_http_on_end(struct downstream *d, struct http1_text trailers UNUSED)
{
	struct session *s = session_of(d);

	return s->framing != FRAMED_CHUNKED || link_add(&s->guest, "0\r\n\r\n", 5);
}

static bool is_full(const struct downstream *d)
{
	return link_full(&session_of((struct downstream *)(uintptr_t)d)->guest);
}

static void on_refuse(struct downstream *d, const struct down_refusal *r)
{
	struct session *s = session_of(d);
	CLEANUP(buf) struct buf b = BUF_INIT(8192);

	buf_printf(&b,
		   "HTTP/1.1 %d %.120s\r\nContent-Type: application/json\r\nbrig-reason: %s\r\n",
		   r->status, r->phrase, r->reason);
	if (r->retry_after)
		buf_printf(&b, "Retry-After: %u\r\n", r->retry_after);
	buf_printf(&b, "Content-Length: %zu\r\nConnection: close\r\n\r\n", r->body->len);
	if (s->asked != HTTP1_ASKED_HEAD)
		buf_add(&b, buf_str(r->body), r->body->len);
	(void)link_add(&s->guest, buf_str(&b), b.len);
	s->keep = false;
}

static void on_reset(struct downstream *d)
{
	(void)link_flush(&session_of(d)->guest);
}

static void on_run(struct downstream *d)
{
	session_run(session_of(d));
}

static void on_hold(struct downstream *d)
{
	session_hold(session_of(d));
}

const struct downstream_ops session_ops = {
	.head = on_head,
	.data = on_data,
	.end = session_http_on_end,
	.full = is_full,
	.refuse = on_refuse,
	.reset = on_reset,
	.run = on_run,
	.hold = on_hold,
};

void session_deny(struct session *s, const struct egress_verdict *v, struct http1_text method)
{
	report_deny(s->k, v, method);
	downstream_deny(&s->down, v);
	session_linger(s);
}

void session_answer(struct session *s, int status, const char *reason, const char *what)
{
	downstream_fail(&s->down, status, reason, what);
	session_linger(s);
}

/* ---- the request ---- */

/* What an exchange that is over leaves of its connection. */
static void session_http_follow(struct session *s)
{
	enum exchange_state how = exchange_state(s->x);

	if (how == EXCHANGE_CUT) {
		s->state = SESSION_DEAD;
		return;
	}
	s->x = exchange_free(s->x);
	if (how != EXCHANGE_DONE || !s->keep || !s->fed || (s->guest.eof && !s->guest.in.len)) {
		session_linger(s);
		return;
	}
	s->state = SESSION_HEAD;
	session_patience(s, IDLE_US);
}

/* A name that no layer below had to say: plain HTTP. */
static bool waits(struct session *s, const struct http1_request *q)
{
	struct egress_verdict v = { 0 };
	struct host name = { 0 };
	struct egress_request e;
	const char *why;

	return s->k->questions && !s->refused.reason &&
	       exchange_name(&s->from, q, &e, &name, &why) &&
	       !asked_decide(s->k, &s->from, &e, &v) && session_asks(s, &v);
}

void session_request(struct session *s, const struct http1_request *q, size_t head)
{
	if (waits(s, q))
		return;
	s->minor = q->minor;
	s->asked = http1_text_is(q->method, "HEAD") ? HTTP1_ASKED_HEAD : HTTP1_ASKED_PLAIN;
	s->keep = q->keeps_alive;
	s->fed = q->framing == HTTP1_NO_BODY;
	http1_body_start(&s->body, q->framing, q->length);
	if (s->refused.reason) {
		session_deny(s, &s->refused, q->method);
		return;
	}
	s->x = exchange_new(s->k, &s->down, &s->from, q);
	if (!s->x) {
		session_answer(s, 503, "internal", "no memory");
		return;
	}
	link_take(&s->guest, head);
	s->state = SESSION_EXCHANGE;
}

/* The request's body, as far as it came and goes up; true: something moved. */
static bool feed(struct session *s)
{
	struct link *g = &s->guest;
	char none[1] = "";
	bool moved = false;

	while (exchange_takes(s->x) && !downstream_tired(&s->down)) {
		struct http1_text piece;
		ssize_t n;

		if (http1_body_done(&s->body)) {
			s->fed = true;
			exchange_body(s->x, none, 0, true);
			return true;
		}
		if (!g->in.len && !link_fill(g))
			break;
		n = http1_body_read(&s->body, link_data(g), g->in.len < PIECE ? g->in.len : PIECE,
				    &piece);
		if (n < 0) {
			struct egress_verdict v = { 0 };

			(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL,
					   "the chunks are malformed");
			exchange_stop(s->x, &v);
			return true;
		}
		/* The bytes are the link's own: they may be changed. */
		if (piece.n)
			exchange_body(s->x, (char *)(uintptr_t)piece.p, piece.n, false);
		link_take(g, (size_t)n);
		s->down.turn += (size_t)n;
		moved = true;
	}
	return moved;
}

/* Frames, in place of what was a request. */
static bool feed_frames(struct session *s)
{
	struct link *g = &s->guest;
	bool moved = false;

	while (exchange_takes(s->x) && !downstream_tired(&s->down)) {
		size_t n;

		if (!g->in.len && !link_fill(g))
			break;
		n = exchange_frames(s->x, (char *)(uintptr_t)link_data(g),
				    g->in.len < PIECE ? g->in.len : PIECE);
		link_take(g, n);
		s->down.turn += n;
		moved = true;
	}
	return moved;
}

bool session_reads(const struct session *s)
{
	if (exchange_is_websocket(s->x))
		return exchange_takes(s->x);

	return !exchange_is_early(s->x) &&
	       (s->fed || exchange_state(s->x) == EXCHANGE_WAITS || exchange_takes(s->x));
}

bool session_exchange(struct session *s)
{
	struct link *g = &s->guest;
	bool frames = exchange_is_websocket(s->x), moved = frames ? feed_frames(s) : feed(s);

	/* What follows is the next request, read later. A guest that says no more may still listen;
	 * one that is gone is found out by what is sent to it. */
	if (!frames && s->fed && exchange_state(s->x) > EXCHANGE_WAITS)
		(void)link_fill(g);
	s->down.ended = g->eof;
	moved |= exchange_step(s->x);
	if (exchange_state(s->x) >= EXCHANGE_DONE) {
		session_http_follow(s);
		return true;
	}
	if (g->broken || (g->eof && (frames || !s->fed) && !g->in.len))
		s->state = SESSION_DEAD;
	return moved;
}
