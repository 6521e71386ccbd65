/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/upway.h - an exchange's way to its host, once a connection is open, and the few
 * things it needs of it: what downstream.h is on the other side.
 *
 * A connection of HTTP/1 is one, for one exchange after another; of a connection that carries many
 * at once every stream would be one. How a request is framed, and where an answer ends, is the
 * way's alone. */
#pragma once

#include "base/text/err.h"
#include "wire/http1.h"

struct link;
struct upway;

/* A request's head, borrowed for the call: as HTTP/1 writes it, whatever is spoken. */
struct up_head {
	struct http1_text text;
	enum http1_asked asked;
	bool body;
	bool chunked; /* which has no length */
};

enum up_read {
	UP_READ_NOTHING, /* yet */
	UP_READ_MOVED,   /* some came: ask again */
	UP_READ_THERE,
	UP_READ_END,  /* of a body, which is whole */
	UP_READ_LOST, /* nothing came, and nothing will: the request may never have been seen */
	UP_READ_BAD,  /* broken, or cut short; *e says how */
};

struct up_answer {
	struct http1_answer head;
	size_t n; /* bytes of it that came */
};

struct up_piece {
	struct http1_text data;     /* maybe none of it */
	size_t n;                   /* bytes that came, with those around the data */
	struct http1_text trailers; /* with UP_READ_END: lines */
};

struct upway_ops {
	void (*head)(struct upway *w, const struct up_head *h);
	void (*body)(struct upway *w, const char *p, size_t n);
	/* Of the request's body, which there was; lines of trailers, where they can be said. */
	void (*end)(struct upway *w, struct http1_text trailers);
	bool (*full)(const struct upway *w); /* no more of a body, please */
	/* The next head of an answer: 1xx are heads of their own. It is good until the next call.
	 */
	enum up_read (*answer)(struct upway *w, struct up_answer *ret, struct err *e);
	/* The next bytes of the last one's body, `most` at a time; likewise. */
	enum up_read (*piece)(struct upway *w, size_t most, struct up_piece *ret, struct err *e);
	/* What is to be flushed and waited for, with everything in it that can leave. */
	struct link *(*link)(struct upway *w);
	/* Over, and gone with this call. `whole`: request and answer; else the host is told to
	 * stop. */
	void (*done)(struct upway *w, bool whole);
};

struct upway {
	const struct upway_ops *ops;
};
