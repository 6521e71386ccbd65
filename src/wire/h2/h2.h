/* SPDX-License-Identifier: Apache-2.0 */
/* wire/h2/h2.h - one end of a connection of HTTP/2, over libnghttp2: bytes in, bytes out, both
 * roles.
 *
 * No socket and no clock. Heads are given and taken as HTTP/1 writes them, so that one reader
 * (http1.h) says what a head may be, whatever it came in; in that form no name has a capital
 * letter, and no field is about the connection. What RFC 9113 calls malformed ends its stream.
 *
 * Bounded: streams, fields, tables, windows; frames that cost the sender nothing (resets, SETTINGS,
 * PING, empty DATA) have a budget. No push, no CONNECT, no upgrade; priorities are ignored, and no
 * field is ever put into a table of the other side's. */
#pragma once

#include "base/text/buf.h"
#include "wire/http1_request.h"

enum {
	H2_STREAMS_MAX = 100,    /* at a time */
	H2_STREAMS_EVER = 10000, /* of one connection; then it is about to end */
	H2_STREAMS_LATE = 1000,  /* and so many more while the peer has not heard that */
	H2_FIELDS_BYTES = 65536, /* of a head: names, values, and 32 for each field */
	H2_GUEST_WINDOW = 65536, /* of a stream: more than a scan holds back, and a frame */
	H2_HOST_WINDOW = 262144,
	H2_OUT_FULL = 65536,   /* no more should be given, beyond */
	H2_CALM = 1000,        /* frames that cost nothing, at once */
	H2_CALM_A_SECOND = 33, /* and further ones */
};

struct h2;

enum h2_role { H2_SERVER, H2_CLIENT };

/* Bytes that wait, and how many at their beginning have gone. */
struct h2_queue {
	struct buf b;
	size_t at;
};

struct h2_stream {
	void *owner; /* its owner's; while NULL nobody is told */
	/* What came, to be read: */
	bool https;     /* what its head said is the scheme */
	bool disagrees; /* Host and :authority say different things */
	bool bare;      /* the head was all */
	bool ended;     /* the other side has said everything */
	bool closed;    /* it is over, also for nghttp2: only h2_leave may be called */
	bool refused;   /* and was never looked at by the other side */
	/* h2.c's own. */
	struct h2 *h2;
	int id;
	struct h2_stream *next, **at;
	struct h2_queue heads, in, out;
	struct buf fields, cookies, path, trailers, out_trailers;
	char first[HTTP1_METHOD_MAX + 1]; /* of the head that is being read: method or status */
	char host[256];
	size_t host_len, head_bytes, shown, swallowed;
	bool fresh;   /* no head of it was whole yet */
	bool lengthy; /* its head names a length */
	bool out_ended, deferred;
	bool said; /* all of what this side says was sent */
};

struct h2_events {
	void (*opened)(void *arg, struct h2_stream *s); /* a server's: its head is there */
	void (*stirs)(void *arg, struct h2_stream *s);  /* news of one that has an owner */
};

/* NULL: no memory. From an event nothing may be called but h2_leave. */
struct h2 *h2_new(enum h2_role role, const struct h2_events *events, void *arg);
struct h2 *h2_free(struct h2 *h);
DEFINE_CLEANUP(h2, struct h2 *, h2_free)

/* What came; false: the connection is broken, and there is nothing to be said any more. */
bool h2_feed(struct h2 *h, const char *p, size_t n, uint64_t now_us);
/* The next bytes to send, good until the next call; 0: none. */
size_t h2_next(struct h2 *h, const char **p);
bool h2_over(const struct h2 *h);    /* neither side has anything to say */
bool h2_accepts(const struct h2 *h); /* another stream may be opened */
/* Says that no new ones are welcome; over when those that are there are. A server says it twice,
 * and takes new ones until the second time: when its peer has heard the first, or is told again. */
void h2_drain(struct h2 *h);
size_t h2_streams(const struct h2 *h); /* that are open */

/* ---- streams ---- */

/* A client's: sends a head as HTTP/1 writes it. NULL: it cannot be sent. */
struct h2_stream *h2_ask(struct h2 *h, struct http1_text head, bool body, void *owner);
/* Its owner's last word: what is left of it is reset. NULL is taken. */
void h2_leave(struct h2_stream *s);

/* A server's: the head of an answer, its fields as lines. false: it cannot be sent. */
bool h2_answer(struct h2_stream *s, int status, struct http1_text lines, bool body);
bool h2_add(struct h2_stream *s, const char *p, size_t n); /* of the body */
void h2_end(struct h2_stream *s, struct http1_text trailers);
bool h2_full(const struct h2_stream *s);
void h2_cancel(struct h2_stream *s); /* in the middle: it must not be taken for whole */

/* Heads that came and were not dropped, one after another; good until the next call. */
struct http1_text h2_heads(struct h2_stream *s);
void h2_drop_head(struct h2_stream *s, size_t n);
/* Bytes of the body, `most` at a time; they are there until the next call, and only then the other
 * side may send as many again. They may be changed. */
size_t h2_piece(struct h2_stream *s, size_t most, char **p);
/* Lines, once all of the body was taken. */
struct http1_text h2_trailers(const struct h2_stream *s);
