/* SPDX-License-Identifier: Apache-2.0 */
/* wire/link.h - one end of a connection: a non-blocking stream, plain or TLS, with bounded room in
 * front of it both ways.
 *
 * A link decides nothing and calls nobody: its owner fills, takes, adds and flushes until nothing
 * moves, then says with link_wait what to wake up for. The buffers exist only while they hold
 * something. Links that come and go by the thousand share a pool, in which such room is kept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/sys/loop.h"
#include "wire/tls.h"

enum {
	FLOW_READ = 16384,        /* taken from a socket at once */
	FLOW_FULL = 65536,        /* no more is read, or should be added, beyond */
	FLOW_MAX = 8 * FLOW_FULL, /* what adding can never exceed */
};

struct spare;

struct flow {
	char *data;
	size_t at, len, cap; /* data[at] is the first of len bytes */
};

enum {
	POOL_SIZES = 4,  /* of room: FLOW_READ and its doubles */
	POOL_KEEPS = 16, /* of each */
	POOL_WARM = 128, /* links */
};

/* What links share, beside which nothing of them is kept: room that one has no use for is the next
 * one's, and the links that waited last keep what TLS reads and writes in. All others give it back,
 * so that a thousand that wait cost little. */
struct link_pool {
	struct spare *spare[POOL_SIZES];
	unsigned n_spare[POOL_SIZES];
	struct link *first, *last; /* the warm ones; `first` waited last */
	unsigned n_warm;
};

struct link {
	struct loop_watch w; /* must stay first: the owner finds itself through it */
	int fd;              /* owned; -1: closed */
	struct transport t;  /* what is read and written: the socket, or TLS over it */
	struct tls *tls;     /* owned; NULL: plain */
	struct tls *under;   /* owned; below `tls`, to somebody on the way; NULL: the socket is */
	struct flow in, out;
	struct flow early; /* read before TLS began, and TLS's to read first */
	bool handshaken, eof, broken;
	bool read_wants_write, write_wants_read;
	bool drained; /* nothing more can be read before the loop tells of news */
	bool stuck;   /* what was to be sent last did not leave; at first nothing was */
	bool follows; /* more is about to be sent: a small packet would be one too many */
	watch_fn *ready;
	struct link_pool *pool; /* borrowed; NULL: it shares nothing */
	struct link *warmer, *colder;
	bool warm;
};

void link_init(struct link *l, int fd, watch_fn *ready);
void link_share(struct link *l, struct link_pool *p); /* of an initialised one; p outlives it */
void link_pool_done(struct link_pool *p);
void link_done(struct loop *loop, struct link *l); /* closes, frees; may be called again */

/* Everything below keeps to what is possible without waiting. */
size_t link_fill(struct link *l);  /* one read: bytes that came; sets eof or broken */
size_t link_flush(struct link *l); /* bytes that left */
size_t link_push(struct link *l);  /* the same, whole records alone: more is about to be added */
bool link_add(struct link *l, const void *p, size_t n); /* false: broken (no memory, too much) */
void link_take(struct link *l, size_t n);               /* n bytes of `in` are used up */
static inline const char *link_data(const struct link *l)
{
	return l->in.data ? l->in.data + l->in.at : "";
}
static inline bool link_full(const struct link *l)
{
	return l->out.len >= FLOW_FULL;
}

/* What was read so far becomes TLS's. The link owns ssl from here on, also on failure. */
int link_tls(struct link *l, SSL *ssl);
/* The same inside TLS whose handshake is done; with what was read beyond that it fails. */
int link_tls_within(struct link *l, SSL *ssl);
int link_handshake(struct link *l);   /* 1 done, 0 not yet, -EPROTO */
void link_half_close(struct link *l); /* no more is sent: FIN, and close_notify before it */

/* Nothing lies between the two sides, in either direction: not a byte was read too many. */
bool link_clean(const struct link *l);

/* Waits for bytes, `reading`: the owner could take more; and for room, if the last flush found
 * none: whoever adds and does not flush must come back of itself. */
int link_wait(struct loop *loop, struct link *l, bool reading);
