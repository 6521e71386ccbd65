/* SPDX-License-Identifier: Apache-2.0 */
/* http/http_conn.c - one connection: reads a call, has it served, sends the answer.
 *
 * Handlers answer from wherever they are called. What they add is sent, and what has ended is
 * freed, in conn_turn alone, which http_settle and the loop call: no handler finds its connection
 * gone under its feet. While a call is served nothing is read; a caller that closes its side then
 * has left. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "http/http_internal.h"

#define SECOND ((uint64_t)1000000)
#define HEAD_TIME (10 * SECOND)
#define IDLE_TIME (60 * SECOND)
#define BODY_TIME (30 * SECOND)
#define STALL_TIME (30 * SECOND) /* nothing of the answer was taken for so long */
#define BEAT_TIME (15 * SECOND)  /* a stream that says nothing says that it is there */
#define LINGER_TIME (1 * SECOND)
#define IN_FIRST ((size_t)8192)
#define IN_ROOM ((size_t)4096) /* behind the head, for what is read next */
#define IN_MAX ((size_t)HTTP_HEAD_MAX + 2 * IN_ROOM)
#define LINGER_MAX ((size_t)4 << 20)

static void http_conn_enter(struct http_conn *c, enum http_state state)
{
	c->state = state;
	c->since = c->moved = clock_us();
}

/* Nobody is there to hear the answer. */
void conn_desert(struct http_conn *c)
{
	void (*gone)(void *) = c->call.gone;

	pump_stop(c);
	http_conn_enter(c, HTTP_OVER);
	if (c->ended || c->deserted)
		return;
	c->deserted = true;
	if (gone)
		gone(c->call.arg);
	if (c->call.answered)
		c->call.answered(&c->call, 0, NULL, 0);
}

/* ---- reading ---- */

static bool reserve(struct http_conn *c)
{
	size_t cap = c->cap ? c->cap * 2 : IN_FIRST;
	char *p;

	if (c->cap - c->len >= IN_ROOM)
		return true;
	if (c->state != HTTP_HEAD) /* the head points into it */
		return c->cap > c->len;
	p = realloc(c->in, cap < IN_MAX ? cap : IN_MAX);
	if (!p)
		return false;
	c->in = p;
	c->cap = cap < IN_MAX ? cap : IN_MAX;
	return c->cap > c->len;
}

static void drop_handed(struct http_conn *c)
{
	while (c->handed_count)
		(void)fd_close(c->handed[--c->handed_count]);
	free(c->handed);
	c->handed = NULL;
}

size_t http_handed(struct http_call *call, int fds[HTTP_HANDED])
{
	struct http_conn *c = call->conn;
	size_t n = c->handed_count;

	for (size_t i = 0; i < n; i++)
		fds[i] = c->handed[i];
	c->handed_count = 0;
	drop_handed(c);
	return n;
}

/* Over the owner's socket descriptors may come along, which belong to the call that is being read:
 * the kernel hands out no byte of the next one with them. */
static ssize_t take_local(struct http_conn *c)
{
	int fds[HTTP_HANDED];
	size_t n = HTTP_HANDED - c->handed_count;
	ssize_t r = fd_recv(c->fd, c->in + c->len, c->cap - c->len, fds, &n);

	if (n && !c->handed)
		c->handed = calloc(HTTP_HANDED, sizeof(*c->handed));
	for (size_t i = 0; i < n; i++) {
		if (c->handed)
			c->handed[c->handed_count++] = fds[i];
		else
			(void)fd_close(fds[i]);
	}
	if (r < 0)
		errno = (int)-r;
	return r < 0 ? -1 : r;
}

static bool http_conn_fill(struct http_conn *c)
{
	ssize_t n;

	if (!reserve(c)) {
		conn_desert(c);
		return false;
	}
	n = c->from->local ? take_local(c)
			   : recv(c->fd, c->in + c->len, c->cap - c->len, MSG_DONTWAIT);
	if (n > 0)
		c->len += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		conn_desert(c);
	return n > 0;
}

static void http_conn_drop(struct http_conn *c, size_t at, size_t n)
{
	memmove(c->in + at, c->in + at + n, c->len - at - n);
	c->len -= n;
}

void conn_drop(struct http_conn *c, size_t n)
{
	http_conn_drop(c, c->head_len, n);
}

