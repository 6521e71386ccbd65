/* SPDX-License-Identifier: Apache-2.0 */
/* egress/session.c - a connection of the guest, from its first byte to its end.
 *
 *     first byte -> [SOCKS | CONNECT ->] -> ClientHello -> TLS -> head -> exchange -> head ...
 *                                      |             '-> opening -> tunnel   (not to be opened)
 *                                      '-> head (plain HTTP) -> exchange ...
 *
 * There is one decision function for all of it (egress/allow.h), asked again at each step that
 * tells more. Any error ends the connection; nothing is forwarded that was not understood. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "egress/worker.h"
#include "wire/hello.h"
#include "wire/socks.h"

#define SECOND ((uint64_t)1000 * 1000)
#define HEAD_US (30 * SECOND)    /* for a hello, a handshake, a head */
#define IDLE_US (90 * SECOND)    /* between two requests */
#define TUNNEL_US (600 * SECOND) /* nothing moving in a tunnel */
#define LINGER_US (2 * SECOND)
#define TURN ((size_t)1 << 20) /* bytes; then it is somebody else's turn */

#define TLS_HANDSHAKE 22
#define SOCKS_VERSION 5

static const struct http1_text connect_text = { "CONNECT", 7 }, tls_text = { "TLS", 3 };

void session_patience(struct session *s, uint64_t us)
{
	s->deadline = loop_now(s->k->loop) + us;
}

/* Runs it again once the monitor knows what was decided until now. */
static void session_hold(struct session *s)
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
	exchange_done(s);
	(void)upstream_free(s->up);
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
	exchange_done(s);
	s->up = upstream_free(s->up);
	s->state = SESSION_LINGER;
	session_patience(s, IDLE_US);
}

/* ---- answers of the door itself ---- */

static void answer(struct session *s, int status, const char *phrase, const char *reason,
		   unsigned retry_after, const struct buf *body)
{
	CLEANUP(buf) struct buf b = BUF_INIT(8192);

	buf_printf(&b,
		   "HTTP/1.1 %d %.120s\r\nContent-Type: application/json\r\nbrig-reason: %s\r\n",
		   status, phrase, reason);
	if (retry_after)
		buf_printf(&b, "Retry-After: %u\r\n", retry_after);
	buf_printf(&b, "Content-Length: %zu\r\nConnection: close\r\n\r\n", body->len);
	if (s->x.asked != HTTP1_ASKED_HEAD)
		buf_add(&b, buf_str(body), body->len);
	(void)link_add(&s->guest, buf_str(&b), b.len);
}

void session_deny(struct session *s, const struct egress_verdict *v, struct http1_text method)
{
	CLEANUP(buf) struct buf body = BUF_INIT(4096);

	report_deny(s->k, v, method);
	verdict_json(v, &body);
	answer(s, egress_reason_status(v->reason), v->what, egress_reason_name(v->reason),
	       v->retry_after, &body);
	session_linger(s);
}

void session_answer(struct session *s, int status, const char *reason, const char *what)
{
	CLEANUP(buf) struct buf body = BUF_INIT(1024);
	struct json j;

	json_init(&j, &body, false);
	json_object(&j);
	json_key(&j, "error");
	json_object(&j);
	json_kstr(&j, "reason", reason);
	json_kstr(&j, "what", what);
	json_object_end(&j);
	json_object_end(&j);
	buf_putc(&body, '\n');
	answer(s, status, what, reason, 0, &body);
	session_linger(s);
}

/* A fatal alert, for a guest to whom no leaf can be shown: access_denied. */
static void alert(struct session *s)
{
	static const unsigned char denied[] = { 21, 3, 3, 0, 2, 2, 49 };

	(void)link_add(&s->guest, denied, sizeof(denied));
	session_linger(s);
}

/* ---- tunnels ---- */

void session_tunnel(struct session *s, const struct egress_verdict *v, const char *method)
{
	s->x.v = *v;
	(void)snprintf(s->x.method, sizeof(s->x.method), "%s", method);
	if (!report_allow(s->k, v, (struct http1_text){ method, strlen(method) })) {
		s->state = SESSION_DEAD;
		return;
	}
	s->state = SESSION_OPENING;
}

static bool opening(struct session *s)
{
	if (!s->up && !session_told(s))
		return false;
	if (!s->up && !(s->up = upstream_get(s, &s->x.v, false, true))) {
		s->state = SESSION_DEAD;
		return false;
	}
	upstream_step(s->up);
	if (s->up->state == UP_FAILED) {
		report_deny(s->k, &s->up->failure, tls_text);
		alert(s);
		return true;
	}
	if (s->up->state != UP_OPEN)
		return false;
	s->state = SESSION_TUNNEL;
	session_patience(s, TUNNEL_US);
	return true;
}

