/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange.c - see exchange.h.
 *
 * Both heads are parsed, filtered and written anew; raw bytes are never passed on. The order is
 * fixed: allowlist, leak scan, injection, evidence, request, scan and scrub of the answer. Bodies
 * stream in pieces; a piece is taken from one side only while the other has room, so memory is
 * bounded by what the upstream's link and the downstream hold, and what came is passed on at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text/cleanup.h"
#include "egress/worker/exchange_internal.h"

#define MOVE_US                                                                                    \
	(600 * SECOND)        /* nothing moving; an upstream may think for long before it answers */
#define HALF_US (60 * SECOND) /* the same for a guest that has closed its side */

enum exchange_state exchange_state(const struct exchange *x)
{
	return x->state;
}

static bool exchange_is_over(const struct exchange *x)
{
	return x->state >= EXCHANGE_DONE;
}

static void tell_end(struct exchange *x)
{
	if (!x->t.open)
		return;
	x->t.open = false;
	exchange_budget_end(x, x->state == EXCHANGE_DONE);
	report_done(x->k, &x->t, exchange_connection(x));
	if (x->scrubbed || (x->scrub && scrub_hits(x->scrub)))
		(void)report_credential(x->k, EGRESS_EVENT_SCRUB, &x->t.v, NULL);
}

/* The host is told whether that was all, or to stop. */
static void leave(struct exchange *x, bool whole)
{
	if (x->way)
		x->way->ops->done(x->way, whole);
	else if (x->joined)
		upway_h2_leave(x->joined);
	else
		(void)upstream_free(x->up);
	x->way = NULL;
	x->joined = NULL;
	x->up = NULL;
}

struct exchange *exchange_free(struct exchange *x)
{
	if (!x)
		return NULL;
	tell_end(x);
	leave(x, x->state == EXCHANGE_DONE && x->up_done);
	if (x->head.data)
		explicit_bzero(x->head.data, x->head.len); /* it may hold a credential */
	if (x->held.data)
		explicit_bzero(x->held.data, x->held.len);
	if (x->sealed.data)
		explicit_bzero(x->sealed.data, x->sealed.len);
	buf_done(&x->head);
	buf_done(&x->held);
	buf_done(&x->kept);
	buf_done(&x->sealed);
	explicit_bzero(&x->sign, sizeof(x->sign));
	x->ws = websocket_free(x->ws);
	free(x->t.learned);
	x->call = budget_close(x->call);
	(void)scan_close(x->scan_up);
	(void)scan_close(x->scan_coded);
	(void)json_scan_close(x->json_up);
	buf_done(&x->coded);
	buf_done(&x->later);
	(void)nest_free(x->nest_up);
	(void)nest_free(x->nest_down);
	(void)scan_close(x->scan_down);
	(void)decoder_free(x->decoder);
	(void)decoder_free(x->decoder_down);
	(void)scrub_close(x->scrub);
	free(x);
	return NULL;
}

bool exchange_told(struct exchange *x)
{
	if (!x->k->n_events)
		return true;
	x->d->ops->hold(x->d);
	return false;
}

bool exchange_put(struct link *l, bool chunked, const char *p, size_t n)
{
	char size[HTTP1_DIGITS + 2];
	size_t digits;

	if (!n)
		return true;
	if (!chunked)
		return link_add(l, p, n);
	digits = http1_digits(size, n, 16);
	size[digits++] = '\r';
	size[digits++] = '\n';
	return link_add(l, size, digits) && link_add(l, p, n) && link_add(l, "\r\n", 2);
}

struct buf *exchange_piece(struct exchange *x)
{
	struct buf *b = &x->k->piece;

	if (!b->max)
		*b = (struct buf)BUF_INIT(FLOW_MAX / 2);
	b->len = 0;
	b->failed = false;
	return b;
}

/* ---- ends ---- */

/* The guest keeps what it has received of the answer. */
void exchange_cut(struct exchange *x)
{
	(void)report_flush(x->k);
	x->d->ops->reset(x->d);
	x->state = EXCHANGE_CUT;
}

static void exchange_deny(struct exchange *x, const struct egress_verdict *v)
{
	report_deny(x->k, v, exchange_method(x));
	downstream_deny(x->d, v);
	x->state = EXCHANGE_REFUSED;
}

static void exchange_refuse_with(struct exchange *x, int status, const char *reason,
				 const char *what)
{
	downstream_fail(x->d, status, reason, what);
	x->state = EXCHANGE_REFUSED;
}

/* Nothing more is passed on. The guest is told why, unless its answer has begun. */
void exchange_stop(struct exchange *x, const struct egress_verdict *why)
{
	struct egress_verdict v = *why;

	v.host = x->t.v.host;
	v.port = x->t.v.port;
	if (x->state == EXCHANGE_ANSWERS && !x->keeps) {
		report_deny(x->k, &v, exchange_method(x));
		exchange_cut(x);
	} else {
		exchange_deny(x, &v);
	}
}

void exchange_fail(struct exchange *x, int status, const char *what)
{
	tell_end(x);
	if (x->state == EXCHANGE_ANSWERS && !x->keeps)
		exchange_cut(x);
	else
		exchange_refuse_with(x, status, "upstream", what);
}

/* ---- the beginning ---- */