/* The answer to what is no call: said, and then the connection ends. */
static void http_conn_refuse(struct http_conn *c, int status, enum problem p, const char *why)
{
	struct err e;

	(void)problem_say(p, &e, "%s", why);
	http_last(&c->call);
	http_refuse(&c->call, status, NULL, p, &e);
}

void conn_refuse_body(struct http_conn *c, bool malformed)
{
	if (malformed)
		http_conn_refuse(c, 400, PROBLEM_INVALID, "the body is malformed");
	else
		http_conn_refuse(c, 413, PROBLEM_TOO_LARGE, "the body is too large");
}

void conn_serve(struct http_conn *c)
{
	http_conn_enter(c, HTTP_SERVE);
}

static bool begin_call(struct http_conn *c)
{
	struct http_call *call = &c->call;
	char *mark;

	free(c->target);
	c->target = strndup(c->head.path.p, c->head.path.n);
	*call = (struct http_call){ .head = &c->head,
				    .path = c->target,
				    .query = "",
				    .caller = &c->caller,
				    .peer = &c->peer,
				    .body_max = HTTP_BODY_MAX,
				    .conn = c };
	c->keep = c->head.keeps_alive;
	c->bare = http1_text_is(c->head.method, "HEAD");
	if (!c->target)
		return false;
	mark = strchr(c->target, '?');
	if (mark) {
		*mark = '\0';
		call->query = mark + 1;
	}
	return true;
}

/* The head is whole: may the rest come? */
static void admit(struct http_conn *c)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	if (!begin_call(c)) {
		conn_desert(c);
		return;
	}
	http_conn_enter(c, HTTP_BODY);
	http1_body_start(&c->framing, c->head.framing, c->head.length);
	if (c->head.form != HTTP1_ORIGIN) {
		http_conn_refuse(c, 400, PROBLEM_INVALID,
				 "the target is not a path of this daemon");
		return;
	}
	if (!c->server->by.admit(c->server->by.arg, &c->call))
		return;
	if (!c->call.unread)
		c->body.max = c->call.body_max;
	if (c->head.framing == HTTP1_LENGTH && c->head.length > c->call.body_max)
		http_conn_refuse(c, 413, PROBLEM_TOO_LARGE, "the body is too large");
	else if (c->head.expects && c->head.framing != HTTP1_NO_BODY && c->len == c->head_len)
		buf_add(&c->out, go_on, sizeof(go_on) - 1);
}

static bool take_head(struct http_conn *c)
{
	const char *why = "";
	ssize_t n = c->len ? http1_read_request(c->in, c->len, &c->head, &why) : 0;

	if (n == 0 && c->len >= HTTP_HEAD_MAX) {
		n = -HTTP1_FIELDS_TOO_LARGE;
		why = "the head is too long";
	}
	if (n == 0)
		return false;
	if (n < 0) {
		c->call = (struct http_call){ .conn = c, .caller = &c->caller, .peer = &c->peer };
		c->bare = false;
		http_conn_enter(c, HTTP_BODY);
		http_conn_refuse(c, (int)-n,
				 n == -HTTP1_FIELDS_TOO_LARGE ? PROBLEM_TOO_LARGE : PROBLEM_INVALID,
				 why);
		return true;
	}
	c->head_len = (size_t)n;
	admit(c);
	return true;
}

/* An answer that came before the body has been read: the rest of it is not waited for. */
static bool answered_early(struct http_conn *c)
{
	if (!c->ended)
		return false;
	pump_stop(c);
	if (!http1_body_done(&c->framing) || !c->keep) {
		c->keep = false;
		http_conn_enter(c, HTTP_FLUSH);
	} else {
		http_conn_enter(c, HTTP_SERVE);
	}
	return true;
}

static void http_conn_serve(struct http_conn *c)
{
	c->call.body = buf_str(&c->body);
	c->call.body_len = c->body.len;
	c->server->served++;
	c->server->by.serve(c->server->by.arg, &c->call);
}

