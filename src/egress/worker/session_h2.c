/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/session_h2.c - HTTP/2 with a guest: every stream is the downstream of an exchange.
 *
 * A stream is decided, counted, recorded and scanned like a request that came alone. Whatever has
 * news for one marks it; it is stepped when its session runs. Frames are read while there is room
 * for what is to be said about them. */
#include <stdlib.h>
#include <string.h>

#include "base/text/cleanup.h"
#include "egress/worker/session.h"
#include "egress/worker/upway_h2.h"
#include "wire/h2/h2.h"

#define PIECE 16384
#define READS 16 /* at once */
#define DRAIN_US SECOND
#define FIELDS_MAX (HTTP1_FIELDS_MAX - 8) /* as many as the door adds are left */

struct lane {
	struct downstream d; /* first */
	struct session *of;
	struct h2_stream *s;
	struct exchange *x; /* owned; NULL: its head was not looked at */
	struct lane *next, **at;
	bool news, touched;
	bool fed;  /* all of the request's body went into the exchange */
	bool head; /* it is HEAD that asks */
};

struct session_h2 {
	struct session *of;
	struct h2 *h2;
	struct lane *lanes, **end;
	struct shares *shares;
	bool broken, heard_end;
	bool spoke;   /* it asked for something: before that its time is that of a head */
	bool drained; /* it was idle for too long, and was told */
};

static const struct downstream_ops lane_ops;

static void lane_leave(struct lane *l)
{
	struct session_h2 *h = l->of->h2;

	l->x = exchange_free(l->x);
	h2_leave(l->s);
	*l->at = l->next;
	*(l->next ? &l->next->at : &h->end) = l->at;
	free(l);
}

static void lane_append(struct session_h2 *h, struct lane *l)
{
	l->next = NULL;
	l->at = h->end;
	*h->end = l;
	h->end = &l->next;
}

/* Others come first the next time. */
static void lane_to_end(struct session_h2 *h, struct lane *l)
{
	*l->at = l->next;
	*(l->next ? &l->next->at : &h->end) = l->at;
	lane_append(h, l);
}

/* ---- what is said to the guest ---- */

static bool lane_head(struct downstream *d, const struct down_head *head)
{
	struct lane *l = (struct lane *)d;
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)256 << 10);

	if (head->fields.n)
		buf_add(&b, head->fields.p, head->fields.n);
	if (head->body == DOWN_LENGTH || head->absent.p) {
		buf_puts(&b, "content-length: ");
		if (head->body == DOWN_LENGTH)
			buf_putu(&b, head->length, 0);
		else
			buf_add(&b, head->absent.p, head->absent.n);
		buf_puts(&b, "\r\n");
	}
	return !b.failed && h2_answer(l->s, head->status, (struct http1_text){ buf_str(&b), b.len },
				      head->body != DOWN_NONE);
}

static bool lane_data(struct downstream *d, const char *p, size_t n)
{
	return h2_add(((struct lane *)d)->s, p, n);
}

static bool lane_end(struct downstream *d, struct http1_text trailers)
{
	h2_end(((struct lane *)d)->s, trailers);
	return true;
}

static bool lane_full(const struct downstream *d)
{
	return h2_full(((const struct lane *)d)->s);
}

static void lane_refuse(struct downstream *d, const struct down_refusal *r)
{
	struct lane *l = (struct lane *)d;
	CLEANUP(buf) struct buf b = BUF_INIT(8192);

	buf_printf(&b, "content-type: application/json\r\nbrig-reason: %s\r\n", r->reason);
	if (r->retry_after)
		buf_printf(&b, "retry-after: %u\r\n", r->retry_after);
	buf_printf(&b, "content-length: %zu\r\n", r->body->len);
	if (!h2_answer(l->s, r->status, (struct http1_text){ buf_str(&b), b.len }, !l->head) ||
	    l->head)
		return;
	(void)h2_add(l->s, buf_str(r->body), r->body->len);
	h2_end(l->s, (struct http1_text){ "", 0 });
}

static void lane_reset(struct downstream *d)
{
	h2_cancel(((struct lane *)d)->s);
}

static void lane_news(struct downstream *d)
{
	struct lane *l = (struct lane *)d;

	l->news = true;
	session_hold(l->of);
}

static const struct downstream_ops lane_ops = {
	.head = lane_head,
	.data = lane_data,
	.end = lane_end,
	.full = lane_full,
	.refuse = lane_refuse,
	.reset = lane_reset,
	.run = lane_news,
	.hold = lane_news,
};

/* ---- what the guest says ---- */

