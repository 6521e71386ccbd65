/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/daemon_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/str.h"
#include "base/url.h"
#include "daemon/daemon.h"
#include "daemon/peer.h"
#include "daemon/summon.h"
#include "wire/client.h"

#define ANSWER_MAX ((size_t)256 << 20)
#define CONNECT_US ((uint64_t)5 * 1000000)
#define UNIX_SCHEME "unix://"

struct daemon_client {
	struct client *http;
	bool local;
	char fields[512];
	char piece[16384]; /* of a stream */
	size_t from, to;
};

/* ---- connecting ---- */

static int connect_tcp(const struct url *u, struct transport *ret, struct err *e)
{
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(u->port) };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(u->port) };
	bool is_four = str_eq(u->host, "localhost")
			       ? inet_pton(AF_INET, "127.0.0.1", &four.sin_addr) == 1
			       : inet_pton(AF_INET, u->host, &four.sin_addr) == 1;
	bool is_six = !is_four && inet_pton(AF_INET6, u->host, &six.sin6_addr) == 1;
	bool near = is_four  ? ntohl(four.sin_addr.s_addr) >> 24 == 127
		    : is_six ? IN6_IS_ADDR_LOOPBACK(&six.sin6_addr)
			     : false;
	CLEANUP(fd) int fd = -1;
	int one = 1;

	if (u->tls || !near)
		return err_refuse(e, ERR_CONFIG, ENOTSUP,
				  "lead a port of yours there, with ssh -L, and name that",
				  "BRIG_HOST must be on loopback: a token would travel in clear");
	fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
	    connect(fd, is_four ? (const struct sockaddr *)&four : (const struct sockaddr *)&six,
		    is_four ? sizeof(four) : sizeof(six)) < 0)
		return err_sys(e, "cannot connect to '%s'", u->authority);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*ret = transport_fd(TAKE_FD(fd));
	return 0;
}

/* Another client may be starting one at the same time: then its daemon is waited for. */
static int connect_or_start(const char *path, struct transport *ret, struct err *e)
{
	uint64_t until = clock_us() + CONNECT_US;
	int r = daemon_summon(e);

	if (r < 0 && r != -EBUSY)
		return err_wrap(e, "cannot start a daemon");
	for (;;) {
		r = transport_unix(path, until, ret, e);
		if (r == 0 || clock_us() >= until)
			return r;
		(void)poll(NULL, 0, 5);
	}
}

static int connect_own(bool start, struct transport *ret, struct err *e)
{
	char path[PATH_MAX];
	int r = daemon_socket_path(path, sizeof(path), false, e);

	if (r < 0)
		return r;
	r = transport_unix(path, clock_us() + CONNECT_US, ret, e);
	if ((r == -ENOENT || r == -ECONNREFUSED) && start)
		return connect_or_start(path, ret, e);
	if (r == -ENOENT || r == -ECONNREFUSED)
		return err_refuse(e, ERR_UNAVAILABLE, -r, "brig sandbox create starts one",
				  "no daemon runs");
	return r;
}

static int connect_host(struct daemon_client *c, const char *host, struct transport *ret,
			char authority[96], struct err *e)
{
	const char *token = getenv("BRIG_TOKEN");
	struct url u;
	int r;

	if (str_starts(host, UNIX_SCHEME)) {
		r = transport_unix(host + strlen(UNIX_SCHEME), clock_us() + CONNECT_US, ret, e);
		return r < 0 ? err_hint(e, "BRIG_HOST names it; brig daemon serves there") : r;
	}
	if (url_parse(host, &u, e) < 0)
		return err_refuse(e, ERR_CONFIG, EINVAL, "unix:///PATH or http://ADDR:PORT",
				  "BRIG_HOST is neither");
	if (token && (strlen(token) > 200 || str_has_control(token) || strchr(token, ' ')))
		return err_set(e, ERR_CONFIG, EINVAL, "BRIG_TOKEN is not a token");
	c->local = false;
	(void)snprintf(authority, 96, "%.95s", u.authority);
	if (token)
		(void)snprintf(c->fields, sizeof(c->fields), "Authorization: Bearer %s\r\n", token);
	return connect_tcp(&u, ret, e);
}

