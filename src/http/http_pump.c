/* SPDX-License-Identifier: Apache-2.0 */
/* http/http_pump.c - bodies that are not held: they go between the connection and a pipe.
 *
 * Most of it is moved by the kernel, from one descriptor to the other; only what came with the
 * head, and what is chunked, passes through the connection's buffer. The slower side holds up the
 * faster one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "http/http_internal.h"

#define STEP ((size_t)1 << 20)
#define AT_ONCE ((size_t)4 << 20) /* at a turn: others want theirs, too */

static void on_pipe(struct loop_watch *w, uint32_t events UNUSED)
{
	struct http_pump *p = (struct http_pump *)w;

	conn_turn(p->c);
}

void pump_stop(struct http_conn *c)
{
	if (c->pump.way == PUMP_NONE)
		return;
	(void)loop_want(c->server->loop, &c->pump.w, 0);
	c->pump.way = PUMP_NONE;
	c->pump.socket = 0;
}

static void http_pump_begin(struct http_conn *c, enum http_pump_way way, int fd, uint64_t left)
{
	c->pump = (struct http_pump){
		.w = { .fd = fd, .ready = on_pipe }, .c = c, .way = way, .left = left
	};
	c->moved = clock_us();
	conn_due(c);
}

static bool has_bytes(int fd)
{
	int n = 0;

	return ioctl(fd, FIONREAD, &n) == 0 && n > 0;
}

/* The kernel moves nothing past it, and says all the same that there is something to read. */
static bool has_urgent(int fd)
{
	return wait_look(fd, POLLPRI) & POLLPRI;
}

/* Which of the two is waited for. */
static bool http_pump_await(struct http_conn *c, uint32_t pipe, uint32_t on_socket)
{
	c->pump.socket = on_socket;
	if (loop_want(c->server->loop, &c->pump.w, pipe) < 0)
		conn_desert(c);
	return false;
}

static bool moved(struct http_conn *c, size_t n)
{
	c->moved = clock_us();
	c->pump.turn += n;
	return true;
}

/* Enough for now: both sides are asked again. */
static bool enough(struct http_conn *c, uint32_t pipe)
{
	if (c->pump.turn < AT_ONCE)
		return false;
	c->pump.turn = 0;
	(void)http_pump_await(c, pipe, 0);
	return true;
}

/* ---- in ---- */

void http_take(struct http_call *call, int to, void (*whole)(void *arg, bool ok))
{
	struct http_conn *c = call->conn;

	if (c->state != HTTP_TAKE || c->ended)
		return;
	http_pump_begin(c, PUMP_IN, to, call->body_max);
	c->pump.whole = whole;
}

static bool end_take(struct http_conn *c, bool ok)
{
	void (*whole)(void *, bool) = c->pump.whole;

	pump_stop(c);
	if (ok)
		conn_serve(c);
	whole(c->call.arg, ok);
	return true;
}

/* It was answered here: whoever served it has nobody to speak to. */
static bool forsake(struct http_conn *c)
{
	void (*gone)(void *) = c->call.gone;

	pump_stop(c);
	c->call.gone = NULL;
	if (gone)
		gone(c->call.arg);
	return true;
}

/* What lies in the buffer. */
static bool take_held(struct http_conn *c)
{
	struct http_pump *p = &c->pump;
	ssize_t n;

	if (!p->held.n) {
		n = http1_body_read(&c->framing, c->in + c->head_len, c->len - c->head_len,
				    &p->held);
		if (n < 0 || p->held.n > p->left) {
			conn_refuse_body(c, n < 0);
			return forsake(c);
		}
		p->left -= p->held.n;
		p->taken = (size_t)n;
	}
	while (p->held.n) {
		n = write(p->w.fd, p->held.p, p->held.n);
		if (n < 0 && errno == EAGAIN)
			return http_pump_await(c, EPOLLOUT, 0);
		if (n < 0 && errno != EINTR)
			return end_take(c, false);
		p->held.p += n > 0 ? n : 0;
		p->held.n -= n > 0 ? (size_t)n : 0;
	}
	conn_drop(c, p->taken);
	return moved(c, p->taken);
}

static bool take_by_kernel(struct http_conn *c)
{
	size_t want = c->framing.left < STEP ? (size_t)c->framing.left : STEP;
	ssize_t n =
		splice(c->fd, NULL, c->pump.w.fd, NULL, want, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0) {
		http1_body_skip(&c->framing, (uint64_t)n);
		return moved(c, (size_t)n);
	}
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN && !has_urgent(c->fd))
		return has_bytes(c->fd) ? http_pump_await(c, EPOLLOUT, 0)
					: http_pump_await(c, 0, EPOLLIN);
	if (n < 0 && errno == EPIPE)
		return end_take(c, false);
	conn_desert(c);
	return false;
}

