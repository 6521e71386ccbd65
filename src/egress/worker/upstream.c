/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/upstream.c - from a verdict to an open connection.
 *
 *     resolving -> connecting [-> TLS to a proxy] [-> asking it] -> shaking hands -> open
 *               -> idle in the pool ...
 *
 * Every address is asked about before it is dialled, and exactly that address is dialled. A name
 * pinned by the operator is not resolved. With a proxy of the machine's own (upstream_proxy.h) it
 * is the proxy that is dialled, and the proxy that resolves; but for names that the operator wants
 * reached without it (direct.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/text/cleanup.h"
#include "egress/worker/worker.h"

#define OPEN_US (15 * 1000 * 1000)
#define IDLE_US (30 * 1000 * 1000)

static void leave_pool(struct upstream *u)
{
	if (!u->at)
		return;
	*u->at = u->next;
	if (u->next)
		u->next->at = u->at;
	u->at = NULL;
	u->k->n_idle--;
}

struct upstream *upstream_free(struct upstream *u)
{
	if (!u)
		return NULL;
	leave_pool(u);
	(void)lookup_cancel(u->lookup);
	link_done(u->k->loop, &u->link);
	free(u);
	return NULL;
}

static void upstream_fail(struct upstream *u, enum egress_reason reason, const char *what)
{
	u->state = UP_FAILED;
	if (!u->failure.reason)
		(void)verdict_deny(&u->failure, reason, NULL, "%s", what);
	if (u->failure.reason == EGRESS_INTERNAL)
		report_unreached(u->k, u);
}

/* An idle connection that stirs is of no use any more; one with an owner is the owner's. */
static void upstream_on_event(struct loop_watch *w, uint32_t events UNUSED)
{
	struct upstream *u = (struct upstream *)w;

	if (u->owner)
		u->stirs(u->owner);
	else
		(void)upstream_free(u);
}

static int upstream_dial(const struct addr *a, uint16_t port)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	bool six = a->family == 6;
	CLEANUP(fd)
	int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	memcpy(&a4.sin_addr, a->b, 4);
	memcpy(&a6.sin6_addr, a->b, 16);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	if (connect(fd, six ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4,
		    six ? sizeof(a6) : sizeof(a4)) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	return TAKE_FD(fd);
}

/* Does this machine deliver it to itself? So it does with addresses that came after the start, and
 * with those that are its own by a route alone: the kernel is asked for its route. No packet is
 * sent for the question; without an answer it is the machine's own. */
static bool is_here(const struct worker *k, const struct addr *a)
{
	struct {
		struct nlmsghdr head;
		struct rtmsg route;
		struct rtattr dst;
		unsigned char b[16];
	} q = { .head = { .nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST },
		.dst = { .rta_type = RTA_DST } };
	size_t n = a->family == 6 ? 16 : 4;
	union {
		struct nlmsghdr head;
		char room[4096];
	} said;
	const struct rtmsg *route = NLMSG_DATA(&said.head);
	ssize_t r;

	q.head.nlmsg_len = (uint32_t)(offsetof(typeof(q), b) + n);
	q.route.rtm_family = a->family == 6 ? AF_INET6 : AF_INET;
	q.route.rtm_dst_len = (unsigned char)(n * 8);
	q.dst.rta_len = (unsigned short)RTA_LENGTH(n);
	memcpy(q.b, a->b, n);
	if (send(k->routes, &q, q.head.nlmsg_len, MSG_NOSIGNAL) < 0)
		return true;
	r = recv(k->routes, &said, sizeof(said), MSG_DONTWAIT);
	if (r >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) &&
	    said.head.nlmsg_type == NLMSG_ERROR)
		return false; /* nor can it be dialled */
	return r < (ssize_t)NLMSG_LENGTH(sizeof(*route)) || said.head.nlmsg_type != RTM_NEWROUTE ||
	       route->rtm_type != RTN_UNICAST;
}

static bool may_dial(struct upstream *u, const struct addr *a)
{
	if (u->pinned || u->chained)
		return true;
	if (u->direct && direct_opens(u->k->direct, a))
		return !is_here(u->k, a) || egress_address(a, a, 1, &u->failure);
	return egress_address(a, u->k->own, u->k->n_own, &u->failure) &&
	       (!is_here(u->k, a) ||
		egress_address(a, a, 1, &u->failure)); /* as one that was known beforehand */
}

