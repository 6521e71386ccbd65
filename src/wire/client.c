/* SPDX-License-Identifier: Apache-2.0 */
/* wire/client.c - see client.h.
 *
 *   idle -> sent -> in the body -> idle
 *                \-> hijacked
 *
 * `in` holds what was read and not yet understood; an answer's head stays at its front while the
 * body passes behind it, because the answer points into it. */
#include "wire/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "wire/http1_internal.h"

#define IN_MAX ((size_t)HTTP1_HEAD_MAX + 16384)
#define HEAD_OUT_MAX 65536 /* tokens are long, and so is a command in a query */
#define TOGETHER_MAX 8192

enum client_state { CLIENT_IDLE, CLIENT_SENT, CLIENT_BODY, CLIENT_BROKEN };

struct client {
	struct transport t;
	enum client_state state;
	enum http1_asked asked;
	char host[256];
	char in[IN_MAX];
	size_t head; /* bytes at the front that belong to the answer */
	size_t from, to;
	struct http1_answer answer;
	struct http1_body body;
	char trailer[HTTP1_TRAILER_MAX];
};

/* ---- sockets ---- */

static int fd_of(void *arg)
{
	return (int)(intptr_t)arg;
}

static ssize_t socket_read(void *arg, void *p, size_t n, short *wait)
{
	ssize_t r = recv(fd_of(arg), p, n, MSG_DONTWAIT);

	*wait = POLLIN;
	return r < 0 ? -errno : r;
}

static ssize_t socket_write(void *arg, const void *p, size_t n, short *wait)
{
	ssize_t r = send(fd_of(arg), p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	*wait = POLLOUT;
	return r < 0 ? -errno : r;
}

static void socket_close(void *arg)
{
	(void)fd_close(fd_of(arg));
}

struct transport transport_fd(int fd)
{
	return (struct transport){ .arg = (void *)(intptr_t)fd,
				   .fd = fd,
				   .read = socket_read,
				   .write = socket_write,
				   .close = socket_close };
}

/* A Unix socket whose queue is full answers EAGAIN and gives nothing to wait for. */
static int connect_unix(int fd, const struct sockaddr_un *a, uint64_t deadline)
{
	while (connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		if (deadline && clock_us() >= deadline)
			return -ETIMEDOUT;
		wait_moment(5);
	}
	return 0;
}

int transport_unix(const char *path, uint64_t deadline, struct transport *ret, struct err *e)
{
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int r;

	if (fd < 0)
		return err_sys(e, "cannot make a socket");
	if (strlen(path) >= sizeof(a.sun_path))
		return err_refuse(e, ERR_CONFIG, ENAMETOOLONG,
				  "at most 107 bytes: XDG_RUNTIME_DIR or BRIG_HOST names another",
				  "the path of socket '%.200s' is too long", path);
	memcpy(a.sun_path, path, strlen(path) + 1);
	r = connect_unix(fd, &a, deadline);
	if (r < 0)
		return err_errno(e, r, "cannot connect to '%s'", path);
	*ret = transport_fd(TAKE_FD(fd));
	return 0;
}

/* ---- the client ---- */

struct client *client_new(struct transport t, const char *host, struct err *e)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c || snprintf(c->host, sizeof(c->host), "%s", host) >= (int)sizeof(c->host)) {
		t.close(t.arg);
		if (c)
			(void)err_set(e, ERR_CONFIG, ENAMETOOLONG, "host name '%s' is too long",
				      host);
		else
			(void)err_nomem(e);
		free(c);
		return NULL;
	}
	c->t = t;
	return c;
}

struct client *client_free(struct client *c)
{
	if (c && c->t.close)
		c->t.close(c->t.arg);
	free(c);
	return NULL;
}

int client_fd(const struct client *c)
{
	return c->t.fd;
}

static int client_broken(struct client *c, struct err *e, int code, const char *what)
{
	c->state = CLIENT_BROKEN;
	if (code == ETIMEDOUT)
		return err_set(e, ERR_INTERNAL, ETIMEDOUT, "no answer in time");
	errno = code;
	return err_sys(e, "%s", what);
}