static bool take_body(struct http_conn *c)
{
	if (answered_early(c))
		return true;
	if (c->call.unread) {
		http_conn_enter(c, HTTP_TAKE);
		http_conn_serve(c);
		return true;
	}
	while (!http1_body_done(&c->framing) && c->len > c->head_len) {
		struct http1_text data;
		ssize_t n = http1_body_read(&c->framing, c->in + c->head_len, c->len - c->head_len,
					    &data);

		if (n < 0 || data.n > c->call.body_max - c->body.len) {
			conn_refuse_body(c, n < 0);
			return answered_early(c);
		}
		buf_add(&c->body, data.p, data.n);
		http_conn_drop(c, c->head_len, (size_t)n);
	}
	if (!http1_body_done(&c->framing))
		return false;
	if (c->body.failed) {
		conn_desert(c);
		return false;
	}
	http_conn_enter(c, HTTP_SERVE);
	http_conn_serve(c);
	return true;
}

/* ---- sending ---- */

bool conn_flush(struct http_conn *c)
{
	bool moved = false;

	while (c->sent < c->out.len) {
		ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			if (errno != EAGAIN)
				conn_desert(c);
			return moved;
		}
		c->sent += (size_t)n;
		c->moved = clock_us();
		moved = true;
	}
	if (c->out.failed)
		conn_desert(c);
	buf_done(&c->out);
	c->sent = 0;
	return moved;
}

static bool all_sent(const struct http_conn *c)
{
	return c->sent == c->out.len;
}

/* The answer is out: on to the next call, or to the end. */
static bool end_call(struct http_conn *c)
{
	if (!c->keep) {
		http_conn_enter(c, HTTP_FLUSH);
		return true;
	}
	http_conn_drop(c, 0, c->head_len);
	c->head_len = 0;
	drop_handed(c);
	buf_done(&c->body);
	c->call = (struct http_call){ .conn = c, .caller = &c->caller, .peer = &c->peer };
	c->ended = c->streaming = c->chunked = c->bare = c->deserted = false;
	c->used = true;
	if (!c->len) {
		free(c->in);
		c->in = NULL;
		c->cap = 0;
	}
	http_conn_enter(c, HTTP_HEAD);
	return true;
}

/* What the peer still sends is read past: a reset would take the answer away from it. */
static bool end_flush(struct http_conn *c)
{
	if (shutdown(c->fd, SHUT_WR) < 0) {
		http_conn_enter(c, HTTP_OVER);
		return true;
	}
	c->len = 0;
	http_conn_enter(c, HTTP_LINGER);
	return true;
}

static void linger(struct http_conn *c)
{
	char dust[4096];
	ssize_t n;

	while ((n = recv(c->fd, dust, sizeof(dust), MSG_DONTWAIT)) > 0) {
		c->len += (size_t)n;
		if (c->len > LINGER_MAX)
			break;
	}
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		http_conn_enter(c, HTTP_OVER);
}

/* ---- the machine ---- */

static bool step(struct http_conn *c)
{
	switch (c->state) {
	case HTTP_HEAD:
		return take_head(c);
	case HTTP_BODY:
		return take_body(c);
	case HTTP_TAKE:
		return answered_early(c) || pump_in(c);
	case HTTP_SERVE:
		if (c->pump.way == PUMP_OUT)
			return pump_out(c);
		if (c->ended && all_sent(c))
			return end_call(c);
		if (!c->ended && c->streaming && c->call.room && http_room(&c->call)) {
			size_t before = c->out.len;

			c->call.room(c->call.arg);
			return c->out.len != before || c->ended;
		}
		return false;
	case HTTP_FLUSH:
		return all_sent(c) && end_flush(c);
	case HTTP_LINGER:
	case HTTP_OVER:
		break;
	}
	return false;
}

static uint64_t deadline(const struct http_conn *c)
{
	switch (c->state) {
	case HTTP_HEAD:
		return c->since + (c->used && !c->len ? IDLE_TIME : HEAD_TIME);
	case HTTP_BODY:
		return c->since + BODY_TIME;
	case HTTP_TAKE:
		return c->moved + STALL_TIME;
	case HTTP_SERVE:
		if (!all_sent(c) || c->pump.way != PUMP_NONE)
			return c->moved + STALL_TIME;
		return c->streaming ? c->moved + BEAT_TIME : 0;
	case HTTP_FLUSH:
		return c->moved + STALL_TIME;
	case HTTP_LINGER:
		return c->since + LINGER_TIME;
	case HTTP_OVER:
		break;
	}
	return 0;
}

