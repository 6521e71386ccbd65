/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/tls/tls_main.c - brig-tls: TLS in front of the daemon, and nothing but TLS.
 *
 *   accepted -> shaking -> passing -> closing -> gone
 *
 * It reads the key and the certificate, then gives up files, programs and privileges before it
 * accepts. It knows nothing of HTTP, tokens or sandboxes: of a connection whose handshake is done
 * the daemon gets the other end, and bytes pass in both directions as fast as they are taken. Time
 * limits of calls are the daemon's; those of what it never sees are here. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "daemon/tls_front.h"
#include "proc/confine.h"
#include "wire/link.h"

#define SHAKE_US ((uint64_t)10 * 1000000)
#define CLOSE_US ((uint64_t)30 * 1000000)
#define STUCK_US ((uint64_t)45 * 1000000)
#define AT_ONCE 64

/* Handshakes under way at a time: one more ends the oldest, so that those who never finish theirs
 * keep nobody out. */
enum { SHAKING_MAX = 256, SESSIONS_MAX = 4096, OWN_FILES = 16 };

struct tls_host;

struct tls_session {
	struct link outer, inner;
	struct loop_timer timer;
	struct tls_host *h;
	struct tls_session *next, **link; /* of those that shake, the newest first */
	bool passing, ending, told_inner, told_outer;
};

struct tls_host {
	struct loop_watch accepts; /* first */
	struct loop_watch channel;
	struct loop *loop;
	SSL_CTX *ctx;
	struct tls_session *shaking;
	size_t shaking_count, sessions, most; /* most: of sessions */
};

/* ---- sessions ---- */

static void unlist(struct tls_session *s)
{
	if (!s->link)
		return;
	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
	s->link = NULL;
	s->h->shaking_count--;
}

static void session_end(struct tls_session *s)
{
	struct tls_host *h = s->h;

	unlist(s);
	loop_at(h->loop, &s->timer, 0);
	link_done(h->loop, &s->outer);
	link_done(h->loop, &s->inner);
	free(s);
	if (h->sessions-- == h->most)
		(void)loop_want(h->loop, &h->accepts, EPOLLIN);
}

static void on_time(struct loop_timer *t, uint64_t now UNUSED)
{
	session_end(CONTAINER_OF(t, struct tls_session, timer));
}

/* What came on one side leaves on the other; true: something moved, and *taken if the other side
 * has taken some of it. */
static bool carry(struct link *from, struct link *to, bool *taken)
{
	size_t moved = link_fill(from), sent;

	if (from->in.len && !link_full(to) && link_add(to, link_data(from), from->in.len)) {
		moved += from->in.len;
		link_take(from, from->in.len);
	}
	sent = link_flush(to);
	*taken |= sent > 0;
	return sent + moved > 0;
}

/* The end of one direction; true: told now. */
static bool pass_end(const struct link *from, struct link *to, bool *told)
{
	if (*told || !from->eof || from->in.len || to->out.len)
		return false;
	*told = true;
	link_half_close(to);
	return true;
}

/* Once the daemon has ended it, what is left has its time. While the caller takes nothing of what
 * waits for it the daemon is not read, and its end not seen: that has a time as well, which is
 * longer than the daemon's own. */
static void set_time(struct tls_session *s, bool taken)
{
	bool waits = s->outer.out.len;
	uint64_t now = clock_us();

	if (s->inner.eof && !s->ending)
		loop_at(s->h->loop, &s->timer, now + CLOSE_US);
	else if (!s->inner.eof && (taken || !waits || !s->timer.at))
		loop_at(s->h->loop, &s->timer, waits ? now + STUCK_US : 0);
	s->ending = s->inner.eof;
}

static void tls_main_pass(struct tls_session *s)
{
	struct loop *l = s->h->loop;
	bool moved, by_daemon = false, by_caller = false;

	do {
		moved = carry(&s->outer, &s->inner, &by_daemon);
		moved |= carry(&s->inner, &s->outer, &by_caller);
	} while (moved);
	(void)pass_end(&s->outer, &s->inner, &s->told_inner);
	set_time(s, by_caller);
	(void)pass_end(&s->inner, &s->outer, &s->told_outer);
	if (s->outer.broken || s->inner.broken || (s->told_inner && s->told_outer) ||
	    link_wait(l, &s->outer, !link_full(&s->inner)) < 0 ||
	    link_wait(l, &s->inner, !link_full(&s->outer)) < 0)
		session_end(s);
}

static void on_inner(struct loop_watch *w, uint32_t events UNUSED)
{
	tls_main_pass(CONTAINER_OF(w, struct tls_session, inner.w));
}

/* The handshake is done: the daemon gets the other end. */
static int hand_over(struct tls_session *s)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	r = fd_send(TLS_CHANNEL, "c", 1, &pair[1], 1);
	(void)close(pair[1]);
	if (r < 0) {
		(void)close(pair[0]);
		return r;
	}
	link_init(&s->inner, pair[0], on_inner);
	unlist(s);
	loop_at(s->h->loop, &s->timer, 0);
	s->passing = true;
	return 0;
}

static void on_outer(struct loop_watch *w, uint32_t events UNUSED)
{
	struct tls_session *s = (struct tls_session *)w;
	int r;

	if (s->passing) {
		tls_main_pass(s);
		return;
	}
	r = link_handshake(&s->outer);
	if (r == 1)
		r = hand_over(s);
	else if (r == 0)
		r = link_wait(s->h->loop, &s->outer, true) < 0 ? -ENOMEM : 1;
	if (r < 0)
		session_end(s);
	else if (s->passing)
		tls_main_pass(s);
}

