/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange.c - one request and its answer.
 *
 * Both heads are parsed, filtered and written anew; raw bytes are never passed on. The order is
 * fixed: allowlist, leak scan, injection, evidence, request, scan and scrub of the answer. Bodies
 * stream in pieces; a piece is taken from one side only while the other has room, so memory is
 * bounded by the buffers of two links, and what came is passed on at once. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "egress/worker/exchange.h"

#define MOVE_US (600 * SECOND) /* nothing moving; an answer may be thought about for long */
#define IDLE_US (90 * SECOND)
#define HALF_US (60 * SECOND) /* the same for a guest that has closed its side */

void exchange_told(struct session *s)
{
	struct exchange *x = &s->x;

	if (!x->open)
		return;
	x->open = false;
	report_done(s->k, s);
	if (x->scrubbed || (x->scrub && scrub_hits(x->scrub)))
		(void)report_credential(s->k, EGRESS_EVENT_SCRUB, &x->v, NULL);
}

void exchange_done(struct session *s)
{
	struct exchange *x = &s->x;

	exchange_told(s);

	if (x->head.data)
		explicit_bzero(x->head.data, x->head.len); /* it may hold a credential */
	buf_done(&x->head);
	x->scan_up = scan_close(x->scan_up);
	x->scan_coded = scan_close(x->scan_coded);
	x->json_up = json_scan_close(x->json_up);
	buf_done(&x->coded);
	x->scan_down = scan_close(x->scan_down);
	x->decoder = decoder_free(x->decoder);
	x->decoder_down = decoder_free(x->decoder_down);
	x->scrub = scrub_close(x->scrub);
}

bool exchange_put(struct link *l, bool chunked, const char *p, size_t n)
{
	char size[24];

	if (!n)
		return true;
	if (!chunked)
		return link_add(l, p, n);
	(void)snprintf(size, sizeof(size), "%zx\r\n", n);
	return link_add(l, size, strlen(size)) && link_add(l, p, n) && link_add(l, "\r\n", 2);
}

/* The end in the middle of an answer; what was read of it before is the guest's. */
static void cut(struct session *s)
{
	(void)report_flush(s->k);
	(void)link_flush(&s->guest);
	s->state = SESSION_DEAD;
}

/* Denied when part of it is gone already: the rest stays here, and the guest hears it if it still
 * can. */
void exchange_stop(struct session *s, const struct egress_verdict *why)
{
	struct egress_verdict v = *why;

	v.host = s->x.v.host;
	v.port = s->x.v.port;
	if (s->x.answered) {
		report_deny(s->k, &v, exchange_method(s));
		cut(s);
	} else {
		session_deny(s, &v, exchange_method(s));
	}
}

void exchange_fail(struct session *s, int status, const char *what)
{
	exchange_told(s);
	if (s->x.answered)
		cut(s);
	else
		session_answer(s, status, "upstream", what);
}

static void begin(struct session *s, const struct http1_request *q)
{
	struct exchange *x = &s->x;

	*x = (struct exchange){ .minor = q->minor,
				.asked = http1_text_is(q->method, "HEAD") ? HTTP1_ASKED_HEAD
									  : HTTP1_ASKED_PLAIN,
				.has_body = q->framing != HTTP1_NO_BODY,
				.up_chunked = q->framing == HTTP1_CHUNKED,
				.expects = q->expects,
				.keep_guest = q->keeps_alive };
	memcpy(x->method, q->method.p, q->method.n);
	http1_body_start(&x->up_body, q->framing, q->length);
	x->up_done = !x->has_body;
}

void exchange_begin(struct session *s, const struct http1_request *q, size_t head)
{
	struct egress_request e;
	const char *why;
	struct host name = { 0 };

	begin(s, q);
	if (s->refused.reason) {
		struct egress_verdict v = s->refused;

		session_deny(s, &v, q->method);
		return;
	}
	if (!exchange_name(s, q, &e, &name, &why)) {
		s->x.v.host = s->tunnel.len ? s->tunnel : name;
		s->x.v.port = s->port;
		(void)verdict_deny(&s->x.v, EGRESS_BAD_REQUEST, NULL, "%s", why);
		session_deny(s, &s->x.v, q->method);
		return;
	}
	if (!exchange_judge(s, q, &e) || !exchange_scan(s, q)) {
		session_deny(s, &s->x.v, q->method);
		return;
	}
	if (!report_allow(s->k, &s->x.v, q->method)) {
		session_answer(s, 503, "internal", "the decision cannot be recorded");
		return;
	}
	s->x.open = true;
	link_take(&s->guest, head);
	s->state = SESSION_EXCHANGE;
	session_patience(s, MOVE_US);
}

static void finish(struct session *s)
{
	struct exchange *x = &s->x;
	bool whole = x->up_done, more = !s->guest.eof || s->guest.in.len > 0,
	     keep = x->keep_guest && whole && more;

	exchange_told(s);
	if (whole && x->keep_upstream)
		upstream_release(TAKE_PTR(s->up));
	if (!keep) {
		session_linger(s);
		return;
	}
	exchange_done(s);
	s->up = upstream_free(s->up);
	s->state = SESSION_HEAD;
	session_patience(s, IDLE_US);
}

void exchange_stalled(struct session *s)
{
	exchange_fail(s, 504, "the host did not answer in time");
}

bool exchange_waits(const struct session *s)
{
	return s->state == SESSION_EXCHANGE && s->x.not_before > loop_now(s->k->loop);
}

bool exchange_step(struct session *s)
{
	struct exchange *x = &s->x;
	bool moved = false;

	if (exchange_waits(s) || (!s->up && !session_told(s)))
		return false;
	if (!s->up && !(s->up = upstream_get(s, &x->v, s->secure, false))) {
		session_answer(s, 503, "internal", "no memory");
		return true;
	}
	upstream_step(s->up);
	if (s->up->state == UP_FAILED) {
		struct egress_verdict v = s->up->failure;

		if (v.reason == EGRESS_INTERNAL)
			exchange_fail(s, 502, v.what);
		else
			session_deny(s, &v, exchange_method(s));
		return true;
	}
	if (s->up->state != UP_OPEN)
		return false;
	if (!x->sent) {
		x->sent = link_add(&s->up->link, buf_str(&x->head), x->head.len);
		moved = true;
	}
	moved |= exchange_up(s);
	if (s->state == SESSION_EXCHANGE)
		moved |= x->answered ? exchange_down(s) : exchange_answer(s);
	if (s->state != SESSION_EXCHANGE)
		return true;
	if (moved)
		session_patience(s, s->guest.eof ? HALF_US : MOVE_US);
	if (x->down_done) {
		finish(s);
		return true;
	}
	/* What follows is the next request, read later. A guest that says no more may still listen;
	 * one that is gone is found out by what is sent to it. */
	if (x->up_done && !s->guest.eof && !link_fill(&s->guest) && s->guest.eof)
		session_patience(s, HALF_US);
	if (s->guest.broken || (s->guest.eof && !x->up_done && !s->guest.in.len))
		s->state = SESSION_DEAD;
	return moved;
}
