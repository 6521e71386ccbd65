/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/toolset/tool_ask.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define EVENT_MAX ((size_t)64 << 20)

void ask_end(struct tool_ask *a)
{
	if (!a->client)
		return;
	if (a->w.events)
		(void)loop_want(a->loop, &a->w, 0);
	a->client = daemon_client_free(a->client);
	sse_done(&a->sse);
	a->sse = (struct sse)SSE_INIT(EVENT_MAX);
}

static void tool_ask_finish(struct tool_ask *a, struct err *e)
{
	if (!e->code && a->status >= 400)
		(void)daemon_client_problem(a->status, buf_str(&a->got), a->got.len, NULL, e);
	ask_end(a);
	a->done(a->arg, e);
}

/* false: there is no more room for it. */
static bool tool_ask_take(struct tool_ask *a, const char *p, size_t n)
{
	if (!a->events || a->status != 200) {
		buf_add(&a->got, p, n);
		return !a->got.failed;
	}
	while (n) {
		bool whole = false;
		ssize_t used = sse_take(&a->sse, p, n, &whole);

		if (used < 0)
			return false;
		p += used;
		n -= (size_t)used;
		if (whole)
			a->event(a->arg, &a->sse);
	}
	return true;
}

static void tool_ask_give(struct tool_ask *a)
{
	ssize_t n = send(a->w.fd, a->give + a->given, a->give_len - a->given,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* Who takes no more of it has answered. */
	a->given = n < 0 ? a->give_len : a->given + (size_t)n;
	if (a->given == a->give_len)
		(void)loop_want(a->loop, &a->w, EPOLLIN);
}

static void tool_ask_hear(struct tool_ask *a)
{
	struct err e = { 0 };
	char piece[16384];
	ssize_t n;

	if (!a->status)
		a->status = daemon_client_status(a->client, &e);
	if (a->status < 0) {
		tool_ask_finish(a, &e);
		return;
	}
	while ((n = daemon_client_read(a->client, piece, sizeof(piece), &e)) > 0)
		if (!tool_ask_take(a, piece, (size_t)n)) {
			(void)err_set(&e, ERR_USAGE, EFBIG, "what came out is too large");
			tool_ask_finish(a, &e);
			return;
		}
	if (n == -EAGAIN)
		return;
	if (n == 0)
		e = (struct err){ 0 };
	tool_ask_finish(a, &e);
}

static void tool_ask_on_ready(struct loop_watch *w, uint32_t events)
{
	struct tool_ask *a = (struct tool_ask *)w;

	if (events & EPOLLOUT && a->given < a->give_len)
		tool_ask_give(a);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		tool_ask_hear(a);
}

static int tool_ask_say(struct tool_ask *a, const struct daemon_question *q, struct err *e)
{
	if (a->give)
		return daemon_client_begin(a->client, q, "application/octet-stream",
					   (int64_t)a->give_len, e);
	if (q->body_len > ASK_BODY_MAX)
		return err_refuse(e, ERR_USAGE, E2BIG, "write a file first, and read it inside",
				  "a command with its input is at most 1 MiB here");
	return daemon_client_send(a->client, q, a->events, e);
}

int ask_begin(struct tool_ask *a, struct loop *l, const char *tenant,
	      const struct daemon_question *q, struct err *e)
{
	a->loop = l;
	a->status = 0;
	a->given = 0;
	a->got.len = 0;
	a->sse = (struct sse)SSE_INIT(EVENT_MAX);
	if (daemon_client_open(true, &a->client, e) < 0)
		return -e->code;
	daemon_client_act(a->client, tenant);
	if (tool_ask_say(a, q, e) < 0) {
		ask_end(a);
		return -e->code;
	}
	a->w = (struct loop_watch){ .fd = daemon_client_fd(a->client), .ready = tool_ask_on_ready };
	if (loop_want(l, &a->w, a->give_len ? EPOLLIN | EPOLLOUT : EPOLLIN) < 0) {
		ask_end(a);
		return err_set(e, ERR_INTERNAL, EIO, "the daemon cannot be waited for");
	}
	return 0;
}

void ask_wait(struct tool_ask *a)
{
	struct err unused;

	if (a->client && !a->status)
		a->status = daemon_client_status(a->client, &unused);
}
