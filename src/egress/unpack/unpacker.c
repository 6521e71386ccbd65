/* SPDX-License-Identifier: Apache-2.0 */
/* egress/unpack/unpacker.c - the process that unpacks what the worker hands it, and knows nothing
 * else: it was forked before there was anything to know. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys/sanitized.h"
#include "egress/unpack/unpack_line.h"
#include "proc/confine.h"

#define MEMORY_ALL ((size_t)192 << 20) /* of all libraries together */
#define MEMORY_DATA ((rlim_t)1 << 30)

struct unpacker {
	int line;
	struct codec_pool memory;
	struct peel *streams[UNPACK_STREAMS];
	uint32_t at; /* the stream at hand */
	bool stopped;
	char in[UNPACK_PIECE];
};

static int unpacker_send(struct unpacker *u, struct unpack_told *t, const char *p)
{
	struct iovec v[] = { { t, sizeof(*t) }, { (void *)(uintptr_t)p, t->n } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	ssize_t n;

	t->stream = u->at;
	do
		n = sendmsg(u->line, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)(sizeof(*t) + t->n) ? 0 : -EPIPE;
}

/* Does the worker want no more of this? Nothing else can be on the line now. */
static bool unpacker_hears_stop(struct unpacker *u)
{
	struct unpack_ask q;

	if (recv(u->line, &q, sizeof(q), MSG_DONTWAIT) == (ssize_t)sizeof(q) &&
	    q.word == UNPACK_STOP)
		u->stopped = true;
	return u->stopped;
}

static int unpacker_tell(void *arg, const struct peel_piece *piece)
{
	struct unpacker *u = arg;
	size_t at = 0;

	do {
		size_t k = piece->n - at < UNPACK_PIECE ? piece->n - at : UNPACK_PIECE;
		struct unpack_told t = { .said = UNPACK_TEXT,
					 .n = (uint32_t)k,
					 .depth = (uint8_t)piece->depth,
					 .begins = piece->begins && !at,
					 .ends = piece->ends && at + k == piece->n,
					 .is = (uint8_t)piece->is };

		if (unpacker_hears_stop(u))
			return -ECANCELED;
		if (unpacker_send(u, &t, piece->p + at) < 0)
			return -ECANCELED;
		at += k;
	} while (at < piece->n);
	return 0;
}

static int unpacker_open(struct unpacker *u, const struct unpack_ask *q)
{
	struct peel_want w = { .n_codings = q->n_codings, .depth = q->depth, .memory = &u->memory };

	if (u->streams[q->stream] || q->n_codings > PEEL_CODINGS || q->depth > PEEL_DEPTH)
		return -EINVAL;
	for (size_t i = 0; i < q->n_codings; i++) {
		if (q->codings[i] >= PACKINGS)
			return -EINVAL;
		w.codings[i] = (enum packed_as)q->codings[i];
	}
	u->streams[q->stream] = peel_new(&w);
	return u->streams[q->stream] ? 0 : -ENOMEM;
}

static int unpacker_feed(struct unpacker *u, struct unpack_ask *q, struct unpack_told *t)
{
	struct peel *e = u->streams[q->stream];
	int r;

	if (!e)
		return -EINVAL;
	u->stopped = false;
	r = peel_feed(e, u->in, q->n, q->word == UNPACK_LAST, &q->spent, unpacker_tell, u);
	t->unreadable = (uint8_t)peel_unreadable(e);
	t->idle = peel_idle(e);
	t->spent = q->spent;
	return r;
}

/* false: whoever asks is no worker. */
static bool unpacker_answer(struct unpacker *u, struct unpack_ask *q)
{
	struct unpack_told t = { .said = UNPACK_DONE };

	u->at = q->stream;
	if (q->word == UNPACK_STOP) /* it came too late */
		return true;
	if (q->stream >= UNPACK_STREAMS)
		return false;
	if (q->word == UNPACK_CLOSE) {
		u->streams[q->stream] = peel_free(u->streams[q->stream]);
		return true;
	}
	if (q->word > UNPACK_LAST)
		return false;
	t.status = q->word == UNPACK_OPEN ? unpacker_open(u, q) : 0;
	if (q->word != UNPACK_OPEN)
		t.status = unpacker_feed(u, q, &t);
	return unpacker_send(u, &t, NULL) == 0;
}

static void unpacker_serve(struct unpacker *u)
{
	struct unpack_ask q;
	struct iovec v[] = { { &q, sizeof(q) }, { u->in, sizeof(u->in) } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	for (;;) {
		ssize_t n;

		do
			n = recvmsg(u->line, &m, 0);
		while (n < 0 && errno == EINTR);
		if (n < (ssize_t)sizeof(q) || (size_t)n - sizeof(q) != q.n ||
		    !unpacker_answer(u, &q))
			return;
	}
}

int unpacker_main(int line)
{
	static struct unpacker u = { .memory = { .most = MEMORY_ALL } };
	struct err e = { 0 };

	u.line = line;
#if !SANITIZED
	(void)setrlimit(RLIMIT_DATA, &(struct rlimit){ MEMORY_DATA, MEMORY_DATA });
#endif
	if (confine(CONFINE_KEEPER, NULL, &e) < 0)
		return 1;
	unpacker_serve(&u);
	return 0;
}
