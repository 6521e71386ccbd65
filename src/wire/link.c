/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/text/cleanup.h"

/* ---- flows ---- */

static void flow_drop(struct flow *f)
{
	free(f->data);
	*f = (struct flow){ 0 };
}

static char *flow_room(struct flow *f, size_t n)
{
	size_t cap = f->cap ? f->cap : FLOW_READ;
	char *data;

	if (f->at + f->len + n <= f->cap)
		return f->data + f->at + f->len;
	if (f->at) {
		memmove(f->data, f->data + f->at, f->len);
		f->at = 0;
	}
	if (f->len + n > FLOW_MAX)
		return NULL;
	while (cap < f->len + n)
		cap *= 2;
	if (cap != f->cap) {
		data = realloc(f->data, cap);
		if (!data)
			return NULL;
		f->data = data;
		f->cap = cap;
	}
	return f->data + f->len;
}

static void flow_take(struct flow *f, size_t n)
{
	f->at += n;
	f->len -= n;
	if (!f->len)
		flow_drop(f);
}

/* ---- the socket, as a transport ---- */

/* What was read before TLS began comes first. A socket that gave less than it was asked for is not
 * asked again before it has news: that would be a system call in vain for each message. */
static ssize_t socket_read(void *arg, void *p, size_t n, short *wait)
{
	struct link *l = arg;
	ssize_t r;

	*wait = POLLIN;
	if (l->early.len) {
		size_t k = l->early.len < n ? l->early.len : n;

		memcpy(p, l->early.data + l->early.at, k);
		flow_take(&l->early, k);
		return (ssize_t)k;
	}
	if (l->drained)
		return -EAGAIN;
	r = recv(l->fd, p, n, 0);
	l->drained = r > 0 ? (size_t)r < n : r < 0 && errno == EAGAIN;
	return r < 0 ? -errno : r;
}

static ssize_t socket_write(void *arg, const void *p, size_t n, short *wait)
{
	const struct link *l = arg;
	ssize_t r = send(l->fd, p, n, MSG_NOSIGNAL);

	*wait = POLLOUT;
	return r < 0 ? -errno : r;
}

/* The link closes it itself, whoever read and wrote it. */
static void socket_leave(void *arg)
{
	(void)arg;
}

/* ---- links ---- */

static void on_news(struct loop_watch *w, uint32_t events)
{
	struct link *l = (struct link *)w;

	l->drained = false;
	l->ready(w, events);
}

void link_init(struct link *l, int fd, watch_fn *ready)
{
	*l = (struct link){ .w = { .fd = fd, .ready = on_news },
			    .fd = fd,
			    .t = { .arg = l,
				   .fd = fd,
				   .read = socket_read,
				   .write = socket_write,
				   .close = socket_leave },
			    .ready = ready };
}

void link_done(struct loop *loop, struct link *l)
{
	(void)loop_want(loop, &l->w, 0);
	l->tls = tls_free(l->tls);
	l->t = (struct transport){ 0 };
	flow_drop(&l->in);
	flow_drop(&l->out);
	flow_drop(&l->early);
	l->fd = fd_close(l->fd);
}

int link_tls(struct link *l, SSL *ssl)
{
	l->tls = tls_new(ssl, l->t);
	if (!l->tls)
		return -ENOMEM;
	l->t = tls_transport(l->tls);
	l->early = l->in;
	l->in = (struct flow){ 0 };
	return 0;
}

int link_handshake(struct link *l)
{
	short wait = 0;
	int r;

	if (l->handshaken)
		return 1;
	r = tls_handshake(l->tls, &wait);
	l->handshaken = r == 0;
	l->broken |= r < 0 && r != -EAGAIN;
	l->read_wants_write = r == -EAGAIN && wait == POLLOUT;
	l->write_wants_read = false;
	return r == 0 ? 1 : r == -EAGAIN ? 0 : -EPROTO;
}

static bool is_later(ssize_t r)
{
	return r == -EAGAIN || r == -EINTR;
}

static ssize_t pull(struct link *l, char *to, size_t n)
{
	short wait = 0;
	ssize_t r = l->t.read(l->t.arg, to, n, &wait);

	l->read_wants_write = r == -EAGAIN && wait == POLLOUT;
	l->eof |= r == 0;
	l->broken |= r < 0 && !is_later(r);
	return r;
}

size_t link_fill(struct link *l)
{
	char *room;
	ssize_t r;

	if (l->eof || l->broken || l->fd < 0 || l->in.len >= FLOW_FULL)
		return 0;
	room = flow_room(&l->in, FLOW_READ);
	r = room ? pull(l, room, FLOW_READ) : 0;
	if (!room)
		l->broken = true;
	if (r > 0)
		l->in.len += (size_t)r;
	if (!l->in.len)
		flow_drop(&l->in);
	return r > 0 ? (size_t)r : 0;
}

static ssize_t push(struct link *l, const char *p, size_t n)
{
	short wait = 0;
	ssize_t r = l->t.write(l->t.arg, p, n, &wait);

	l->write_wants_read = r == -EAGAIN && wait == POLLIN;
	l->broken |= r < 0 && !is_later(r);
	return r;
}

static size_t link_flush_out(struct link *l, size_t least)
{
	size_t sent = 0;

	while (l->out.len >= least && !l->broken && l->fd >= 0) {
		ssize_t r = push(l, l->out.data + l->out.at, l->out.len);

		if (r <= 0)
			break;
		flow_take(&l->out, (size_t)r);
		sent += (size_t)r;
	}
	return sent;
}

size_t link_flush(struct link *l)
{
	return link_flush_out(l, 1);
}

size_t link_push(struct link *l)
{
	return link_flush_out(l, FLOW_READ);
}

bool link_add(struct link *l, const void *p, size_t n)
{
	char *room = n ? flow_room(&l->out, n) : NULL;

	if (!n)
		return true;
	if (!room)
		return l->broken = true, false;
	memcpy(room, p, n);
	l->out.len += n;
	return true;
}

void link_take(struct link *l, size_t n)
{
	flow_take(&l->in, n);
}

void link_half_close(struct link *l)
{
	if (l->fd < 0)
		return;
	if (l->tls && l->handshaken && !l->broken)
		tls_shutdown(l->tls);
	(void)shutdown(l->fd, SHUT_WR);
}

bool link_clean(const struct link *l)
{
	return !l->eof && !l->broken && !l->in.len && !l->out.len &&
	       !(l->tls && tls_pending(l->tls));
}

int link_wait(struct loop *loop, struct link *l, bool reading)
{
	bool more = reading && !l->eof && l->in.len < FLOW_FULL;
	uint32_t events = 0;

	if (l->fd < 0)
		return 0;
	if (l->write_wants_read || (more && !l->read_wants_write))
		events |= EPOLLIN;
	if (l->read_wants_write || (l->out.len && !l->write_wants_read))
		events |= EPOLLOUT;
	return loop_want(loop, &l->w, events);
}
