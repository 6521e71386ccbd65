/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/text/cleanup.h"

/* ---- room, of a pool or of nobody ---- */

struct spare {
	struct spare *next;
};

/* Which of a pool's sizes it is; POOL_SIZES: none. */
static unsigned size_class(size_t n)
{
	unsigned c = 0;

	while (c < POOL_SIZES && n != (size_t)FLOW_READ << c)
		c++;
	return c;
}

static char *room_new(struct link_pool *p, size_t n)
{
	unsigned c = p ? size_class(n) : POOL_SIZES;
	struct spare *s = c < POOL_SIZES ? p->spare[c] : NULL;

	if (!s)
		return malloc(n);
	p->spare[c] = s->next;
	p->n_spare[c]--;
	return (char *)s;
}

static void room_free(struct link_pool *p, char *room, size_t n)
{
	unsigned c = p && room ? size_class(n) : POOL_SIZES;
	struct spare *s = (struct spare *)(void *)room; /* as malloc aligned it */

	if (c == POOL_SIZES || p->n_spare[c] == POOL_KEEPS) {
		free(room);
		return;
	}
	s->next = p->spare[c];
	p->spare[c] = s;
	p->n_spare[c]++;
}

void link_pool_done(struct link_pool *p)
{
	for (unsigned c = 0; c < POOL_SIZES; c++)
		while (p->spare[c]) {
			struct spare *s = p->spare[c];

			p->spare[c] = s->next;
			free(s);
		}
	*p = (struct link_pool){ 0 };
}

/* ---- flows ---- */

static void flow_drop(struct link_pool *p, struct flow *f)
{
	room_free(p, f->data, f->cap);
	*f = (struct flow){ 0 };
}

static bool flow_grow(struct link_pool *p, struct flow *f, size_t cap)
{
	char *data = room_new(p, cap);

	if (!data)
		return false;
	if (f->len)
		memcpy(data, f->data + f->at, f->len);
	room_free(p, f->data, f->cap);
	*f = (struct flow){ .data = data, .len = f->len, .cap = cap };
	return true;
}

static char *flow_room(struct link_pool *p, struct flow *f, size_t n)
{
	size_t cap = f->cap ? f->cap : FLOW_READ;

	if (f->at + f->len + n <= f->cap)
		return f->data + f->at + f->len;
	if (f->len + n > FLOW_MAX)
		return NULL;
	while (cap < f->len + n)
		cap *= 2;
	if (cap != f->cap) {
		if (!flow_grow(p, f, cap))
			return NULL;
	} else {
		memmove(f->data, f->data + f->at, f->len);
		f->at = 0;
	}
	return f->data + f->len;
}

static void flow_take(struct link_pool *p, struct flow *f, size_t n)
{
	f->at += n;
	f->len -= n;
	if (!f->len)
		flow_drop(p, f);
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
		flow_take(l->pool, &l->early, k);
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
	ssize_t r = send(l->fd, p, n, MSG_NOSIGNAL | (l->follows ? MSG_MORE : 0));

	*wait = POLLOUT;
	return r < 0 ? -errno : r;
}

/* The link closes it itself, whoever read and wrote it. */
static void socket_leave(void *arg UNUSED)
{
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
			    .stuck = true,
			    .ready = ready };
}

void link_share(struct link *l, struct link_pool *p)
{
	l->pool = p;
}

/* ---- who keeps what TLS reads and writes in ---- */

static void link_cool(struct link *l)
{
	struct link_pool *p = l->pool;

	if (!l->warm)
		return;
	*(l->warmer ? &l->warmer->colder : &p->first) = l->colder;
	*(l->colder ? &l->colder->warmer : &p->last) = l->warmer;
	l->warmer = l->colder = NULL;
	l->warm = false;
	p->n_warm--;
}

static void link_warm(struct link *l)
{
	struct link_pool *p = l->pool;
	bool was = l->warm;

	if (!p || !l->tls || !l->handshaken || p->first == l)
		return;
	link_cool(l);
	l->colder = p->first;
	*(p->first ? &p->first->warmer : &p->last) = l;
	p->first = l;
	l->warm = true;
	if (!was)
		tls_keep(l->tls, true);
	if (++p->n_warm > POOL_WARM) {
		tls_keep(p->last->tls, false);
		link_cool(p->last);
	}
}

void link_done(struct loop *loop, struct link *l)
{
	(void)loop_want(loop, &l->w, 0);
	link_cool(l);
	l->tls = tls_free(l->tls);
	l->under = tls_free(l->under);
	l->t = (struct transport){ 0 };
	flow_drop(l->pool, &l->in);
	flow_drop(l->pool, &l->out);
	flow_drop(l->pool, &l->early);
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

int link_tls_within(struct link *l, SSL *ssl)
{
	struct transport below = l->t;
	struct tls *within;

	link_cool(l);
	below.close = socket_leave; /* it is freed here, after what is in it */
	within = tls_new(ssl, below);
	if (!within)
		return -ENOMEM;
	l->under = l->tls;
	l->tls = within;
	l->t = tls_transport(within);
	l->handshaken = false;
	return l->in.len ? -EPROTO : 0;
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

static bool holds_some(const struct link *l)
{
	return (l->tls && tls_pending(l->tls)) || (l->under && tls_pending(l->under));
}

/* Nothing can come before the loop tells of news: neither the socket nor TLS has any of it. */
static bool is_dry(const struct link *l)
{
	return l->drained && l->handshaken && !l->early.len && !holds_some(l);
}

size_t link_fill(struct link *l)
{
	char *room;
	ssize_t r;

	if (l->eof || l->broken || l->fd < 0 || l->in.len >= FLOW_FULL || is_dry(l))
		return 0;
	room = flow_room(l->pool, &l->in, FLOW_READ);
	r = room ? pull(l, room, FLOW_READ) : 0;
	if (!room)
		l->broken = true;
	if (r > 0)
		l->in.len += (size_t)r;
	if (!l->in.len)
		flow_drop(l->pool, &l->in);
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
		ssize_t r;

		/* TLS takes so much at once; a plain socket all of it. */
		l->follows = l->tls && l->out.len >= FLOW_READ + least;
		r = push(l, l->out.data + l->out.at, l->out.len);
		l->stuck = r <= 0;
		if (r <= 0)
			break;
		flow_take(l->pool, &l->out, (size_t)r);
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
	char *room = n ? flow_room(l->pool, &l->out, n) : NULL;

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
	flow_take(l->pool, &l->in, n);
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
	return !l->eof && !l->broken && !l->in.len && !l->out.len && !holds_some(l);
}

int link_wait(struct loop *loop, struct link *l, bool reading)
{
	bool more = reading && !l->eof && l->in.len < FLOW_FULL;
	uint32_t events = 0;

	if (l->fd < 0)
		return 0;
	link_warm(l);
	if (l->write_wants_read || (more && !l->read_wants_write))
		events |= EPOLLIN;
	if (l->read_wants_write || (l->out.len && l->stuck && !l->write_wants_read))
		events |= EPOLLOUT;
	return loop_want(loop, &l->w, events);
}