bool pump_in(struct http_conn *c)
{
	if (c->pump.way != PUMP_IN || enough(c, EPOLLOUT))
		return false;
	if (c->pump.held.n)
		return take_held(c);
	/* What lies behind the body is the next call's. */
	if (http1_body_done(&c->framing))
		return end_take(c, true);
	if (c->len > c->head_len)
		return take_held(c);
	if (!c->framing.chunked)
		return take_by_kernel(c);
	return http_pump_await(c, 0, EPOLLIN);
}

/* ---- out ---- */

bool http_give(struct http_call *call, const char *fields, const char *type, int64_t length,
	       int from, bool (*end)(void *arg))
{
	struct http_conn *c = call->conn;
	char more[512];

	c->chunked = length < 0 && c->head.minor == 1;
	if (length < 0 && !c->chunked)
		c->keep = false;
	if (length < 0)
		(void)snprintf(more, sizeof(more), "%.400s%s", fields,
			       c->chunked ? "Transfer-Encoding: chunked\r\n" : "");
	else
		(void)snprintf(more, sizeof(more), "%.400sContent-Length: %lld\r\n", fields,
			       (long long)length);
	http_head(call, 200, more, type);
	c->ended = c->bare;
	conn_due(c);
	if (c->bare)
		return false;
	http_pump_begin(c, PUMP_OUT, from, length < 0 ? UINT64_MAX : (uint64_t)length);
	c->pump.end = end;
	return true;
}

void http_trail(struct http_call *call, const char *name, const char *value)
{
	buf_printf(&call->conn->trail, "%s: %s\r\n", name, value);
}

/* The peer sees the connection end in the middle of what was promised. */
static bool end_give(struct http_conn *c, bool whole)
{
	bool (*end)(void *) = c->pump.end;
	bool ok;

	pump_stop(c);
	ok = end(c->call.arg) && whole;
	if (!ok) {
		c->call.gone = NULL;
		conn_desert(c);
		return false;
	}
	if (c->chunked) {
		buf_puts(&c->out, "0\r\n");
		buf_add(&c->out, c->trail.data, c->trail.failed ? 0 : c->trail.len);
		buf_puts(&c->out, "\r\n");
	}
	buf_done(&c->trail);
	c->ended = true;
	return true;
}

static bool begin_chunk(struct http_conn *c)
{
	int n = 0;

	if (ioctl(c->pump.w.fd, FIONREAD, &n) < 0 || n <= 0)
		return false;
	c->pump.chunk = (size_t)n;
	buf_printf(&c->out, "%x\r\n", (unsigned)n);
	return true;
}

/* The pipe was empty: more comes, has come meanwhile, or nobody writes any more. */
static bool await_chunk(struct http_conn *c)
{
	short there = wait_look(c->pump.w.fd, POLLIN);

	if (!there)
		return http_pump_await(c, EPOLLIN, 0);
	return there & POLLIN ? true : end_give(c, true);
}

static bool give_by_kernel(struct http_conn *c)
{
	struct http_pump *p = &c->pump;
	uint64_t most = c->chunked && p->chunk ? p->chunk : p->left;
	ssize_t n = splice(p->w.fd, NULL, c->fd, NULL, most < STEP ? (size_t)most : STEP,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n == 0)
		return end_give(c, p->left == UINT64_MAX && !p->chunk);
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return has_bytes(p->w.fd) ? http_pump_await(c, 0, EPOLLOUT)
					  : http_pump_await(c, EPOLLIN, 0);
	if (n < 0) {
		conn_desert(c);
		return false;
	}
	if (p->left != UINT64_MAX)
		p->left -= (uint64_t)n;
	if (p->chunk) {
		p->chunk -= (size_t)n;
		if (!p->chunk)
			buf_puts(&c->out, "\r\n");
	}
	return moved(c, (size_t)n);
}

bool pump_out(struct http_conn *c)
{
	if (c->sent < c->out.len || enough(c, EPOLLIN))
		return false;
	if (!c->pump.left)
		return end_give(c, true);
	if (c->chunked && !c->pump.chunk && begin_chunk(c))
		return true;
	return c->chunked && !c->pump.chunk ? await_chunk(c) : give_by_kernel(c);
}