static void lane_opened(void *arg, struct h2_stream *s)
{
	struct session_h2 *h = arg;
	struct lane *l = calloc(1, sizeof(*l));

	if (!l) {
		h2_cancel(s);
		return;
	}
	l->d.ops = &lane_ops;
	l->d.shares = h->shares;
	l->of = h->of;
	l->s = s;
	l->news = true;
	s->owner = l;
	h->spoke = true;
	lane_append(h, l);
}

static void lane_stirs(void *arg UNUSED, struct h2_stream *s)
{
	((struct lane *)s->owner)->news = true;
}

static const struct h2_events lane_events = { .opened = lane_opened, .stirs = lane_stirs };

static void lane_deny(struct lane *l, struct egress_verdict *v, struct http1_text method)
{
	report_deny(l->of->k, v, method);
	downstream_deny(&l->d, v);
}

/* Whose name is on the certificate that the guest was shown, and no other. */
static bool judge_head(const struct lane *l, const struct http1_request *q,
		       struct egress_verdict *v)
{
	*v = (struct egress_verdict){ .port = l->of->from.port, .host = l->of->from.sni };
	if (l->s->disagrees)
		return verdict_deny(v, EGRESS_TLS_MISMATCH, NULL,
				    "the Host field names another host than :authority");
	if (!l->s->https)
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL,
				    "the scheme does not fit the connection");
	if (q->form == HTTP1_AUTHORITY)
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL, "CONNECT inside a connection");
	if (q->n_fields > FIELDS_MAX)
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL, "too many fields");
	if (l->of->refused.reason)
		*v = l->of->refused;
	return !v->reason;
}

/* false: it is answered. */
static bool lane_begin(struct lane *l)
{
	struct session *s = l->of;
	struct http1_text head = h2_heads(l->s);
	struct egress_verdict v;
	struct http1_request q;
	const char *why = "the head is malformed";
	ssize_t n = http1_read_request(head.p, head.n, &q, &why);

	if (n <= 0) {
		v = (struct egress_verdict){ .port = s->from.port, .host = s->from.sni };
		(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL, "%s", why);
		lane_deny(l, &v, (struct http1_text){ "", 0 });
		return false;
	}
	l->head = http1_text_is(q.method, "HEAD");
	l->fed = q.framing == HTTP1_NO_BODY;
	if (!judge_head(l, &q, &v)) {
		lane_deny(l, &v, q.method);
		return false;
	}
	if (!worker_is_short(s->k))
		l->x = exchange_new(s->k, &l->d, &s->from, &q);
	if (!l->x)
		downstream_fail(&l->d, 503, "internal", "no memory");
	else
		h2_drop_head(l->s, (size_t)n);
	return l->x;
}

static bool lane_feed(struct lane *l)
{
	bool moved = false;

	while (!l->fed && exchange_takes(l->x) && !downstream_tired(&l->d)) {
		char *p;
		size_t n = h2_piece(l->s, PIECE, &p);

		if (n) {
			exchange_body(l->x, p, n, false);
			l->d.turn += n;
		} else if (l->s->ended) {
			l->fed = true;
			exchange_body_end(l->x, h2_trailers(l->s));
		} else {
			break;
		}
		moved = true;
	}
	return moved;
}

/* As far as it goes; the lane may be gone then. */
static bool lane_step(struct lane *l)
{
	bool moved = true;

	if (!l->x && l->of->k->stalled) /* nothing new is decided */
		return session_hold(l->of), false;
	l->news = false;
	l->touched = true;
	if (l->of->guest.eof && !l->s->ended)
		h2_cancel(l->s);
	if (l->s->closed || (l->of->guest.eof && !l->s->ended) || (!l->x && !lane_begin(l))) {
		lane_leave(l);
		return true;
	}
	while (moved && !downstream_tired(&l->d)) {
		moved = lane_feed(l);
		l->d.ended = l->of->guest.eof;
		moved |= exchange_step(l->x);
		if (exchange_state(l->x) >= EXCHANGE_DONE) {
			lane_leave(l);
			return true;
		}
	}
	l->news |= downstream_tired(&l->d);
	return false;
}

static bool lanes_step(struct session_h2 *h)
{
	struct session *s = h->of;
	struct lane *last = h->lanes ? CONTAINER_OF(h->end, struct lane, next) : NULL;
	bool moved = false, at_last = !last;

	for (struct lane *l = h->lanes, *next; l && !at_last; l = next) {
		size_t before = l->d.turn;

		next = l->next;
		at_last = l == last;
		if (!l->news)
			continue;
		if (downstream_tired(&s->down))
			break;
		lane_to_end(h, l);
		if (lane_step(l)) {
			moved = true;
		} else {
			s->down.turn += l->d.turn - before;
			moved |= l->d.turn != before;
		}
	}
	return moved;
}