/* The next address that may be dialled; the last refusal is the answer if there is none. */
static void dial_next(struct upstream *u)
{
	struct worker *k = u->k;

	link_done(k->loop, &u->link);
	while (u->next_addr < u->n_addrs) {
		struct addr *a = &u->addrs[u->next_addr++];
		int fd;

		if (!may_dial(u, a))
			continue;
		fd = upstream_dial(a, u->dial_port);
		if (fd < 0)
			continue;
		u->failure.reason = EGRESS_OK;
		u->at_addr = *a;
		link_init(&u->link, fd, upstream_on_event);
		link_share(&u->link, &k->links);
		u->state = UP_CONNECTING;
		(void)loop_want(k->loop, &u->link.w, EPOLLOUT);
		return;
	}
	upstream_fail(u, EGRESS_INTERNAL, "the host could not be reached");
}

static void on_lookup(void *arg, const struct addr *v, size_t n)
{
	struct upstream *u = arg;

	u->lookup = NULL;
	memcpy(u->addrs, v, n * sizeof(*v));
	u->n_addrs = n;
	if (n)
		dial_next(u);
	else
		upstream_fail(u, EGRESS_INTERNAL, "the host's name could not be resolved");
	if (u->owner)
		u->stirs(u->owner);
}

static void upstream_begin(struct upstream *u, const struct egress_verdict *v)
{
	const struct upstream_proxy *chain = &u->k->chain;
	const struct host *name = u->chained ? &chain->host : &u->host;

	if (v->pinned || (u->chained && !chain->host.len)) {
		u->addrs[0] = v->pinned ? v->pin : chain->addr;
		u->n_addrs = 1;
	} else {
		u->n_addrs = resolver_known(u->k->resolver, name, u->addrs);
	}
	if (u->n_addrs) {
		dial_next(u);
		return;
	}
	u->lookup = resolver_ask(u->k->resolver, name, on_lookup, u);
	if (!u->lookup)
		upstream_fail(u, EGRESS_INTERNAL, "the host's name could not be resolved");
}

static struct upstream *from_pool(struct worker *k, const struct egress_verdict *v,
				  enum upstream_kind kind)
{
	for (struct upstream *u = k->idle; u; u = u->next)
		if (u->tls == (kind != UPSTREAM_PLAIN) && (kind != UPSTREAM_H2 || u->offers) &&
		    u->port == v->port && host_eq(&u->host, &v->host)) {
			leave_pool(u);
			u->reused = true;
			return u;
		}
	return NULL;
}

struct upstream *upstream_get(struct worker *k, const struct egress_verdict *v,
			      enum upstream_kind kind, bool fresh)
{
	struct upstream *u = fresh ? NULL : from_pool(k, v, kind);

	if (u)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->k = k;
	u->host = v->host;
	u->port = v->port;
	u->pinned = v->pinned;
	u->direct = !v->pinned && direct_has(k->direct, &v->host);
	u->chained = k->chain.on && !v->pinned && !u->direct;
	u->dial_port = u->chained ? k->chain.port : u->pinned ? v->pin_port : v->port;
	u->tls = kind != UPSTREAM_PLAIN;
	u->offers = kind == UPSTREAM_H2;
	u->way.ops = &upway_http1;
	u->deadline = loop_now(k->loop) + OPEN_US;
	link_init(&u->link, -1, upstream_on_event);
	u->failure.host = v->host;
	u->failure.port = v->port;
	upstream_begin(u, v);
	return u;
}

void upstream_own(struct upstream *u, upstream_fn *stirs, void *owner)
{
	u->stirs = stirs;
	u->owner = owner;
}

/* It shows who the user is, where that is wanted. */
static SSL *client_tls(const struct upstream *u, const char *name, bool h2)
{
	SSL *ssl = roots_client(u->k->roots, name, h2);

	if (ssl && !client_certs_show(u->k->certs, name, ssl)) {
		SSL_free(ssl);
		return NULL;
	}
	return ssl;
}

/* There is a way to the host itself. */
static void reached(struct upstream *u)
{
	SSL *ssl;

	if (!u->tls) {
		u->state = UP_OPEN;
		return;
	}
	ssl = client_tls(u, u->host.name, u->offers);
	if (!ssl || (u->link.tls ? link_tls_within(&u->link, ssl) : link_tls(&u->link, ssl)) < 0) {
		upstream_fail(u, EGRESS_INTERNAL, "no TLS to the host can begin");
		return;
	}
	u->state = UP_SHAKING;
}

