/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/client/daemon_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes/random.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "daemon/client/summon.h"
#include "daemon/daemon.h"
#include "daemon/shared/left_out.h"
#include "wire/client.h"
#include "wire/peer.h"

#define ANSWER_MAX ((size_t)256 << 20)
#define CONNECT_US ((uint64_t)5 * 1000000)
#define STEP ((size_t)1 << 20)
#define UNIX_SCHEME "unix://"

struct daemon_client {
	struct client *http;
	struct transport below;
	const int *fds; /* to go with the next byte that is sent */
	size_t fd_count;
	bool local;
	bool chunked;   /* the body that is being written */
	int64_t length; /* of the answer that is bytes; -1: not known */
	char fields[512];
	char piece[16384]; /* of a stream */
	size_t from, to;
	daemon_client_passed_fn *on_passed; /* NULL: nobody listens */
	void *passed_arg;
};

static void passed(const struct daemon_client *c, uint64_t bytes)
{
	if (c->on_passed)
		c->on_passed(c->passed_arg, bytes);
}

void daemon_client_on_passed(struct daemon_client *c, daemon_client_passed_fn *fn, void *arg)
{
	c->on_passed = fn;
	c->passed_arg = arg;
}

/* ---- descriptors that go along ---- */

static ssize_t pass_read(void *arg, void *p, size_t n, short *wait)
{
	struct daemon_client *c = arg;

	return c->below.read(c->below.arg, p, n, wait);
}

static ssize_t pass_write(void *arg, const void *p, size_t n, short *wait)
{
	struct daemon_client *c = arg;
	int r;

	if (!c->fd_count || !n)
		return c->below.write(c->below.arg, p, n, wait);
	*wait = POLLOUT;
	r = fd_send(c->below.fd, p, 1, c->fds, c->fd_count);
	if (r < 0)
		return r;
	c->fd_count = 0;
	return 1;
}

static void pass_close(void *arg)
{
	struct daemon_client *c = arg;

	c->below.close(c->below.arg);
}

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

	if (u->tls)
		return err_refuse(e, ERR_CONFIG, ENOTSUP,
				  "name its socket, or http://127.0.0.1:PORT; the SDKs speak TLS",
				  "BRIG_HOST is https, and brig's own client speaks no TLS");
	if (!near)
		return err_refuse(e, ERR_CONFIG, ENOTSUP,
				  "lead a port of yours there, with ssh -L, and name that",
				  "BRIG_HOST must be on loopback: a token would travel in clear");
	fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
	    connect(fd, is_four ? (const struct sockaddr *)&four : (const struct sockaddr *)&six,
		    is_four ? sizeof(four) : sizeof(six)) < 0) {
		(void)err_sys(e, "cannot connect to '%s'", u->authority);
		return err_hint(e, "brig daemon --listen %s serves there", u->authority);
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*ret = transport_fd(TAKE_FD(fd));
	return 0;
}

/* Another client may be starting one at the same time: then its daemon is waited for. */
static int connect_or_start(const char *path, struct transport *ret, struct err *e)
{
	uint64_t until = clock_us() + CONNECT_US;
	int r = daemon_summon(e);
	bool other = r == -EBUSY;

	if (r < 0 && !other)
		return err_wrap(e, "cannot start a daemon");
	for (;;) {
		r = transport_unix(path, until, ret, e);
		if (r == 0)
			return 0;
		if (clock_us() >= until)
			break;
		wait_moment(5);
	}
	return other ? err_hint(e, "a daemon has this state folder and listens elsewhere: "
				   "BRIG_HOST=unix:///PATH names its socket")
		     : r;
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
				  "BRIG_HOST '%.60s' is neither a socket nor an address", host);
	if (token && (strlen(token) > 200 || str_has_control(token) || strchr(token, ' ')))
		return err_set(e, ERR_CONFIG, EINVAL, "BRIG_TOKEN is not a token");
	c->local = false;
	(void)snprintf(authority, 96, "%.95s", u.authority);
	if (token)
		(void)snprintf(c->fields, sizeof(c->fields), "Authorization: Bearer %s\r\n", token);
	return connect_tcp(&u, ret, e);
}

/* A guest that can write to the folder can put a socket of its own there. Before Linux 6.5 the
 * kernel names who listens by a number alone, which may be a process of the host's by now. */
static int check_listener(const struct daemon_client *c, const char *host, struct err *e)
{
	const char *why = peer_distrust(client_fd(c->http));

	if (why)
		return err_refuse(
			e, ERR_POLICY, EPERM,
			"remove that socket; name one in a folder that no sandbox writes to",
			"the socket is not a daemon's: %s", why);
	return host && *host ? exposed_check("the socket of BRIG_HOST", host + strlen(UNIX_SCHEME),
					     NULL, 0, e)
			     : 0;
}