/* ---- frames ---- */

static bool read_frames(struct session_h2 *h)
{
	struct session *s = h->of;
	struct link *g = &s->guest;
	bool moved = false;

	if (s->k->stalled)
		return session_hold(s), false;
	for (int i = 0; i < READS && !h->broken && !link_full(g); i++) {
		if (!g->in.len && !link_fill(g))
			break;
		h->broken = !h2_feed(h->h2, link_data(g), g->in.len, loop_now(s->k->loop));
		s->down.turn += g->in.len;
		link_take(g, g->in.len);
		moved = true;
	}
	for (struct lane *l = g->eof && !h->heard_end ? h->lanes : NULL; l; l = l->next)
		l->news = moved = true;
	h->heard_end = g->eof;
	return moved;
}

static bool write_frames(struct session_h2 *h)
{
	struct link *g = &h->of->guest;
	bool moved = false;
	const char *p;
	size_t n;

	while (!link_full(g) && (n = h2_next(h->h2, &p)))
		moved |= link_add(g, p, n);
	return moved;
}

bool session_streams(struct session *s)
{
	struct session_h2 *h = s->h2;
	bool moved = read_frames(h);

	moved |= lanes_step(h);
	moved |= write_frames(h);
	if (moved && h->spoke)
		session_patience(s, IDLE_US);
	if (h->broken || s->guest.broken) {
		s->state = SESSION_DEAD;
	} else if (h2_over(h->h2) || (s->guest.eof && !h->lanes && !h2_streams(h->h2))) {
		session_linger(s);
		return true;
	}
	return moved;
}

void session_h2_begin(struct session *s)
{
	struct session_h2 *h = calloc(1, sizeof(*h));

	s->state = SESSION_DEAD;
	if (!h)
		return;
	s->h2 = h;
	h->of = s;
	h->end = &h->lanes;
	h->shares = shares_new(s->k);
	h->h2 = h2_new(H2_SERVER, &lane_events, h);
	if (h->shares && h->h2)
		s->state = SESSION_STREAMS;
}

struct session_h2 *session_h2_free(struct session_h2 *h)
{
	if (!h)
		return NULL;
	while (h->lanes)
		lane_leave(h->lanes);
	(void)h2_free(h->h2);
	(void)shares_free(h->shares);
	free(h);
	return NULL;
}

void session_h2_turn(struct session_h2 *h)
{
	for (struct lane *l = h ? h->lanes : NULL; l; l = l->next)
		l->d.turn = 0;
}

bool session_h2_reads(const struct session *s)
{
	return !link_full(&s->guest);
}

bool session_h2_unsent(const struct session_h2 *h)
{
	for (const struct lane *l = h ? h->lanes : NULL; l; l = l->next) {
		struct link *up = l->touched && l->x ? exchange_link(l->x) : NULL;

		if (up && up->out.len)
			return true;
	}
	return false;
}

bool session_h2_flush(struct session_h2 *h)
{
	bool moved = false;

	for (struct lane *l = h ? h->lanes : NULL; l; l = l->next) {
		struct link *up = l->touched && l->x ? exchange_link(l->x) : NULL;

		if (!up || !up->out.len || !link_flush(up))
			continue;
		l->news = moved = true;
	}
	return moved;
}

/* What the monitor had to be told of first is not sent yet: its lane stays touched, since nothing
 * else would have it sent. */
int session_h2_wait(struct session_h2 *h)
{
	for (struct lane *l = h ? h->lanes : NULL; l; l = l->next) {
		struct link *up;

		if (!l->touched)
			continue;
		up = l->x ? exchange_link(l->x) : NULL;
		l->touched = up && up->out.len;
		if (l->x && exchange_wait(l->x) < 0)
			return -1;
	}
	return 0;
}

void session_h2_tick(struct session *s, uint64_t now)
{
	struct session_h2 *h = s->h2;
	bool run = false;

	shares_tick(h->shares, now);
	for (struct lane *l = h->lanes; l; l = l->next)
		if (l->x && exchange_tick(l->x, now))
			run = l->news = true;
	if (!h->lanes && now >= s->deadline) {
		/* Told twice, so that nothing is lost that is on its way. */
		h2_drain(h->h2);
		(void)write_frames(h);
		if (h->drained)
			session_linger(s);
		else
			session_patience(s, DRAIN_US);
		h->drained = true;
		run = true;
	}
	if (run)
		session_run(s);
}