static void decide(struct exchange *x, const struct arrival *from, const struct http1_request *q)
{
	struct egress_request e;
	const char *why;
	struct host name = { 0 };

	if (!exchange_name(from, q, &e, &name, &why)) {
		x->t.v.host = from->tunnel.len ? from->tunnel : name;
		x->t.v.port = arrival_port(from);
		(void)verdict_deny(&x->t.v, EGRESS_BAD_REQUEST, NULL, "%s", why);
		exchange_deny(x, &x->t.v);
	} else if ((e.websocket && !websocket_begin(x, q)) || !exchange_judge(x, from, q, &e) ||
		   !exchange_scan(x, q)) {
		exchange_deny(x, &x->t.v);
	} else if (!report_allow(x->k, &x->t.v, q->method)) {
		exchange_refuse_with(x, 503, "internal", "the decision cannot be recorded");
	} else {
		x->t.open = true;
	}
}

struct exchange *exchange_new(struct worker *k, struct downstream *d, const struct arrival *from,
			      const struct http1_request *q)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->k = k;
	x->d = d;
	x->secure = from->secure || exchange_adds_tls(from, q);
	x->asked = http1_text_is(q->method, "HEAD") ? HTTP1_ASKED_HEAD : HTTP1_ASKED_PLAIN;
	x->has_body = q->framing != HTTP1_NO_BODY;
	x->up_chunked = q->framing == HTTP1_CHUNKED;
	x->up_done = !x->has_body;
	x->expects = q->expects;
	x->deadline = loop_now(k->loop) + MOVE_US;
	memcpy(x->t.method, q->method.p, q->method.n);
	decide(x, from, q);
	return x;
}

/* ---- on its way ---- */

bool exchange_is_early(const struct exchange *x)
{
	return x->state == EXCHANGE_WAITS && x->not_before > loop_now(x->k->loop);
}

static void on_upstream(void *arg)
{
	struct exchange *x = arg;

	x->d->ops->run(x->d);
}

bool exchange_open(struct exchange *x, bool fresh)
{
	leave(x, false);
	if (x->d->shares && x->secure)
		x->joined = upway_h2_join(x->d->shares, &x->t.v, fresh, on_upstream, x);
	if (!x->joined)
		x->up = upstream_get(x->k, &x->t.v, x->secure ? UPSTREAM_TLS : UPSTREAM_PLAIN,
				     fresh);
	if (!x->joined && !x->up) {
		exchange_refuse_with(x, 503, "internal", "no memory");
		return false;
	}
	if (x->up)
		upstream_own(x->up, on_upstream, x);
	x->state = EXCHANGE_OPENS;
	return true;
}

/* The way, when the connection is open; NULL: not with this one, and there is another now. */
static struct upway *way_of_open(struct exchange *x)
{
	struct upway *way = x->joined ? upway_h2_way(x->joined) : &x->up->way;

	if (way)
		return way;
	x->up = upway_h2_take(TAKE_PTR(x->joined));
	if (!x->up) {
		(void)exchange_open(x, false);
		return NULL;
	}
	upstream_own(x->up, on_upstream, x);
	return &x->up->way;
}

struct upstream *exchange_connection(const struct exchange *x)
{
	return x->joined ? upway_h2_upstream(x->joined) : x->up;
}

/* From resolving to the head on its way; true: something moved. */
static bool open_step(struct exchange *x)
{
	struct upstream *up;

	if (x->joined)
		upway_h2_step(x->joined);
	else
		upstream_step(x->up);
	up = exchange_connection(x);
	if (up && up->state == UP_FAILED) {
		struct egress_verdict v = up->failure;

		if (v.reason == EGRESS_INTERNAL)
			exchange_fail(x, 502, v.what);
		else
			exchange_deny(x, &v);
		return true;
	}
	if (up && up->state != UP_OPEN)
		return false;
	x->way = way_of_open(x);
	if (!x->way)
		return true;
	x->way->ops->head(x->way, &(struct up_head){ .text = { buf_str(&x->head), x->head.len },
						     .asked = x->asked,
						     .body = x->has_body,
						     .chunked = x->up_chunked });
	x->state = EXCHANGE_ASKS;
	return true;
}

/* An answer may take its time as long as something moves. */
static void be_patient(struct exchange *x, bool moved)
{
	if (moved || x->fed || (x->d->ended && !x->heard_end))
		x->deadline = loop_now(x->k->loop) + (x->d->ended ? HALF_US : MOVE_US);
	x->heard_end = x->d->ended;
	x->fed = false;
}

bool exchange_step(struct exchange *x)
{
	bool moved = false;

	if (x->state == EXCHANGE_WAITS && x->waits_body) {
		exchange_ask_body(x);
		return false;
	}
	if (x->state == EXCHANGE_WAITS &&
	    (exchange_is_early(x) || !exchange_told(x) || !exchange_open(x, false)))
		return x->state != EXCHANGE_WAITS;
	if (x->state == EXCHANGE_OPENS)
		moved = open_step(x);
	moved |= exchange_pump(x);
	if (x->state == EXCHANGE_ASKS)
		moved |= exchange_answer(x);
	else if (x->state == EXCHANGE_ANSWERS)
		moved |= exchange_is_websocket(x) ? websocket_down(x) : exchange_down(x);
	if (!exchange_is_over(x))
		be_patient(x, moved);
	return moved;
}

int exchange_wait(struct exchange *x)
{
	struct link *l = exchange_link(x);

	return l ? link_wait(x->k->loop, l, x->joined || !x->d->ops->full(x->d)) : 0;
}

struct link *exchange_link(struct exchange *x)
{
	return x->way ? x->way->ops->link(x->way) : NULL;
}

bool exchange_tick(struct exchange *x, uint64_t now)
{
	struct upstream *up = x->state == EXCHANGE_OPENS ? exchange_connection(x) : NULL;

	if ((x->state == EXCHANGE_WAITS && x->not_before) || (up && upstream_is_late(up, now)))
		return true;
	if (now < x->deadline)
		return false;
	exchange_fail(x, 504, "the host did not answer in time");
	return true;
}
