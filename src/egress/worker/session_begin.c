/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/session_begin.c - from the first byte of a connection to the head of a request. */
#include <string.h>
#include <strings.h>

#include "base/text/cleanup.h"
#include "egress/worker/session.h"
#include "wire/hello.h"
#include "wire/socks.h"

#define TLS_HANDSHAKE 22
#define SOCKS_VERSION 5

/* ---- the steps before HTTP ---- */

static struct egress_text session_begin_named(const struct host *h)
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
				    .host = session_begin_named(&s->from.tunnel),
				    .tunnel = session_begin_named(&s->from.tunnel),
				    .port = s->from.port };
	struct egress_verdict v = { 0 };

	if (!s->from.tunnel.len || strcmp(s->from.tunnel.name, EGRESS_HOST_SERVICE) != 0 ||
	    !egress_decide(s->k->rules, &q, &v) || !v.host_service)
		return false;
	session_tunnel(s, &v, "CONNECT");
	return true;
}

/* A name and port that is for SSH: its server may speak first, so nothing is waited for. */
static bool session_begin_ssh(struct session *s)
{
	struct egress_request q = { .via = EGRESS_VIA_TUNNEL,
				    .host = session_begin_named(&s->from.tunnel),
				    .tunnel = session_begin_named(&s->from.tunnel),
				    .port = s->from.port };
	struct egress_verdict v = { 0 };

	if (!s->from.tunnel.len || s->from.proxy || !egress_has_ssh(s->k->rules) ||
	    !egress_decide(s->k->rules, &q, &v) || !v.ssh)
		return false;
	if (!rate_name(s->k->rate, &v.host, &v) ||
	    (s->k->scanner && !scan_host(s->k->scanner, &v.host, &v))) {
		report_deny(s->k, &v, session_ssh);
		s->state = SESSION_DEAD;
		return true;
	}
	session_tunnel(s, &v, "SSH");
	return true;
}

/* SSH to where no rule for it leads: refused as that, and not as bad HTTP. */
static bool session_begin_other_ssh(struct session *s)
{
	struct egress_request q = { .via = EGRESS_VIA_OTHER,
				    .host = session_begin_named(&s->from.tunnel),
				    .port = s->from.port };
	struct egress_verdict v = { 0 };
	size_t n = s->guest.in.len;

	if (!s->from.tunnel.len || n < SSH_BEGINS_LEN ||
	    memcmp(link_data(&s->guest), SSH_BEGINS, SSH_BEGINS_LEN) != 0)
		return false;
	if (egress_decide(s->k->rules, &q, &v))
		return false;
	report_deny(s->k, &v, session_ssh);
	s->state = SESSION_DEAD;
	return true;
}

bool session_first(struct session *s)
{
	unsigned char c;

	if (host_service(s) || session_begin_ssh(s))
		return true;
	if (!s->guest.in.len)
		return needs_more(s);
	if (session_begin_other_ssh(s))
		return true;
	c = (unsigned char)link_data(&s->guest)[0];
	if (s->from.proxy && !s->from.tunnelled && c == SOCKS_VERSION) {
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
	s->state = c == TLS_HANDSHAKE && (!s->from.proxy || s->from.tunnelled) ? SESSION_HELLO
									       : SESSION_HEAD;
	return true;
}

static bool decide_tunnel(struct session *s, const char *host, size_t n, uint16_t port,
			  struct egress_verdict *v)
{
	struct egress_request q = { .via = EGRESS_VIA_TUNNEL,
				    .host = egress_text(host, n),
				    .port = port };

	if (!asked_decide(s->k, &s->from, &q, v) || !rate_name(s->k->rate, &v->host, v) ||
	    !name_may_leave(s->k, v))
		return false;
	s->from.tunnel = v->host;
	s->from.port = port;
	s->from.tunnelled = true;
	s->state = SESSION_FIRST;
	if (v->ssh)
		session_tunnel(s, v, "SSH");
	return true;
}

bool session_socks(struct session *s)
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
	if (decide_tunnel(s, q.host, q.host_len, q.port, &v)) {
		link_take(&s->guest, (size_t)n);
		socks_reply(SOCKS_OK, reply);
		(void)link_add(&s->guest, reply, sizeof(reply));
		return true;
	}
	if (session_asks(s, &v))
		return false;
	link_take(&s->guest, (size_t)n);
	report_deny(s->k, &v, session_connect);
	socks_reply(SOCKS_NOT_ALLOWED, reply);
	(void)link_add(&s->guest, reply, sizeof(reply));
	session_linger(s);
	return true;
}

static void terminate(struct session *s, const struct host *name)
{
	/* An answer still on its way in the clear must not end up inside TLS. */
	SSL *ssl = s->guest.out.len ? NULL : mint_server(s->k->mint, name->name);

	if (!ssl) {
		session_alert(s);
		return;
	}
	if (link_tls(&s->guest, ssl) < 0) {
		s->state = SESSION_DEAD;
		return;
	}
	s->from.sni = *name;
	s->state = SESSION_TLS;
}

