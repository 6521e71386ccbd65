/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/unpack/unpack_side.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/files/fd.h"
#include "proc/confine.h"
#include "proc/forked.h"

#define PATIENCE_S                                                                                 \
	20 /* two of them are the processor's, of a machine that does other things, too */

struct unpack_side {
	int line; /* -1: it is gone */
	uint32_t next, n_free;
	uint32_t unused[UNPACK_STREAMS]; /* numbers that were given back */
	char in[UNPACK_PIECE];
};

static int unpack_child(void *arg, int line)
{
	struct err *e = arg;
	int keep[] = { line };

	return fd_close_except(3, keep, 1) < 0 || confine_early(e) < 0 ? 1 : unpacker_main(line);
}

struct unpack_side *unpack_on(int line)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct unpack_side *u = calloc(1, sizeof(*u));

	if (!u || setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    setsockopt(line, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0) {
		(void)fd_close(line);
		free(u);
		return NULL;
	}
	u->line = line;
	return u;
}

int unpack_start(struct unpack_side **ret, struct err *e)
{
	const struct forked_want w = { .name = "brig-unpacker",
				       .what = "the unpacker",
				       .line = FORKED_PACKETS,
				       .run = unpack_child,
				       .arg = e };
	int line;
	pid_t pid = forked_start(&w, &line, e);

	if (pid < 0)
		return (int)pid;
	*ret = unpack_on(line);
	return *ret ? 0 : err_nomem(e);
}

struct unpack_side *unpack_free(struct unpack_side *u)
{
	if (!u)
		return NULL;
	(void)fd_close(u->line);
	free(u);
	return NULL;
}

/* ---- the line ---- */

static int unpack_gone(struct unpack_side *u)
{
	u->line = fd_close(u->line);
	return -EPIPE;
}

static int unpack_say(struct unpack_side *u, const struct unpack_ask *q, const char *p)
{
	struct iovec v[] = { { (void *)(uintptr_t)q, sizeof(*q) }, { (void *)(uintptr_t)p, q->n } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	ssize_t n;

	if (u->line < 0)
		return -EPIPE;
	do
		n = sendmsg(u->line, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)(sizeof(*q) + q->n) ? 0 : unpack_gone(u);
}

/* One packet about the stream. It is not believed: what does not fit is the end of the line. */
static int unpack_hear(struct unpack_side *u, uint32_t stream, struct unpack_told *t)
{
	struct iovec v[] = { { t, sizeof(*t) }, { u->in, sizeof(u->in) } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	ssize_t n;

	do
		n = recvmsg(u->line, &m, 0);
	while (n < 0 && errno == EINTR);
	if (n < (ssize_t)sizeof(*t) || (size_t)n - sizeof(*t) != t->n || t->stream != stream ||
	    t->said > UNPACK_DONE || t->unreadable >= UNREADABLES || t->is > CONTENT_CODE ||
	    t->depth > PEEL_DEPTH + PEEL_CODINGS || t->status > 0 || t->status < -4095)
		return unpack_gone(u);
	return 0;
}

/* ---- streams ---- */

static int unpacking_lost(struct unpack_body *s)
{
	s->unreadable = UNREADABLE_GONE;
	s->idle = true;
	return -EPIPE;
}

int unpacking_new(struct unpack_side *u, const struct unpack_want *w, struct peel_spent *spent,
		  struct unpack_body **ret)
{
	struct unpack_ask q = { .word = UNPACK_OPEN,
				.n_codings = (uint8_t)w->n_codings,
				.depth = w->depth };
	struct unpack_body *s = calloc(1, sizeof(*s));
	struct unpack_told t;

	if (!s)
		return -ENOMEM;
	s->u = u;
	s->spent = spent;
	s->stream = UNPACK_STREAMS;
	*ret = s;
	if (!u->n_free && u->next == UNPACK_STREAMS) {
		s->unreadable = UNREADABLE_MEMORY;
		s->idle = true;
		return 0;
	}
	s->stream = u->n_free ? u->unused[--u->n_free] : u->next++;
	q.stream = s->stream;
	for (unsigned i = 0; i < w->n_codings; i++)
		q.codings[i] = (uint8_t)w->codings[i];
	if (unpack_say(u, &q, NULL) < 0 || unpack_hear(u, s->stream, &t) < 0) {
		(void)unpacking_lost(s);
	} else if (t.said != UNPACK_DONE || t.status < 0) {
		s->unreadable = UNREADABLE_MEMORY;
		s->idle = true;
	}
	return 0;
}

struct unpack_body *unpacking_free(struct unpack_body *s)
{
	const struct unpack_ask q = { .word = UNPACK_CLOSE, .stream = s ? s->stream : 0 };

	if (!s)
		return NULL;
	if (s->stream < UNPACK_STREAMS) {
		(void)unpack_say(s->u, &q, NULL);
		s->u->unused[s->u->n_free++] = s->stream;
	}
	free(s);
	return NULL;
}

/* Until it is done; what comes after `told` wanted no more is not looked at. */
static int unpacking_hears(struct unpack_body *s, unpacking_told *told, void *arg)
{
	const struct unpack_ask stop = { .word = UNPACK_STOP, .stream = s->stream };
	struct unpack_told t;
	int r = 0;

	for (;;) {
		struct peel_piece piece;

		if (unpack_hear(s->u, s->stream, &t) < 0)
			return r < 0 ? r : unpacking_lost(s);
		if (t.said == UNPACK_DONE)
			break;
		if (r < 0)
			continue;
		piece = (struct peel_piece){ .depth = t.depth,
					     .begins = t.begins,
					     .ends = t.ends,
					     .is = (enum content_class)t.is,
					     .p = s->u->in,
					     .n = t.n };
		r = told(arg, &piece, s->u->in);
		if (r < 0)
			(void)unpack_say(s->u, &stop, NULL);
	}
	*s->spent = t.spent;
	s->idle = t.idle;
	if (t.unreadable)
		s->unreadable = (enum unreadable)t.unreadable;
	return r < 0 ? r : t.status;
}

int unpacking_feed(struct unpack_body *s, const char *p, size_t n, bool last, unpacking_told *told,
		   void *arg)
{
	int r = 0;

	if (s->stream == UNPACK_STREAMS || s->u->line < 0)
		return s->unreadable ? -EPIPE : unpacking_lost(s);
	do {
		size_t k = n < UNPACK_PIECE ? n : UNPACK_PIECE;
		const struct unpack_ask q = { .word = last && k == n ? UNPACK_LAST : UNPACK_FEED,
					      .stream = s->stream,
					      .n = (uint32_t)k,
					      .spent = *s->spent };

		r = unpack_say(s->u, &q, p) < 0 ? unpacking_lost(s) : unpacking_hears(s, told, arg);
		p += k;
		n -= k;
	} while (r == 0 && n);
	return r;
}
