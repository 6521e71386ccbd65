/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_stdio.c - lines in, lines out, both bounded: who does not read what we say is not
 * heard until it has. */
#include "apps/mcp/mcp_stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "apps/mcp/mcp_server.h"
#include "apps/mcp/rpc.h"
#include "base/files/fd.h"

#define FULL ((size_t)1 << 20) /* waiting to be read: no more is heard */
#define WAITING_MAX ((size_t)512 << 20)

struct mcp_pipe {
	struct loop_watch in, out, signals;
	struct loop *loop;
	struct mcp_peer *peer;
	struct buf line, waiting;
	size_t sent;
	int out_fd;    /* non-blocking where it can be; -1: `out` itself */
	bool socket;   /* sent to without waiting, instead */
	bool skipping; /* the rest of a line that is too long */
	bool over;
};

static void mcp_stdio_stop(struct mcp_pipe *x)
{
	x->over = true;
	loop_stop(x->loop);
}

/* ---- out ---- */

static ssize_t mcp_stdio_put(const struct mcp_pipe *x, const char *p, size_t n)
{
	if (x->socket)
		return send(x->out.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return write(x->out.fd, p, n);
}

static void mcp_stdio_settle(struct mcp_pipe *x)
{
	size_t left = x->waiting.len - x->sent;

	(void)loop_want(x->loop, &x->out, left ? EPOLLOUT : 0);
	(void)loop_want(x->loop, &x->in, left < FULL && !x->over ? EPOLLIN : 0);
}

static void mcp_stdio_flush(struct mcp_pipe *x)
{
	while (x->sent < x->waiting.len) {
		ssize_t n = mcp_stdio_put(x, x->waiting.data + x->sent, x->waiting.len - x->sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			mcp_stdio_stop(x);
			return;
		}
		x->sent += (size_t)n;
	}
	if (x->sent == x->waiting.len) {
		buf_done(&x->waiting);
		x->waiting = (struct buf)BUF_INIT(WAITING_MAX);
		x->sent = 0;
	}
	mcp_stdio_settle(x);
}

static void on_out(struct loop_watch *w, uint32_t events UNUSED)
{
	mcp_stdio_flush(CONTAINER_OF(w, struct mcp_pipe, out));
}

static void mcp_stdio_say(void *arg, const struct mcp_said *s)
{
	struct mcp_pipe *x = arg;

	if (s->weak && x->waiting.len - x->sent > FULL / 4)
		return;
	buf_add(&x->waiting, s->p, s->n);
	buf_putc(&x->waiting, '\n');
	if (x->waiting.failed)
		mcp_stdio_stop(x);
	else
		mcp_stdio_flush(x);
}

/* Other processes may share the descriptor: its flags stay as they are. */
static int own_out(struct mcp_pipe *x, int out)
{
	char path[40];
	struct stat st;

	x->out_fd = -1;
	if (fstat(out, &st) < 0)
		return out;
	x->socket = S_ISSOCK(st.st_mode);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", out);
	if (S_ISFIFO(st.st_mode))
		x->out_fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	return x->out_fd >= 0 ? x->out_fd : out;
}

/* ---- in ---- */

static void end_line(struct mcp_pipe *x)
{
	if (x->skipping || x->line.failed) {
		struct buf b = BUF_INIT(1024);

		rpc_error(&b, "", RPC_REQUEST, "the message is too long", NULL);
		mcp_stdio_say(x,
			      &(struct mcp_said){ .p = buf_str(&b), .n = b.len, .answer = true });
		buf_done(&b);
	} else if (x->line.len) {
		mcp_hear(x->peer, x->line.data, x->line.len);
	}
	x->skipping = false;
	buf_done(&x->line);
	x->line = (struct buf)BUF_INIT(RPC_MESSAGE_MAX + 2);
}

static void mcp_stdio_take(struct mcp_pipe *x, const char *p, size_t n)
{
	while (n && !x->over) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) : n;

		if (!x->skipping)
			buf_add(&x->line, p, len && p[len - 1] == '\r' && nl ? len - 1 : len);
		if (x->line.failed) {
			x->skipping = true;
			buf_done(&x->line);
			x->line = (struct buf)BUF_INIT(RPC_MESSAGE_MAX + 2);
		}
		if (nl) {
			end_line(x);
			len++;
		}
		p += len;
		n -= len;
	}
}

static void on_in(struct loop_watch *w, uint32_t events UNUSED)
{
	struct mcp_pipe *x = (struct mcp_pipe *)w;
	char part[65536];
	ssize_t n = read(w->fd, part, sizeof(part));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		mcp_stdio_stop(x);
	else
		mcp_stdio_take(x, part, (size_t)n);
}

static void mcp_stdio_on_signal(struct loop_watch *w, uint32_t events UNUSED)
{
	mcp_stdio_stop(CONTAINER_OF(w, struct mcp_pipe, signals));
}

int mcp_stdio(const struct spec *s, const struct tools_daemon *d, int in, int out, int signals,
	      struct err *e)
{
	CLEANUP(loop) struct loop *l = NULL;
	CLEANUP(mcp) struct mcp_server *m = NULL;
	struct mcp_pipe x = { .in = { .fd = in, .ready = on_in },
			      .out = { .ready = on_out },
			      .signals = { .fd = signals, .ready = mcp_stdio_on_signal },
			      .line = BUF_INIT(RPC_MESSAGE_MAX + 2),
			      .waiting = BUF_INIT(WAITING_MAX) };
	int r;

	if (loop_new(&l, e) < 0 || mcp_new(l, s, d, &m, e) < 0)
		return -e->code;
	x.loop = l;
	x.out.fd = own_out(&x, out);
	x.peer = mcp_peer_new(m, mcp_stdio_say, &x);
	r = x.peer ? 0 : err_nomem(e);
	if (r == 0 && (loop_want(l, &x.in, EPOLLIN) < 0 ||
		       (signals >= 0 && loop_want(l, &x.signals, EPOLLIN) < 0)))
		r = err_set(e, ERR_INTERNAL, EIO, "cannot wait for messages");
	if (r == 0)
		loop_run(l, NULL, NULL);
	(void)loop_want(l, &x.in, 0);
	(void)loop_want(l, &x.out, 0);
	if (signals >= 0)
		(void)loop_want(l, &x.signals, 0);
	m = mcp_free(m);
	(void)fd_close(x.out_fd);
	buf_done(&x.line);
	buf_done(&x.waiting);
	return r;
}