static void arm(struct http_conn *c)
{
	uint32_t want = EPOLLRDHUP;

	if (c->state == HTTP_OVER) {
		(void)loop_want(c->server->loop, &c->w, 0);
		loop_at(c->server->loop, &c->timer, 0);
		conn_due(c);
		return;
	}
	if (c->state == HTTP_HEAD || c->state == HTTP_BODY || c->state == HTTP_LINGER)
		want = EPOLLIN;
	if (c->state == HTTP_FLUSH || c->state == HTTP_TAKE)
		want = 0;
	if (c->pump.way != PUMP_NONE)
		want |= c->pump.socket;
	if (!all_sent(c))
		want |= EPOLLOUT;
	if (loop_want(c->server->loop, &c->w, want) < 0) {
		conn_desert(c);
		conn_due(c);
		return;
	}
	loop_at(c->server->loop, &c->timer, deadline(c));
}

void conn_turn(struct http_conn *c)
{
	bool moved = true;

	while (moved && c->state != HTTP_OVER) {
		moved = step(c);
		if (c->state != HTTP_OVER && conn_flush(c))
			moved = true;
	}
	arm(c);
}

static void ready(struct loop_watch *w, uint32_t events)
{
	struct http_conn *c = (struct http_conn *)w;

	if (c->state == HTTP_LINGER)
		linger(c);
	else if (c->state == HTTP_HEAD || c->state == HTTP_BODY ||
		 (c->state == HTTP_TAKE && c->framing.chunked && events & EPOLLIN))
		(void)http_conn_fill(c);
	else if (c->state != HTTP_TAKE && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		conn_desert(c);
	conn_turn(c);
}

static void due(struct loop_timer *t, uint64_t now UNUSED)
{
	struct http_conn *c = CONTAINER_OF(t, struct http_conn, timer);
	bool slow = c->state == HTTP_BODY || (c->state == HTTP_HEAD && c->len);

	if (c->pump.way != PUMP_NONE || c->state == HTTP_TAKE) {
		conn_desert(c);
	} else if (c->state == HTTP_SERVE && all_sent(c)) {
		http_event(&c->call, NULL, 0, "", 0);
	} else if (slow) {
		if (c->state == HTTP_HEAD) {
			c->call = (struct http_call){ .conn = c, .caller = &c->caller };
			http_conn_enter(c, HTTP_BODY);
		}
		http_conn_refuse(c, 408, PROBLEM_INVALID, "the request took too long to come");
	} else {
		conn_desert(c);
	}
	conn_turn(c);
}

void conn_cut(struct http_conn *c)
{
	conn_desert(c);
	arm(c);
}

/* ---- life ---- */

struct http_conn *conn_new(struct http_server *s, const struct http_listener *from, int fd)
{
	struct http_conn *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)fd_close(fd);
		return NULL;
	}
	c->server = s;
	c->from = from;
	c->fd = fd;
	c->w = (struct loop_watch){ .fd = fd, .ready = ready };
	c->timer.due = due;
	c->body = (struct buf)BUF_INIT(HTTP_BODY_MAX);
	c->out = (struct buf)BUF_INIT(HTTP_ANSWER_MAX);
	c->trail = (struct buf)BUF_INIT(HTTP1_TRAILER_MAX);
	c->caller.local = from->local;
	c->call = (struct http_call){ .conn = c, .caller = &c->caller, .peer = &c->peer };
	if (from->local)
		peer_look(fd, &c->peer);
	c->next = s->all;
	c->link = &s->all;
	if (s->all)
		s->all->link = &c->next;
	s->all = c;
	s->connections++;
	s->remote += !from->local;
	http_conn_enter(c, HTTP_HEAD);
	arm(c);
	return c;
}

struct http_conn *conn_free(struct http_conn *c)
{
	if (!c)
		return NULL;
	if (c->state != HTTP_OVER)
		conn_desert(c);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	c->server->connections--;
	c->server->remote -= !c->from->local;
	if (c->caller.counted)
		c->caller.counted->connections--;
	(void)loop_want(c->server->loop, &c->w, 0);
	loop_at(c->server->loop, &c->timer, 0);
	(void)fd_close(c->fd);
	drop_handed(c);
	buf_done(&c->body);
	buf_done(&c->out);
	buf_done(&c->trail);
	free(c->target);
	free(c->in);
	free(c);
	return NULL;
}
