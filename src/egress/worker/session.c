/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/session.c - a connection of the guest, from its first byte to its end.
 *
 *     first byte -> [SOCKS | CONNECT ->] -> ClientHello -> TLS -> head -> exchange -> head ...
 *                                      |             '-> opening -> tunnel   (not to be opened)
 *                                      '-> head (plain HTTP) -> exchange ...
 *
 * There is one decision function for all of it (egress/rules/allow.h), asked again at each step
 * that tells more. Any error ends the connection; nothing is forwarded that was not understood. */
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/bytes/json.h"
#include "base/text/cleanup.h"
#include "egress/worker/downstream.h"
#include "egress/worker/session.h"

#define LINGER_US (2 * SECOND)
#define TURN ((size_t)1 << 20) /* bytes; then it is somebody else's turn */

void session_patience(struct session *s, uint64_t us)
{
	s->deadline = loop_now(s->k->loop) + us;
}

void session_hold(struct session *s)
{
	if (s->held_at)
		return;
	s->held_next = s->k->held;
	if (s->held_next)
		s->held_next->held_at = &s->held_next;
	s->held_at = &s->k->held;
	s->k->held = s;
}

static void unhold(struct session *s)
{
	if (!s->held_at)
		return;
	*s->held_at = s->held_next;
	if (s->held_next)
		s->held_next->held_at = s->held_at;
	s->held_at = NULL;
}

bool session_told(struct session *s)
{
	if (!s->k->n_events)
		return true;
	session_hold(s);
	return false;
}

/* What connections have taken. A sanitizer's allocator does not say. */
bool worker_is_short(const struct worker *k)
{
	struct mallinfo2 m = mallinfo2();
	size_t now = m.uordblks + m.hblkhd;

	return now > k->base && now - k->base > k->plan->memory / 4 * 3;
}

void session_settle(struct worker *k)
{
	struct session *all = NULL;

	if (k->held && report_flush(k)) {
		/* What is held again meanwhile waits for the next time. */
		all = k->held;
		all->held_at = &all;
		k->held = NULL;
	}
	while (all) {
		struct session *s = all;

		unhold(s);
		session_run(s);
	}
	if (k->n_events)
		(void)report_flush(k);
	if (k->held && !k->stalled)
		loop_hurry(k->loop);
}

struct session *session_free(struct session *s)
{
	if (!s)
		return NULL;
	(void)exchange_free(s->x);
	(void)tunnel_free(s->tunnel, s->k);
	(void)session_h2_free(s->h2);
	link_done(s->k->loop, &s->guest);
	unhold(s);
	*s->at = s->next;
	if (s->next)
		s->next->at = s->at;
	rate_disconnect(s->k->rate);
	free(s);
	return NULL;
}

void session_linger(struct session *s)
{
	s->x = exchange_free(s->x);
	s->tunnel = tunnel_free(s->tunnel, s->k);
	s->h2 = session_h2_free(s->h2);
	s->state = SESSION_LINGER;
	session_patience(s, IDLE_US);
}

static bool linger(struct session *s)
{
	bool moved = link_flush(&s->guest) > 0;

	/* Whoever reads slowly gets all of it. */
	if (moved)
		session_patience(s, IDLE_US);
	if (s->guest.out.len == 0 && !s->half_closed) {
		s->half_closed = true;
		link_half_close(&s->guest);
		session_patience(s, LINGER_US);
		moved = true;
	}
	if (s->half_closed) {
		moved |= link_fill(&s->guest) > 0;
		if (s->guest.in.len)
			link_take(&s->guest, s->guest.in.len);
	}
	if (s->guest.broken || (s->half_closed && s->guest.eof))
		s->state = SESSION_DEAD;
	return moved;
}

static bool step(struct session *s)
{
	switch (s->state) {
	case SESSION_FIRST:
		return session_first(s);
	case SESSION_SOCKS:
		return session_socks(s);
	case SESSION_HELLO:
		return session_hello(s);
	case SESSION_TLS:
		return session_shake(s);
	case SESSION_HEAD:
		return session_head(s);
	case SESSION_EXCHANGE:
		return session_exchange(s);
	case SESSION_STREAMS:
		return session_streams(s);
	case SESSION_TUNNEL:
		return session_pipe(s);
	case SESSION_LINGER:
		return linger(s);
	case SESSION_DEAD:
		break;
	}
	return false;
}

/* The link to the host, once it is open. */
static struct link *upward(struct session *s)
{
	if (s->x)
		return exchange_link(s->x);
	return s->tunnel && s->tunnel->up && s->tunnel->up->state == UP_OPEN ? &s->tunnel->up->link
									     : NULL;
}

/* Nothing is read while somebody is asked, a tunnel opens or a request cannot take it, or before
 * the last word is out.
 */
static bool reads(struct session *s)
{
	if (s->question)
		return false;
	if (s->state == SESSION_EXCHANGE)
		return session_reads(s);
	if (s->state == SESSION_STREAMS)
		return session_h2_reads(s);
	return s->state == SESSION_TUNNEL ? upward(s) != NULL
					  : s->state != SESSION_LINGER || s->half_closed;
}

static void wait(struct session *s)
{
	struct link *up = upward(s);

	if (link_wait(s->k->loop, &s->guest, reads(s)) < 0 ||
	    (up && link_wait(s->k->loop, up, !link_full(&s->guest)) < 0) ||
	    session_h2_wait(s->h2) < 0)
		s->state = SESSION_DEAD;
}