/* One direction of a tunnel; true when something moved. */
static bool move(struct session *s, struct link *from, struct link *to, bool *closed, bool out)
{
	size_t n = from->in.len;
	struct egress_verdict v;

	if (n && !link_full(to)) {
		if (out ? !rate_sent(s->k->rate, n, &v) : !rate_received(s->k->rate, n, &v)) {
			report_deny(s->k, &v, tls_text);
			s->state = SESSION_DEAD;
			return true;
		}
		(void)link_add(to, link_data(from), n);
		link_take(from, n);
		*(out ? &s->x.bytes_out : &s->x.bytes_in) += n;
		(void)link_flush(to);
		return true;
	}
	if (from->eof && !from->in.len && !to->out.len && !*closed) {
		*closed = true;
		link_half_close(to);
		return true;
	}
	return false;
}

static bool tunnel(struct session *s)
{
	struct link *g = &s->guest, *u = s->up ? &s->up->link : NULL;
	bool moved = false;

	if (!u) {
		s->state = SESSION_DEAD;
		return false;
	}
	moved |= link_fill(g) > 0;
	moved |= link_fill(u) > 0;
	moved |= move(s, g, u, &s->up_half_closed, true);
	if (s->state == SESSION_TUNNEL)
		moved |= move(s, u, g, &s->half_closed, false);
	if (moved)
		session_patience(s, TUNNEL_US);
	if (g->broken || u->broken || (s->half_closed && s->up_half_closed)) {
		report_done(s->k, &s->x.v, (struct http1_text){ s->x.method, strlen(s->x.method) },
			    &s->up->at_addr, 0, s->x.bytes_out, s->x.bytes_in);
		s->state = SESSION_DEAD;
	}
	return moved;
}

/* ---- the steps before HTTP ---- */

static struct egress_text named(const struct host *h)
{
	return h->len ? egress_text(h->name, h->len) : egress_text(NULL, 0);
}

static bool needs_more(struct session *s)
{
	if (link_fill(&s->guest))
		return true;
	if (s->guest.broken)
		s->state = SESSION_DEAD;
	else if (s->guest.eof)
		session_linger(s); /* the last answer may still be on its way */
	return false;
}

/* A connection straight to the one open service of the host: its bytes are nobody's business. */
static bool host_service(struct session *s)
{
	struct egress_request q = { .via = EGRESS_VIA_OTHER,
				    .host = named(&s->tunnel),
				    .tunnel = named(&s->tunnel),
				    .port = s->port };
	struct egress_verdict v = { 0 };

	if (!s->tunnel.len || strcmp(s->tunnel.name, EGRESS_HOST_SERVICE) != 0 ||
	    !egress_decide(s->k->rules, &q, &v) || !v.host_service)
		return false;
	session_tunnel(s, &v, "CONNECT");
	return true;
}

static bool first(struct session *s)
{
	unsigned char c;

	if (host_service(s))
		return true;
	if (!s->guest.in.len)
		return needs_more(s);
	c = (unsigned char)link_data(&s->guest)[0];
	if (s->proxy && !s->tunnelled && c == SOCKS_VERSION) {
		ssize_t n = socks_read_greeting((const unsigned char *)link_data(&s->guest),
						s->guest.in.len);

		if (n == 0)
			return needs_more(s);
		if (n < 0) {
			(void)link_add(&s->guest, "\x05\xff", 2);
			session_linger(s);
			return true;
		}
		link_take(&s->guest, (size_t)n);
		(void)link_add(&s->guest, "\x05\x00", 2);
		s->state = SESSION_SOCKS;
		return true;
	}
	s->state = c == TLS_HANDSHAKE && (!s->proxy || s->tunnelled) ? SESSION_HELLO : SESSION_HEAD;
	return true;
}

static bool decide_tunnel(struct session *s, const char *host, size_t n, uint16_t port,
			  struct egress_verdict *v)
{
	struct egress_request q = { .via = EGRESS_VIA_TUNNEL,
				    .host = egress_text(host, n),
				    .port = port };

	if (!egress_decide(s->k->rules, &q, v) || !rate_name(s->k->rate, &v->host, v) ||
	    (s->k->scanner && !scan_host(s->k->scanner, &v->host, v)))
		return false;
	s->tunnel = v->host;
	s->port = port;
	s->tunnelled = true;
	s->state = SESSION_FIRST;
	return true;
}