/* 1: the peer has closed: an answer of its tells more than "broken pipe". */
static int write_all(struct client *c, const char *p, size_t n, uint64_t deadline, struct err *e)
{
	while (n) {
		short wait = POLLOUT;
		ssize_t w = c->t.write(c->t.arg, p, n, &wait);
		int r = 0;

		if (w == -EAGAIN)
			r = wait_fd(c->t.fd, wait, deadline);
		else if (w < 0 && w != -EINTR)
			r = (int)w;
		if (r == -EPIPE)
			return 1;
		if (r < 0)
			return client_broken(c, e, -r, "cannot send the request");
		if (w > 0) {
			p += w;
			n -= (size_t)w;
		}
	}
	return 0;
}

static bool client_plain(const char *s)
{
	for (; *s; s++)
		if (*s <= ' ' || *s >= 0x7f)
			return false;
	return true;
}

static void client_put_head(const struct client *c, const struct client_request *q, struct buf *b)
{
	buf_printf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: brig/" BRIG_VERSION "\r\n",
		   q->method, q->target, c->host);
	if (q->fields)
		buf_puts(b, q->fields);
	if (q->upgrade)
		buf_printf(b, "Connection: Upgrade\r\nUpgrade: %s\r\n", q->upgrade);
	if (q->type)
		buf_printf(b, "Content-Type: %s\r\n", q->type);
	if (q->apart && q->body_len == CLIENT_CHUNKED)
		buf_puts(b, "Transfer-Encoding: chunked\r\n");
	else if (q->type || strcmp(q->method, "POST") == 0 || strcmp(q->method, "PUT") == 0)
		buf_printf(b, "Content-Length: %zu\r\n", q->type ? q->body_len : 0);
	buf_puts(b, "\r\n");
}

int client_send(struct client *c, const struct client_request *q, uint64_t deadline, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(HEAD_OUT_MAX);
	bool together;
	int r;

	if (!client_reusable(c))
		return err_set(e, ERR_INTERNAL, ENOTCONN, "the connection cannot be used again");
	if (!client_plain(q->method) || !client_plain(q->target))
		return err_set(e, ERR_INTERNAL, EINVAL, "'%s' cannot be asked for", q->target);
	c->asked = q->upgrade                       ? HTTP1_ASKED_UPGRADE
		   : strcmp(q->method, "HEAD") == 0 ? HTTP1_ASKED_HEAD
						    : HTTP1_ASKED_PLAIN;
	c->head = c->from = c->to = 0;
	c->answer = (struct http1_answer){ 0 };
	client_put_head(c, q, &b);
	if (b.failed)
		return err_set(e, ERR_INTERNAL, EMSGSIZE, "the request's head is too long");
	/* What is small goes along: whoever reads is woken once. */
	together = q->type && !q->apart && b.len + q->body_len <= TOGETHER_MAX;
	if (together)
		buf_add(&b, q->body, q->body_len);
	r = write_all(c, b.data, b.len, deadline, e);
	if (r == 0 && q->type && !q->apart && !together)
		r = write_all(c, q->body, q->body_len, deadline, e);
	if (r < 0)
		return r;
	c->state = CLIENT_SENT;
	return 0;
}

int client_write(struct client *c, const void *p, size_t n, uint64_t deadline, struct err *e)
{
	return write_all(c, p, n, deadline, e);
}

/* Reads what there is; 1: something, 0: the end, or -errno. */
static int client_fill(struct client *c, uint64_t deadline)
{
	for (;;) {
		short wait = POLLIN;
		ssize_t n = c->t.read(c->t.arg, c->in + c->to, sizeof(c->in) - c->to, &wait);

		if (n >= 0) {
			c->to += (size_t)n;
			return n > 0;
		}
		if (n == -EAGAIN) {
			int r = wait_fd(c->t.fd, wait, deadline);

			if (r < 0)
				return r;
		} else if (n != -EINTR) {
			return (int)n;
		}
	}
}

/* What stood before the bytes not yet understood is done with; the answer's head is not. */
static void client_make_room(struct client *c)
{
	memmove(c->in + c->head, c->in + c->from, c->to - c->from);
	c->to -= c->from - c->head;
	c->from = c->head;
}

static bool is_final(const struct http1_answer *a)
{
	return a->status >= 200 || a->status == 101;
}