/* As far as it goes before anything is sent: head and body of an answer leave together. */
static void take_steps(struct session *s)
{
	enum session_state was;
	bool moved;

	do {
		was = s->state;
		moved = step(s);
	} while (s->state != SESSION_DEAD && (moved || was != s->state) &&
		 !downstream_tired(&s->down));
}

static bool session_flush(struct session *s)
{
	struct link *up = upward(s);
	bool moved;

	if (s->state == SESSION_DEAD || s->state == SESSION_TLS ||
	    (!s->guest.out.len && !(up && up->out.len) && !session_h2_unsent(s->h2)) ||
	    !session_told(s))
		return false;
	moved = link_flush(&s->guest) > 0;
	if (up)
		moved |= link_flush(up) > 0;
	moved |= session_h2_flush(s->h2);
	return moved;
}

void session_run(struct session *s)
{
	if (s->running)
		return;
	s->running = true;
	s->down.turn = 0;
	session_h2_turn(s->h2);
	do
		take_steps(s);
	while (session_flush(s) && !downstream_tired(&s->down));
	if (s->guest.broken)
		s->state = SESSION_DEAD;
	s->running = false;
	/* The rest may lie inside TLS already, where no event tells of it. */
	if (downstream_tired(&s->down))
		session_hold(s);
	if (s->state != SESSION_DEAD)
		wait(s);
	if (s->state == SESSION_DEAD)
		(void)session_free(s);
}

/* ---- beginning and end ---- */

static void session_on_event(struct loop_watch *w, uint32_t events UNUSED)
{
	session_run((struct session *)w);
}

/* The address the guest dialled: its name, if it is one of the addresses we gave out. */
static void dialled(struct session *s)
{
	struct sockaddr_in6 a6 = { .sin6_family = AF_UNSPEC };
	socklen_t n = sizeof(a6); /* as large as any it could be */
	struct addr a = { .family = 4 };
	const struct host *name;

	if (getsockname(s->guest.fd, (struct sockaddr *)&a6, &n) < 0)
		return;
	if (a6.sin6_family == AF_INET) {
		memcpy(a.b, (const char *)&a6 + offsetof(struct sockaddr_in, sin_addr), 4);
	} else if (IN6_IS_ADDR_V4MAPPED(&a6.sin6_addr)) {
		memcpy(a.b, a6.sin6_addr.s6_addr + 12, 4);
	} else {
		a.family = 6;
		memcpy(a.b, a6.sin6_addr.s6_addr, 16);
	}
	name = synth_name(s->k->synth, &a);
	if (name)
		s->from.tunnel = *name;
}

void session_refuse(struct listener *l, int fd)
{
	struct egress_verdict v = { .port = l->port, .retry_after = 1 };

	(void)verdict_deny(&v, EGRESS_LIMIT, NULL, "the door has no descriptor left");
	report_deny(l->k, &v, session_connect);
	(void)close(fd);
}

void session_open(struct listener *l, int fd)
{
	struct session *s = calloc(1, sizeof(*s));
	struct egress_verdict v = { 0 };
	int on = 1;

	if (!s || !rate_connect(l->k->rate, &v)) {
		if (s)
			report_deny(l->k, &v, session_connect);
		free(s);
		(void)close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	link_init(&s->guest, fd, session_on_event);
	link_share(&s->guest, &l->k->links);
	s->k = l->k;
	s->down.ops = &session_ops;
	s->from.port = l->port;
	s->from.own = l->kind == DOOR_OWN;
	s->from.proxy = l->kind == DOOR_PROXY || s->from.own;
	s->next = l->k->sessions;
	if (s->next)
		s->next->at = &s->next;
	s->at = &l->k->sessions;
	l->k->sessions = s;
	if (!s->from.proxy)
		dialled(s);
	session_patience(s, IDLE_US);
	session_run(s);
}

void session_tick(struct worker *k, uint64_t now)
{
	for (struct session *s = k->sessions, *next; s; s = next) {
		next = s->next;
		if (s->h2)
			session_h2_tick(s, now);
		else if (s->x ? exchange_tick(s->x, now)
			      : s->tunnel && s->tunnel->up && upstream_is_late(s->tunnel->up, now))
			session_run(s);
		else if (!s->x && now >= s->deadline)
			(void)session_free(s);
	}
}

/* ---- what exchanges say to it, whatever it speaks (downstream.h) ---- */

bool downstream_tired(const struct downstream *d)
{
	return d->turn >= TURN;
}

void downstream_deny(struct downstream *d, const struct egress_verdict *v)
{
	CLEANUP(buf) struct buf body = BUF_INIT(4096);

	verdict_json(v, &body);
	d->ops->refuse(d, &(struct down_refusal){ .status = egress_reason_status(v->reason),
						  .phrase = v->what,
						  .reason = egress_reason_name(v->reason),
						  .retry_after = v->retry_after,
						  .body = &body });
}

void downstream_fail(struct downstream *d, int status, const char *reason, const char *what)
{
	CLEANUP(buf) struct buf body = BUF_INIT(1024);
	struct json j;

	json_init(&j, &body, false);
	json_object(&j);
	json_kstr(&j, "error", what);
	json_kstr(&j, "reason", reason);
	json_kstr(&j, "what", what);
	json_object_end(&j);
	buf_putc(&body, '\n');
	d->ops->refuse(d,
		       &(struct down_refusal){
			       .status = status, .phrase = what, .reason = reason, .body = &body });
}