/* What the ClientHello says decides; a "no" is told inside TLS, where a program shows it. */
bool session_hello(struct session *s)
{
	unsigned char scratch[HELLO_MAX];
	struct egress_verdict v = { .port = s->from.port, .host = s->from.tunnel };
	struct hello h;
	struct host name;
	int r = hello_read(s->guest.in.len ? link_data(&s->guest) : "", s->guest.in.len, scratch,
			   &h);
	struct egress_request q = { .via = EGRESS_VIA_TLS,
				    .tunnel = session_begin_named(&s->from.tunnel),
				    .port = s->from.port };

	if (r == 0)
		return needs_more(s);
	if (r < 0) {
		(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL, "a malformed TLS hello");
		report_deny(s->k, &v, session_tls);
		session_alert(s);
		return true;
	}
	q.host = q.sni = egress_text(h.name, h.name_len);
	if (asked_decide(s->k, &s->from, &q, &v) && rate_name(s->k->rate, &v.host, &v) &&
	    name_may_leave(s->k, &v)) {
		if (v.passthrough && h.encrypted) {
			/* The name inside is another's to see: it could be any. */
			(void)verdict_deny(&v, EGRESS_TLS_MISMATCH, NULL,
					   "an encrypted hello to %s, which is passed through",
					   v.host.name);
			report_deny(s->k, &v, session_tls);
			session_alert(s);
		} else if (v.passthrough)
			session_tunnel(s, &v, "TLS");
		else
			terminate(s, &v.host);
		return true;
	}
	if (session_asks(s, &v))
		return false;
	if (v.reason == EGRESS_TLS_MISMATCH || v.reason == EGRESS_BAD_REQUEST ||
	    host_parse(q.sni, &name) != HOST_OK) {
		report_deny(s->k, &v, session_tls);
		session_alert(s);
		return true;
	}
	/* A leaf for a name that is closed costs as much as any other. */
	if (!rate_name(s->k->rate, &name, &v)) {
		report_deny(s->k, &v, session_tls);
		session_alert(s);
		return true;
	}
	s->refused = v;
	terminate(s, &name);
	return true;
}

bool session_shake(struct session *s)
{
	int r = link_handshake(&s->guest);
	const char *name;

	if (r == 0)
		return false;
	name = r > 0 ? tls_server_name(s->guest.tls) : NULL;
	if (r < 0 || !name || strcasecmp(name, s->from.sni.name) != 0) {
		/* Most often: a program that does not trust the run's authority. */
		s->state = SESSION_DEAD;
		return true;
	}
	s->from.secure = true;
	s->state = SESSION_HEAD;
	session_patience(s, HEAD_US);
	if (tls_speaks(s->guest.tls, "h2"))
		session_h2_begin(s);
	return true;
}

/* ---- heads ---- */

/* A Host field beside the target of CONNECT says the same, with a port or without. */
static bool agrees(const struct http1_request *q, const struct host *name, uint16_t port)
{
	struct host host;
	uint16_t again = port;

	return !q->host.n || (host_parse_authority(egress_text(q->host.p, q->host.n), port, &host,
						   &again) == HOST_OK &&
			      host_eq(&host, name) && again == port);
}

static void connect_request(struct session *s, const struct http1_request *q, size_t n)
{
	struct egress_verdict v = { 0 };
	struct egress_text host = egress_text(q->authority.p, q->authority.n);
	struct host name;
	uint16_t port = 0;
	enum host_fault fault = host_parse_authority(host, 0, &name, &port);

	if (fault == HOST_ADDRESS) /* which is refused; the words name it without its port */
		host.n = host_address_part(host, 0, &port);
	if (fault == HOST_OK) {
		host = egress_text(name.name, name.len);
		if (!agrees(q, &name, port)) {
			v = (struct egress_verdict){ .host = name, .port = port };
			(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL,
					   "the Host field names another host or port than the "
					   "target of CONNECT");
			session_deny(s, &v, session_connect);
			return;
		}
	}
	if (!decide_tunnel(s, host.p, host.n, port, &v)) {
		if (!session_asks(s, &v))
			session_deny(s, &v, session_connect);
		return;
	}
	link_take(&s->guest, n);
	(void)link_add(&s->guest, "HTTP/1.1 200 Connection established\r\n\r\n", 39);
	session_patience(s, HEAD_US);
}

bool session_head(struct session *s)
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
		struct egress_verdict v = { .port = arrival_port(&s->from),
					    .host = s->from.tunnel };

		(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL, "%s", why);
		report_deny(s->k, &v, (struct http1_text){ "", 0 });
		session_answer(s, (int)-n, "bad-request", why);
		return true;
	}
	if (q.form == HTTP1_AUTHORITY) {
		if (s->from.proxy && !s->from.tunnelled && !s->from.secure)
			connect_request(s, &q, (size_t)n);
		else
			session_answer(s, 400, "bad-request", "CONNECT inside a connection");
		return !s->question;
	}
	session_request(s, &q, (size_t)n);
	return !s->question;
}