int client_answer(struct client *c, uint64_t deadline, const struct http1_answer **ret,
		  struct err *e)
{
	if (c->state != CLIENT_SENT)
		return err_set(e, ERR_INTERNAL, EINVAL, "no answer is due");
	for (;;) {
		ssize_t n = http1_read_answer(c->in + c->from, c->to - c->from, c->asked,
					      &c->answer, e);
		int r;

		if (n < 0) {
			c->state = CLIENT_BROKEN;
			return (int)n;
		}
		if (n > 0 && is_final(&c->answer)) {
			c->from += (size_t)n;
			c->head = c->from;
			break;
		}
		c->from += (size_t)n;
		if (n > 0) /* 100 Continue and its kind */
			continue;
		client_make_room(c);
		r = client_fill(c, deadline);
		if (r <= 0)
			return client_broken(c, e, r < 0 ? -r : ECONNRESET, "no answer");
	}
	http1_body_init(&c->body, &c->answer);
	c->body.keep = c->trailer;
	c->state = http1_body_done(&c->body) ? CLIENT_IDLE : CLIENT_BODY;
	*ret = &c->answer;
	return 0;
}

static ssize_t decode(struct client *c, void *p, size_t room, struct err *e)
{
	size_t have = c->to - c->from;
	struct http1_text data;
	ssize_t n;

	/* The decoder hands out all the data it sees: show it no more than there is room for. */
	n = http1_body_read(&c->body, c->in + c->from, have < room ? have : room, &data);
	if (n < 0) {
		c->state = CLIENT_BROKEN;
		return err_set(e, ERR_INTERNAL, EBADMSG, "the HTTP answer's body is malformed");
	}
	c->from += (size_t)n;
	if (data.n)
		memcpy(p, data.p, data.n);
	if (http1_body_done(&c->body))
		c->state = CLIENT_IDLE;
	return (ssize_t)data.n;
}

ssize_t client_read(struct client *c, void *p, size_t n, uint64_t deadline, struct err *e)
{
	while (c->state == CLIENT_BODY && n) {
		ssize_t got = decode(c, p, n, e);
		int r;

		if (got != 0)
			return got;
		if (c->state != CLIENT_BODY || c->from < c->to)
			continue;
		client_make_room(c);
		r = client_fill(c, deadline);
		if (r == -ETIMEDOUT)
			return err_set(e, ERR_INTERNAL, EAGAIN, "no answer in time");
		if (r < 0)
			return client_broken(c, e, -r, "cannot read the answer");
		if (r > 0)
			continue;
		if (http1_body_end(&c->body) < 0)
			return client_broken(c, e, ECONNRESET, "the answer ends in the middle");
		c->state = CLIENT_BROKEN; /* whole, but the connection is over */
		return 0;
	}
	return c->state == CLIENT_SENT ? err_set(e, ERR_INTERNAL, EINVAL, "no head was read") : 0;
}

struct http1_text client_trailer(const struct client *c, const char *name)
{
	const char *at = c->trailer, *end = c->trailer + c->body.kept;
	struct http1_text line, found = { 0 };
	struct http1_field f;

	/* Whoever is in the middle of it, or ends it with the connection, has said nothing. */
	if (!http1_body_done(&c->body))
		return found;
	while (at < end && http1_take_line(&at, end, &line) && line.n) {
		if (!http1_field_line(line, &f) || !http1_text_is(f.name, name))
			continue;
		if (found.p)
			return (struct http1_text){ 0 };
		found = f.value;
	}
	return found;
}

int client_read_all(struct client *c, struct buf *b, uint64_t deadline, struct err *e)
{
	char piece[4096];
	ssize_t n = 0;

	/* A peer may never end. */
	while (!b->failed && (n = client_read(c, piece, sizeof(piece), deadline, e)) > 0)
		buf_add(b, piece, (size_t)n);
	if (n < 0)
		return (int)n;
	if (b->failed) {
		c->state = CLIENT_BROKEN;
		return err_set(e, ERR_INTERNAL, EMSGSIZE, "the answer is too long");
	}
	return 0;
}

/* Bytes behind a finished answer were not asked for: they could pass for the next one. */
bool client_reusable(const struct client *c)
{
	bool first = !c->answer.status;

	return c->state == CLIENT_IDLE && c->t.close &&
	       (first || (c->answer.keeps_alive && c->from == c->to));
}

struct transport client_hijack(struct client *c, struct buf *already)
{
	struct transport t = c->t;

	buf_add(already, c->in + c->from, c->to - c->from);
	c->from = c->to;
	c->t = (struct transport){ .fd = -1 };
	c->state = CLIENT_BROKEN;
	return t;
}