static void drop_oldest(struct tls_host *h)
{
	struct tls_session *s = h->shaking;

	while (s && s->next)
		s = s->next;
	if (s)
		session_end(s);
}

static void session_begin(struct tls_host *h, int fd)
{
	struct tls_session *s = calloc(1, sizeof(*s));
	SSL *ssl = s ? SSL_new(h->ctx) : NULL;

	if (!ssl) {
		free(s);
		(void)close(fd);
		return;
	}
	if (h->shaking_count >= SHAKING_MAX || h->shaking_count >= h->most / 2)
		drop_oldest(h);
	s->h = h;
	s->timer.due = on_time;
	s->inner.fd = -1;
	link_init(&s->outer, fd, on_outer);
	s->next = h->shaking;
	s->link = &h->shaking;
	if (s->next)
		s->next->link = &s->next;
	h->shaking = s;
	h->shaking_count++;
	if (++h->sessions == h->most)
		(void)loop_want(h->loop, &h->accepts, 0);
	loop_at(h->loop, &s->timer, clock_us() + SHAKE_US);
	SSL_set_accept_state(ssl);
	if (link_tls(&s->outer, ssl) < 0 || link_wait(h->loop, &s->outer, true) < 0)
		session_end(s);
}

static void on_knock(struct loop_watch *w, uint32_t events UNUSED)
{
	struct tls_host *h = (struct tls_host *)w;

	for (int i = 0; i < AT_ONCE && h->sessions < h->most; i++) {
		int one = 1, fd = accept4(TLS_LISTENER, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
		session_begin(h, fd);
	}
}

/* The daemon says nothing; its end of the channel closes when it ends. */
static void on_channel(struct loop_watch *w, uint32_t events UNUSED)
{
	loop_stop(CONTAINER_OF(w, struct tls_host, channel)->loop);
}

/* ---- the beginning ---- */

static int no_phrase(char *out UNUSED, int n UNUSED, int writing UNUSED, void *arg UNUSED)
{
	return 0;
}

static const char *take_chain(SSL_CTX *ctx)
{
	BIO *b = BIO_new_fd(TLS_CERT, BIO_CLOSE);
	X509 *own = b ? PEM_read_bio_X509_AUX(b, NULL, no_phrase, NULL) : NULL;
	const char *why = own && SSL_CTX_use_certificate(ctx, own) == 1
				  ? NULL
				  : "--tls-cert: there is no certificate in it (PEM)";

	X509_free(own);
	for (;;) {
		X509 *next = why ? NULL : PEM_read_bio_X509(b, NULL, no_phrase, NULL);

		if (!next)
			break;
		if (SSL_CTX_add0_chain_cert(ctx, next) != 1) {
			X509_free(next);
			why = "--tls-cert: its chain cannot be used";
		}
	}
	ERR_clear_error(); /* the end of the file is one */
	BIO_free(b);
	return why;
}

static const char *take_key(SSL_CTX *ctx)
{
	BIO *b = BIO_new_fd(TLS_KEY, BIO_CLOSE);
	EVP_PKEY *key = b ? PEM_read_bio_PrivateKey(b, NULL, no_phrase, NULL) : NULL;
	const char *why = NULL;

	if (!key)
		why = "--tls-key: there is no private key in it (PEM, without a passphrase)";
	else if (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1)
		why = "--tls-key: it is not the key of the certificate";
	EVP_PKEY_free(key);
	BIO_free(b);
	ERR_clear_error();
	return why;
}

static const char *open_context(SSL_CTX **ret)
{
	SSL_CTX *ctx = tls_context(true);
	const char *why;

	*ret = ctx;
	if (!ctx)
		return "no memory for TLS";
	why = take_chain(ctx);
	if (!why)
		why = take_key(ctx);
	/* Nothing of one connection is kept for the next. */
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
	(void)SSL_CTX_set_num_tickets(ctx, 0);
	return why;
}

/* Each has two descriptors: a listener that cannot accept would be told of its callers for ever. */
static size_t most_sessions(void)
{
	struct rlimit files;
	rlim_t most = CONFINE_FILES;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < most)
		most = files.rlim_max;
	most = most > 2 * OWN_FILES ? (most - OWN_FILES) / 2 : 1;
	return most < SESSIONS_MAX ? (size_t)most : SESSIONS_MAX;
}

static int tls_main_refuse(const char *why)
{
	(void)fd_send(TLS_CHANNEL, why, strlen(why), NULL, 0);
	return 1;
}

int main(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct tls_host h = { .accepts = { .fd = TLS_LISTENER, .ready = on_knock },
			      .channel = { .fd = TLS_CHANNEL, .ready = on_channel } };
	struct err e = { 0 };
	const char *why;

	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (confine_early(&e) < 0 || loop_new(&h.loop, &e) < 0)
		return tls_main_refuse(e.what);
	h.most = most_sessions();
	why = open_context(&h.ctx);
	if (why)
		return tls_main_refuse(why);
	if (confine(CONFINE_TLS, NULL, &e) < 0)
		return tls_main_refuse(e.what);
	if (fd_send(TLS_CHANNEL, "", 1, NULL, 0) < 0 ||
	    loop_want(h.loop, &h.channel, EPOLLIN) < 0 ||
	    loop_want(h.loop, &h.accepts, EPOLLIN) < 0)
		return 1;
	loop_run(h.loop, NULL, NULL);
	return 0;
}