static bool socks(struct session *s)
{
	struct egress_verdict v = { 0 };
	unsigned char reply[SOCKS_REPLY_LEN];
	struct socks_request q;
	ssize_t n = socks_read_request((const unsigned char *)link_data(&s->guest), s->guest.in.len,
				       &q);

	if (n == 0)
		return needs_more(s);
	if (n < 0) {
		socks_reply(n == -EOPNOTSUPP ? SOCKS_BAD_COMMAND : SOCKS_FAILURE, reply);
		(void)link_add(&s->guest, reply, sizeof(reply));
		session_linger(s);
		return true;
	}
	link_take(&s->guest, (size_t)n);
	if (decide_tunnel(s, q.host, q.host_len, q.port, &v)) {
		socks_reply(SOCKS_OK, reply);
		(void)link_add(&s->guest, reply, sizeof(reply));
		return true;
	}
	report_deny(s->k, &v, connect_text);
	socks_reply(SOCKS_NOT_ALLOWED, reply);
	(void)link_add(&s->guest, reply, sizeof(reply));
	session_linger(s);
	return true;
}

static void terminate(struct session *s, const struct host *name)
{
	SSL *ssl = mint_server(s->k->mint, name->name);

	/* An answer still on its way in the clear must not end up inside TLS. */
	if (!ssl || s->guest.out.len) {
		SSL_free(ssl);
		alert(s);
		return;
	}
	if (link_tls(&s->guest, ssl) < 0) {
		s->state = SESSION_DEAD;
		return;
	}
	s->sni = *name;
	s->state = SESSION_TLS;
}

/* What the ClientHello says decides; a "no" is told inside TLS, where a program shows it. */
static bool hello(struct session *s)
{
	unsigned char scratch[HELLO_MAX];
	struct egress_verdict v = { .port = s->port, .host = s->tunnel };
	struct hello h;
	struct host name;
	int r = hello_read(s->guest.in.len ? link_data(&s->guest) : "", s->guest.in.len, scratch,
			   &h);
	struct egress_request q = { .via = EGRESS_VIA_TLS,
				    .tunnel = named(&s->tunnel),
				    .port = s->port };

	if (r == 0)
		return needs_more(s);
	if (r < 0) {
		(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL, "a malformed TLS hello");
		report_deny(s->k, &v, tls_text);
		alert(s);
		return true;
	}
	q.host = q.sni = egress_text(h.name, h.name_len);
	if (egress_decide(s->k->rules, &q, &v) && rate_name(s->k->rate, &v.host, &v) &&
	    (!s->k->scanner || scan_host(s->k->scanner, &v.host, &v))) {
		if (v.passthrough && h.encrypted) {
			/* The name inside is another's to see: it could be any. */
			(void)verdict_deny(&v, EGRESS_TLS_MISMATCH, NULL,
					   "an encrypted hello to %s, which is passed through",
					   v.host.name);
			report_deny(s->k, &v, tls_text);
			alert(s);
		} else if (v.passthrough)
			session_tunnel(s, &v, "TLS");
		else
			terminate(s, &v.host);
		return true;
	}
	if (v.reason == EGRESS_TLS_MISMATCH || v.reason == EGRESS_BAD_REQUEST ||
	    host_parse(q.sni, &name) != HOST_OK) {
		report_deny(s->k, &v, tls_text);
		alert(s);
		return true;
	}
	/* A leaf for a name that is closed costs as much as any other. */
	if (!rate_name(s->k->rate, &name, &v)) {
		report_deny(s->k, &v, tls_text);
		alert(s);
		return true;
	}
	s->refused = v;
	terminate(s, &name);
	return true;
}

static bool shake(struct session *s)
{
	int r = link_handshake(&s->guest);
	const char *name;

	if (r == 0)
		return false;
	name = r > 0 ? SSL_get_servername(s->guest.ssl, TLSEXT_NAMETYPE_host_name) : NULL;
	if (r < 0 || !name || strcasecmp(name, s->sni.name) != 0) {
		/* Most often: a program that does not trust the run's authority. */
		s->state = SESSION_DEAD;
		return true;
	}
	s->secure = true;
	s->state = SESSION_HEAD;
	session_patience(s, HEAD_US);
	return true;
}

/* ---- heads ---- */

static void connect_request(struct session *s, const struct http1_request *q, size_t n)
{
	struct egress_verdict v = { 0 };
	struct egress_text host = egress_text(q->authority.p, q->authority.n);
	struct host name;
	uint16_t port = 0;

	if (host_parse_authority(host, 0, &name, &port) == HOST_OK)
		host = egress_text(name.name, name.len);
	if (!decide_tunnel(s, host.p, host.n, port, &v)) {
		session_deny(s, &v, connect_text);
		return;
	}
	link_take(&s->guest, n);
	(void)link_add(&s->guest, "HTTP/1.1 200 Connection established\r\n\r\n", 39);
	session_patience(s, HEAD_US);
}