/* Nothing is said to the proxy in the open, where it is one of TLS. */
static void secure(struct upstream *u)
{
	const struct upstream_proxy *chain = &u->k->chain;
	char name[48];
	SSL *ssl;

	if (!chain->host.len)
		addr_text(&chain->addr, name);
	ssl = client_tls(u, chain->host.len ? chain->host.name : name, false);
	if (ssl && link_tls(&u->link, ssl) == 0)
		u->state = UP_SECURING;
	else
		upstream_fail(u, EGRESS_INTERNAL, "no memory for TLS");
}

static void ask_chain(struct upstream *u)
{
	CLEANUP(buf) struct buf ask = BUF_INIT(2 * HOST_NAME_MAX_LEN + 2 * SECRET_MAX);
	const struct secret *login = &u->k->plan->login;

	buf_printf(&ask, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n", u->host.name, u->port,
		   u->host.name, u->port);
	if (login->len) {
		buf_puts(&ask, "Proxy-Authorization: ");
		cred_put_basic(&ask, login->name, login->value, login->len);
		buf_puts(&ask, "\r\n");
	}
	buf_puts(&ask, "\r\n");
	(void)link_add(&u->link, buf_str(&ask), ask.len);
	if (ask.data)
		explicit_bzero(ask.data, ask.len);
	u->state = UP_ASKING;
	if (ask.failed)
		upstream_fail(u, EGRESS_INTERNAL, "no memory for a question to the proxy");
}

static void connected(struct upstream *u)
{
	if (!u->chained)
		reached(u);
	else if (u->k->chain.tls)
		secure(u);
	else
		ask_chain(u);
}

static void chain_fail(struct upstream *u, const char *hint, const char *what, int status)
{
	if (status)
		(void)verdict_deny(&u->failure, EGRESS_INTERNAL, hint,
				   "egress.upstream_proxy %s (status %d)", what, status);
	else
		(void)verdict_deny(&u->failure, EGRESS_INTERNAL, hint, "egress.upstream_proxy %s",
				   what);
	upstream_fail(u, EGRESS_INTERNAL, what);
}

/* It wants somebody else, or somebody at all. */
static void fail_407(struct upstream *u, const struct http1_answer *a)
{
	bool asks = false, basic = false;

	for (size_t i = 0; i < a->n_fields; i++) {
		const struct http1_field *f = &a->fields[i];

		if (!http1_text_is(f->name, "Proxy-Authenticate"))
			continue;
		asks = true;
		basic |= f->value.n >= 5 && strncasecmp(f->value.p, "Basic", 5) == 0;
	}
	if (asks && !basic)
		chain_fail(u,
			   "name one in front of it that logs in for you, such as cntlm, or ask "
			   "those who run it for Basic",
			   "wants a login by NTLM, Negotiate or the like, and brig knows Basic "
			   "alone",
			   407);
	else if (u->k->plan->login.len)
		chain_fail(u, "are the user and the value of that credential right?",
			   "does not take egress.upstream_login", 407);
	else
		chain_fail(u,
			   "credentials: {NAME: {host: PROXY, basic: USER, from: ...}}, and "
			   "egress.upstream_login: NAME",
			   "wants a login: egress.upstream_login", 407);
}

static void tunnelled(struct upstream *u, size_t head)
{
	link_take(&u->link, head);
	reached(u);
}

/* What the machine's own proxy says to CONNECT: anything but 2xx is the end. */
static void upstream_ask(struct upstream *u)
{
	struct http1_answer a;
	struct err e = { 0 };
	ssize_t n;

	(void)link_flush(&u->link);
	while (link_fill(&u->link)) /* TLS may hold more than it gives at once */
		;
	n = u->link.in.len ? http1_read_answer(link_data(&u->link), u->link.in.len,
					       HTTP1_ASKED_HEAD, &a, &e)
			   : 0;
	if (n == 0 && !u->link.eof && !u->link.broken)
		return;
	if (n <= 0)
		chain_fail(u,
			   u->k->chain.tls ? NULL : "is it a proxy of https://, or another port?",
			   "did not answer as a proxy", 0);
	else if (a.status == 407)
		fail_407(u, &a);
	else if (a.status / 100 != 2)
		chain_fail(u,
			   a.status / 100 == 5 ? "it could not reach the host itself"
					       : "it does not let this host through",
			   "refused the connection", a.status);
	else
		tunnelled(u, (size_t)n);
}