int daemon_client_open(bool start, struct daemon_client **ret, struct err *e)
{
	CLEANUP(daemon_client) struct daemon_client *c = calloc(1, sizeof(*c));
	const char *host = getenv("BRIG_HOST");
	char authority[96] = "brig";
	struct transport t;
	int r;

	if (!c)
		return err_nomem(e);
	c->local = true;
	r = host && *host ? connect_host(c, host, &t, authority, e) : connect_own(start, &t, e);
	if (r < 0)
		return r;
	c->below = t;
	if (c->local)
		t = (struct transport){ .arg = c,
					.fd = t.fd,
					.read = pass_read,
					.write = pass_write,
					.close = pass_close };
	c->http = client_new(t, authority, e);
	if (!c->http)
		return -e->code;
	if (c->local && check_listener(c, host, e) < 0)
		return -e->code;
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

static int put_question(struct daemon_client *c, const struct daemon_question *q,
			const char *accept, uint64_t until, struct err *e)
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

	(void)snprintf(fields, sizeof(fields), "%sAccept: %s\r\n", c->fields, accept);
	c->fds = q->fds;
	c->fd_count = c->local ? q->fd_count : 0;
	return client_send(c->http, &r, until, e);
}

static int send_question(struct daemon_client *c, const struct daemon_question *q,
			 const char *accept, const struct http1_answer **a, struct err *e)
{
	int n = put_question(c, q, accept, 0, e);

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

/* ---- on a loop ---- */

void daemon_client_act(struct daemon_client *c, const char *tenant)
{
	size_t n = strlen(c->fields);

	(void)snprintf(c->fields + n, sizeof(c->fields) - n, "Brig-Tenant: %s\r\n", tenant);
}

int daemon_client_send(struct daemon_client *c, const struct daemon_question *q, bool events,
		       struct err *e)
{
	return put_question(c, q, events ? "text/event-stream" : "application/json",
			    clock_us() + CONNECT_US, e) < 0
		       ? err_wrap(e, "the daemon does not answer")
		       : 0;
}

int daemon_client_status(struct daemon_client *c, struct err *e)
{
	const struct http1_answer *a;

	/* The daemon writes a head as a whole. */
	if (client_answer(c->http, clock_us() + CONNECT_US, &a, e) < 0)
		return err_wrap(e, "the daemon does not answer");
	return a->status;
}

ssize_t daemon_client_read(struct daemon_client *c, void *p, size_t n, struct err *e)
{
	return client_read(c->http, p, n, 1, e);
}

int daemon_client_problem(int status, const char *body, size_t n, char *code, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;

	(void)jread_parse(body, n, &v, e);
	return problem(status, v, code, e);
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

/* ---- bytes ---- */

int daemon_client_begin(struct daemon_client *c, const struct daemon_question *q, const char *type,
			int64_t length, struct err *e)
{
	struct client_request r = { .method = q->method,
				    .target = q->target,
				    .fields = c->fields,
				    .type = type,
				    .apart = true,
				    .body_len = length < 0 ? CLIENT_CHUNKED : (size_t)length };

	c->chunked = length < 0;
	return client_send(c->http, &r, 0, e) < 0 ? err_wrap(e, "the daemon does not answer") : 0;
}

/* It answers before it has all of it only to refuse. */
static bool has_answered(const struct daemon_client *c)
{
	return wait_look(client_fd(c->http), POLLIN) != 0;
}

int daemon_client_write(struct daemon_client *c, const void *p, size_t n, struct err *e)
{
	char size[24];
	int r = 0;

	if (!n)
		return 0;
	if (has_answered(c))
		return 1;
	if (c->chunked) {
		(void)snprintf(size, sizeof(size), "%zx\r\n", n);
		r = client_write(c->http, size, strlen(size), 0, e);
	}
	if (r == 0)
		r = client_write(c->http, p, n, 0, e);
	passed(c, n);
	return r == 0 && c->chunked ? client_write(c->http, "\r\n", 2, 0, e) : r;
}

int daemon_client_write_file(struct daemon_client *c, int fd, uint64_t n, struct err *e)
{
	while (n) {
		struct pollfd p = { .fd = client_fd(c->http), .events = POLLIN | POLLOUT };
		ssize_t w;

		if (wait_any(&p, 1, 0) < 0)
			return err_sys(e, "cannot wait for the daemon");
		if (p.revents & ~POLLOUT)
			return 1;
		w = sendfile(p.fd, fd, NULL, n < STEP ? (size_t)n : STEP);
		if (w == 0)
			return err_set(e, ERR_USAGE, EIO, "the file became shorter meanwhile");
		if (w < 0 && (errno == EPIPE || errno == ECONNRESET))
			return 1;
		if (w < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(e, "cannot send the file");
		n -= w > 0 ? (uint64_t)w : 0;
		passed(c, w > 0 ? (uint64_t)w : 0);
	}
	return 0;
}

/* An answer that is no problem has nothing in it that is needed. */
static int hear_answer(struct daemon_client *c, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	CLEANUP(jread) struct jread *v = NULL;
	const struct http1_answer *a;
	int status;

	if (client_answer(c->http, 0, &a, e) < 0)
		return err_wrap(e, "the daemon does not answer");
	status = a->status;
	if (status < 300)
		return 0;
	if (client_read_all(c->http, &b, 0, e) < 0 || jread_parse(buf_str(&b), b.len, &v, e) < 0)
		return err_wrap(e, "the daemon's answer");
	return problem(status, v, NULL, e);
}

int daemon_client_written(struct daemon_client *c, struct err *e)
{
	if (c->chunked && !has_answered(c) && client_write(c->http, "0\r\n\r\n", 5, 0, e) < 0)
		return -e->code;
	return hear_answer(c, e);
}

int daemon_client_get(struct daemon_client *c, const struct daemon_question *q, int64_t *length,
		      struct err *e)
{
	const struct http1_answer *a;

	if (send_question(c, q, "*/*", &a, e) < 0)
		return -e->code;
	if (a->status != 200) {
		CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
		CLEANUP(jread) struct jread *v = NULL;
		int status = a->status;

		if (client_read_all(c->http, &b, 0, e) < 0 ||
		    jread_parse(buf_str(&b), b.len, &v, e) < 0)
			return err_wrap(e, "the daemon's answer");
		return problem(status, v, NULL, e);
	}
	c->length = a->framing == HTTP1_LENGTH && a->length <= INT64_MAX ? (int64_t)a->length : -1;
	*length = c->length;
	return 0;
}

static int write_out(int fd, const void *p, size_t n, struct err *e)
{
	int r = fd_write_all(fd, p, n);

	return r < 0 ? err_errno(e, r, "cannot write what came") : 0;
}

static int save_pieces(struct daemon_client *c, int fd, uint64_t most, struct err *e)
{
	ssize_t n;

	while ((n = client_read(c->http, c->piece, sizeof(c->piece), 0, e)) > 0) {
		if ((uint64_t)n > most)
			return err_refuse(e, ERR_USAGE, EFBIG, "--limit SIZE raises it",
					  "what comes out is larger than the limit");
		most -= (uint64_t)n;
		passed(c, (uint64_t)n);
		if (write_out(fd, c->piece, (size_t)n, e) < 0)
			return -e->code;
	}
	return (int)n;
}

/* From the socket through a pipe into the file, without coming here. */
static int save_by_kernel(const struct daemon_client *c, int sock, int fd, uint64_t left,
			  struct err *e)
{
	CLEANUP(fd) int out = -1, in = -1;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	out = ends[0];
	in = ends[1];
	(void)fcntl(in, F_SETPIPE_SZ, STEP);
	while (left) {
		ssize_t n, w;

		(void)wait_fd(sock, POLLIN, 0);
		n = splice(sock, NULL, in, NULL, left < STEP ? (size_t)left : STEP, SPLICE_F_MOVE);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			return err_set(e, ERR_UNAVAILABLE, ECONNRESET,
				       "what came out of the sandbox ends in the middle");
		left -= (uint64_t)n;
		passed(c, (uint64_t)n);
		for (; n > 0; n -= w) {
			w = splice(out, NULL, fd, NULL, (size_t)n, SPLICE_F_MOVE);
			if (w <= 0)
				return err_sys(e, "cannot write what came");
		}
	}
	return 0;
}

int daemon_client_save(struct daemon_client *c, int fd, uint64_t most, struct err *e)
{
	CLEANUP(buf) struct buf already = BUF_INIT((size_t)1 << 20);
	struct transport t;
	int r;

	if (c->length < 0)
		return save_pieces(c, fd, most, e);
	if ((uint64_t)c->length > most)
		return err_refuse(e, ERR_USAGE, EFBIG, "--limit SIZE raises it",
				  "what comes out is larger than the limit");
	t = client_hijack(c->http, &already);
	if (already.len > (uint64_t)c->length)
		already.len = (size_t)c->length;
	r = write_out(fd, buf_str(&already), already.len, e);
	if (r == 0)
		r = save_by_kernel(c, t.fd, fd, (uint64_t)c->length - already.len, e);
	t.close(t.arg);
	return r;
}

uint64_t daemon_client_left(const struct daemon_client *c, struct buf *names)
{
	struct http1_text t = client_trailer(c->http, LEFT_OUT_FIELD);

	return t.p ? left_out_read(t.p, t.n, names) : 0;
}
