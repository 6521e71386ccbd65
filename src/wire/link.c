/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/cleanup.h"

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

/* recv, but a socket that gave less than it was asked for is not asked again before it has news:
 * that would be a system call in vain for each message. */
static ssize_t take(struct link *l, char *to, size_t n)
{
	ssize_t r = -1;

	if (l->drained)
		return errno = EAGAIN, -1;
	r = recv(l->fd, to, n, 0);
	l->drained = r > 0 ? (size_t)r < n : r < 0 && errno == EAGAIN;
	return r;
}

/* ---- a BIO that gives what was read early first ---- */

static int bio_read(BIO *b, char *out, int n)
{
	struct link *l = BIO_get_data(b);
	ssize_t r;

	BIO_clear_retry_flags(b);
	if (l->early.len) {
		size_t k = l->early.len < (size_t)n ? l->early.len : (size_t)n;

		memcpy(out, l->early.data + l->early.at, k);
		flow_take(&l->early, k);
		return (int)k;
	}
	r = take(l, out, (size_t)n);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(b);
	return (int)r;
}

static int bio_write(BIO *b, const char *p, int n)
{
	struct link *l = BIO_get_data(b);
	ssize_t r;

	BIO_clear_retry_flags(b);
	r = send(l->fd, p, (size_t)n, MSG_NOSIGNAL);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(b);
	return (int)r;
}

static long bio_ctrl(BIO *b, int cmd, long larg, void *parg)
{
	(void)b;
	(void)larg;
	(void)parg;
	return cmd == BIO_CTRL_FLUSH;
}

static BIO_METHOD *link_method(void)
{
	static BIO_METHOD *m; /* a constant, once made; there is one thread */

	if (!m) {
		m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "brig link");
		if (m) {
			(void)BIO_meth_set_read(m, bio_read);
			(void)BIO_meth_set_write(m, bio_write);
			(void)BIO_meth_set_ctrl(m, bio_ctrl);
		}
	}
	return m;
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
	*l = (struct link){ .w = { .fd = fd, .ready = on_news }, .fd = fd, .ready = ready };
}

void link_done(struct loop *loop, struct link *l)
{
	(void)loop_want(loop, &l->w, 0);
	SSL_free(l->ssl);
	l->ssl = NULL;
	flow_drop(&l->in);
	flow_drop(&l->out);
	flow_drop(&l->early);
	l->fd = fd_close(l->fd);
}

void link_tune(SSL_CTX *c)
{
	(void)SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(c, 1);
	SSL_CTX_set_default_read_buffer_len(c, FLOW_READ * 2);
}

int link_tls(struct link *l, SSL *ssl)
{
	BIO *b = link_method() ? BIO_new(link_method()) : NULL;

	l->ssl = ssl;
	if (!b)
		return -ENOMEM;
	BIO_set_data(b, l);
	BIO_set_init(b, 1);
	SSL_set_bio(ssl, b, b);
	l->early = l->in;
	l->in = (struct flow){ 0 };
	return 0;
}

/* Notes what a failed call of TLS waits for; false: it failed for good. */
static bool waits(struct link *l, int r, bool reading)
{
	switch (SSL_get_error(l->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		l->write_wants_read = !reading;
		return true;
	case SSL_ERROR_WANT_WRITE:
		l->read_wants_write = reading;
		return true;
	case SSL_ERROR_ZERO_RETURN:
		l->eof = true;
		return true;
	default:
		return false;
	}
}

int link_handshake(struct link *l)
{
	int r;

	if (l->handshaken)
		return 1;
	ERR_clear_error();
	l->read_wants_write = l->write_wants_read = false;
	r = SSL_do_handshake(l->ssl);
	if (r == 1) {
		l->handshaken = true;
		return 1;
	}
	if (!waits(l, r, true) || l->eof)
		return l->broken = true, -EPROTO;
	return 0;
}

static ssize_t pull(struct link *l, char *to, size_t n)
{
	ssize_t r;

	if (l->ssl) {
		ERR_clear_error();
		l->read_wants_write = false;
		r = SSL_read(l->ssl, to, (int)n);
		if (r > 0)
			return r;
		if (!waits(l, (int)r, true))
			l->broken = true;
		return 0;
	}
	r = take(l, to, n);
	if (r == 0)
		l->eof = true;
	else if (r < 0 && errno != EAGAIN && errno != EINTR)
		l->broken = true;
	return r > 0 ? r : 0;
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
	ssize_t r;

	if (l->ssl) {
		ERR_clear_error();
		l->write_wants_read = false;
		r = SSL_write(l->ssl, p, (int)(n < FLOW_READ ? n : FLOW_READ));
		if (r > 0)
			return r;
		if (!waits(l, (int)r, false))
			l->broken = true;
		return 0;
	}
	r = send(l->fd, p, n, MSG_NOSIGNAL);
	if (r < 0 && errno != EAGAIN && errno != EINTR)
		l->broken = true;
	return r > 0 ? r : 0;
}

static size_t flush(struct link *l, size_t least)
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
	return flush(l, 1);
}

size_t link_push(struct link *l)
{
	return flush(l, FLOW_READ);
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
	if (l->ssl && l->handshaken && !l->broken) {
		ERR_clear_error();
		(void)SSL_shutdown(l->ssl);
	}
	(void)shutdown(l->fd, SHUT_WR);
}

bool link_clean(const struct link *l)
{
	return !l->eof && !l->broken && !l->in.len && !l->out.len &&
	       !(l->ssl && SSL_has_pending(l->ssl));
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