static void check_connect(struct upstream *u)
{
	socklen_t n = sizeof(int);
	int code = 0;
	struct sockaddr_storage peer;
	socklen_t peer_len = sizeof(peer);

	if (getsockopt(u->link.fd, SOL_SOCKET, SO_ERROR, &code, &n) < 0 || code) {
		dial_next(u);
		return;
	}
	if (getpeername(u->link.fd, (struct sockaddr *)&peer, &peer_len) == 0)
		connected(u);
	else if (errno != ENOTCONN)
		dial_next(u);
}

static void shake_chain(struct upstream *u)
{
	int r = link_handshake(&u->link);
	const char *why;

	if (r > 0)
		ask_chain(u);
	if (r >= 0)
		return;
	why = tls_distrust(u->link.tls);
	(void)verdict_deny(&u->failure, EGRESS_INTERNAL,
			   why ? "the company's own authority: --set egress.roots=FILE"
			       : "is it a proxy of http://, or on another port?",
			   why ? "the certificate of egress.upstream_proxy cannot be trusted: %s"
			       : "the TLS handshake with egress.upstream_proxy failed%s",
			   why ? why : "");
	upstream_fail(u, EGRESS_INTERNAL, "");
}

static void shake(struct upstream *u)
{
	int r = link_handshake(&u->link);
	const char *why;

	if (r > 0) {
		u->state = UP_OPEN;
		return;
	}
	if (r == 0)
		return;
	why = tls_distrust(u->link.tls);
	if (why)
		(void)verdict_deny(&u->failure, EGRESS_TLS_MISMATCH,
				   "an authority of your own: --set egress.roots=FILE",
				   "the certificate of %s cannot be trusted: %s", u->host.name,
				   why);
	else if (client_certs_has(u->k->certs, u->host.name))
		(void)verdict_deny(&u->failure, EGRESS_INTERNAL,
				   "where its owners have no TLS 1.3, no certificate can be shown: "
				   "egress.client_certs",
				   "the TLS handshake with the host failed, and its client "
				   "certificate needs TLS 1.3");
	upstream_fail(u, EGRESS_INTERNAL, "the TLS handshake with the host failed");
}

void upstream_step(struct upstream *u)
{
	enum upstream_state was;

	do {
		was = u->state;
		if (u->state == UP_CONNECTING)
			check_connect(u);
		if (u->state == UP_SECURING)
			shake_chain(u);
		if (u->state == UP_ASKING)
			upstream_ask(u);
		if (u->state == UP_SHAKING)
			shake(u);
	} while (u->state != was && u->state != UP_OPEN && u->state != UP_FAILED);
	if (u->state == UP_CONNECTING)
		(void)loop_want(u->k->loop, &u->link.w, EPOLLOUT);
	else if (u->state > UP_CONNECTING && u->state < UP_OPEN)
		(void)link_wait(u->k->loop, &u->link, true);
}

bool upstream_is_late(struct upstream *u, uint64_t now)
{
	if (u->state >= UP_OPEN || now < u->deadline)
		return false;
	upstream_fail(u, EGRESS_INTERNAL, "the host did not answer in time");
	return true;
}

void upstream_release(struct upstream *u)
{
	struct worker *k = u->k;

	/* Bytes nobody asked for would be taken for the next answer. */
	if (!link_clean(&u->link) || k->n_idle >= IDLE_MAX ||
	    link_wait(k->loop, &u->link, true) < 0) {
		(void)upstream_free(u);
		return;
	}
	u->owner = NULL;
	u->deadline = loop_now(k->loop) + IDLE_US;
	u->next = k->idle;
	if (u->next)
		u->next->at = &u->next;
	u->at = &k->idle;
	k->idle = u;
	k->n_idle++;
}

void upstream_tick(struct worker *k, uint64_t now)
{
	for (struct upstream *u = k->idle, *next; u; u = next) {
		next = u->next;
		if (now >= u->deadline)
			(void)upstream_free(u);
	}
}