static bool head(struct session *s)
{
	struct http1_request q;
	const char *why;
	bool had = s->guest.in.len > 0;
	ssize_t n;

	if (s->k->stalled)
		return session_hold(s), false;
	n = had ? http1_read_request(link_data(&s->guest), s->guest.in.len, &q, &why) : 0;
	if (n == 0) {
		bool more = needs_more(s);

		if (more && !had)
			session_patience(s, HEAD_US);
		return more;
	}
	if (n < 0) {
		struct egress_verdict v = { .port = s->port, .host = s->tunnel };

		(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL, "%s", why);
		report_deny(s->k, &v, (struct http1_text){ "", 0 });
		session_answer(s, (int)-n, "bad-request", why);
		return true;
	}
	if (q.form == HTTP1_AUTHORITY) {
		if (s->proxy && !s->tunnelled && !s->secure)
			connect_request(s, &q, (size_t)n);
		else
			session_answer(s, 400, "bad-request", "CONNECT inside a connection");
		return true;
	}
	exchange_begin(s, &q, (size_t)n);
	return true;
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
		return first(s);
	case SESSION_SOCKS:
		return socks(s);
	case SESSION_HELLO:
		return hello(s);
	case SESSION_TLS:
		return shake(s);
	case SESSION_HEAD:
		return head(s);
	case SESSION_OPENING:
		return opening(s);
	case SESSION_TUNNEL:
		return tunnel(s);
	case SESSION_EXCHANGE:
		return exchange_step(s);
	case SESSION_LINGER:
		return linger(s);
	case SESSION_DEAD:
		break;
	}
	return false;
}

static void wait(struct session *s)
{
	/* Nothing is read while a tunnel opens, or before the last word is out. */
	bool reading =
		s->state != SESSION_OPENING && (s->state != SESSION_LINGER || s->half_closed);

	if (link_wait(s->k->loop, &s->guest, reading) < 0)
		s->state = SESSION_DEAD;
	if (s->up && s->up->state == UP_OPEN &&
	    link_wait(s->k->loop, &s->up->link, !link_full(&s->guest)) < 0)
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
	} while (s->state != SESSION_DEAD && (moved || was != s->state) && !session_tired(s));
}

static bool flush(struct session *s)
{
	bool moved;

	if (s->state == SESSION_DEAD || s->state == SESSION_TLS ||
	    (!s->guest.out.len && !(s->up && s->up->link.out.len)) || !session_told(s))
		return false;
	moved = link_flush(&s->guest) > 0;
	if (s->up && s->up->state == UP_OPEN)
		moved |= link_flush(&s->up->link) > 0;
	return moved;
}

bool session_tired(const struct session *s)
{
	return s->turn >= TURN;
}

void session_run(struct session *s)
{
	if (s->running)
		return;
	s->running = true;
	s->turn = 0;
	do
		take_steps(s);
	while (flush(s) && !session_tired(s));
	if (s->guest.broken)
		s->state = SESSION_DEAD;
	s->running = false;
	/* The rest may lie inside TLS already, where no event tells of it. */
	if (session_tired(s))
		session_hold(s);
	if (s->state != SESSION_DEAD)
		wait(s);
	if (s->state == SESSION_DEAD)
		(void)session_free(s);
}

/* ---- beginning and end ---- */

static void on_event(struct watch *w, uint32_t events)
{
	(void)events;
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
		s->tunnel = *name;
}

void session_refuse(struct listener *l, int fd)
{
	struct egress_verdict v = { .port = l->port, .retry_after = 1 };

	(void)verdict_deny(&v, EGRESS_LIMIT, NULL, "the door has no descriptor left");
	report_deny(l->k, &v, connect_text);
	(void)close(fd);
}

void session_open(struct listener *l, int fd)
{
	struct session *s = calloc(1, sizeof(*s));
	struct egress_verdict v = { 0 };
	int on = 1;

	if (!s || !rate_connect(l->k->rate, &v)) {
		if (s)
			report_deny(l->k, &v, connect_text);
		free(s);
		(void)close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	link_init(&s->guest, fd, on_event);
	s->k = l->k;
	s->port = l->port;
	s->proxy = l->kind == DOOR_PROXY;
	s->next = l->k->sessions;
	if (s->next)
		s->next->at = &s->next;
	s->at = &l->k->sessions;
	l->k->sessions = s;
	if (!s->proxy)
		dialled(s);
	session_patience(s, IDLE_US);
	session_run(s);
}

void session_tick(struct worker *k, uint64_t now)
{
	for (struct session *s = k->sessions, *next; s; s = next) {
		next = s->next;
		if (s->up && s->up->state < UP_OPEN && now >= s->up->deadline) {
			s->up->state = UP_FAILED;
			(void)verdict_deny(&s->up->failure, EGRESS_INTERNAL, NULL,
					   "the host did not answer in time");
			session_run(s);
		} else if (now >= s->deadline && s->state == SESSION_EXCHANGE) {
			exchange_stalled(s);
			session_run(s);
		} else if (now >= s->deadline) {
			(void)session_free(s);
		}
	}
}