int daemon_client_open(bool start, struct daemon_client **ret, struct err *e)
{
	CLEANUP(daemon_client) struct daemon_client *c = calloc(1, sizeof(*c));
	const char *host = getenv("BRIG_HOST");
	char authority[96] = "brig";
	const char *why;
	struct transport t;
	int r;

	if (!c)
		return err_nomem(e);
	c->local = true;
	r = host && *host ? connect_host(c, host, &t, authority, e) : connect_own(start, &t, e);
	if (r < 0)
		return r;
	c->http = client_new(t, authority, e);
	if (!c->http)
		return -e->code;
	/* A guest that can write to the folder can put a socket of its own there. */
	why = c->local ? peer_distrust(client_fd(c->http)) : NULL;
	if (why)
		return err_refuse(
			e, ERR_POLICY, EPERM,
			"remove that socket; name one in a folder that no sandbox writes to",
			"the socket is not a daemon's: %s", why);
	*ret = TAKE_PTR(c);
	return 0;
}

struct daemon_client *daemon_client_free(struct daemon_client *c)
{
	if (c)
		(void)client_free(c->http);
	free(c);
	return NULL;
}

bool daemon_client_local(const struct daemon_client *c)
{
	return c->local;
}

int daemon_client_fd(const struct daemon_client *c)
{
	return client_fd(c->http);
}

/* ---- asking ---- */

static int send_question(struct daemon_client *c, const struct daemon_question *q,
			 const char *accept, const struct http1_answer **a, struct err *e)
{
	char fields[768];
	struct client_request r = {
		.method = q->method,
		.target = q->target,
		.fields = fields,
		.type = !q->body ? NULL
			: q->raw ? "application/octet-stream"
				 : "application/json",
		.body = q->body,
		.body_len = q->body_len,
	};
	int n;

	(void)snprintf(fields, sizeof(fields), "%sAccept: %s\r\n", c->fields, accept);
	n = client_send(c->http, &r, 0, e);
	if (n == 0)
		n = client_answer(c->http, 0, a, e);
	return n < 0 ? err_wrap(e, "the daemon does not answer") : 0;
}

/* The daemon's own words become the error. */
static int problem(int status, const struct jread *v, char *code, struct err *e)
{
	const char *what = jread_str(v, "detail"), *hint = jread_str(v, "hint"),
		   *word = jread_str(v, "code");

	if (code)
		(void)snprintf(code, 32, "%s", word ? word : "internal");
	(void)err_set(e, status >= 500 ? ERR_UNAVAILABLE : ERR_USAGE,
		      status == 404 ? ENOENT : EPROTO, "%s",
		      what && *what ? what
		      : word        ? word
				    : "the daemon refused");
	if (hint)
		(void)err_hint(e, "%s", hint);
	return -e->code;
}

int daemon_client_ask(struct daemon_client *c, const struct daemon_question *q, struct jread **ret,
		      char *code, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ANSWER_MAX);
	CLEANUP(jread) struct jread *v = NULL;
	const struct http1_answer *a;
	int status;

	if (ret)
		*ret = NULL;
	if (send_question(c, q, "application/json", &a, e) < 0)
		return -e->code;
	status = a->status;
	if (client_read_all(c->http, &b, 0, e) < 0 ||
	    (b.len && jread_parse(b.data, b.len, &v, e) < 0))
		return err_wrap(e, "the daemon's answer");
	if (status >= 400)
		return problem(status, v, code, e);
	if (ret)
		*ret = TAKE_PTR(v);
	return 0;
}

/* ---- streams ---- */

int daemon_client_stream(struct daemon_client *c, const struct daemon_question *q, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	CLEANUP(jread) struct jread *v = NULL;
	const struct http1_answer *a;
	int status;

	c->from = c->to = 0;
	if (send_question(c, q, "text/event-stream", &a, e) < 0)
		return -e->code;
	status = a->status;
	if (status == 200)
		return 0;
	if (client_read_all(c->http, &b, 0, e) < 0 || jread_parse(buf_str(&b), b.len, &v, e) < 0)
		return err_wrap(e, "the daemon's answer");
	return problem(status, v, NULL, e);
}

int daemon_client_event(struct daemon_client *c, struct sse *s, uint64_t deadline, struct err *e)
{
	for (;;) {
		bool whole = false;
		ssize_t n = sse_take(s, c->piece + c->from, c->to - c->from, &whole);

		if (n < 0)
			return err_set(e, ERR_INTERNAL, EMSGSIZE, "an event is too long");
		c->from += (size_t)n;
		if (whole)
			return 1;
		n = client_read(c->http, c->piece, sizeof(c->piece), deadline, e);
		if (n <= 0)
			return (int)n;
		c->from = 0;
		c->to = (size_t)n;
	}
}
