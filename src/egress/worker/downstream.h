/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/downstream.h - whom an exchange answers, and the few things it needs of them.
 *
 * A connection of HTTP/1 is one, for one exchange after another; of a connection that carries many
 * at once every stream would be one. How an answer is framed is theirs alone.
 *
 * The exchange borrows it. None of these calls may step or free an exchange: whoever owns it looks
 * at exchange_state when the call that it made has come back. */
#pragma once

#include "base/text/buf.h"
#include "egress/rules/verdict.h"
#include "wire/http1.h"

struct downstream;

enum down_body { DOWN_NONE, DOWN_LENGTH, DOWN_STREAM };

/* The head of an answer. Everything is borrowed for the call. */
struct down_head {
	int status; /* 100: the request's body is awaited, the answer follows later */
	struct http1_text reason;
	struct http1_text fields; /* lines that end in CR LF; none of them is about framing */
	enum down_body body;
	uint64_t length; /* with DOWN_LENGTH */
	struct http1_text
		absent; /* what the length of a body would be that HEAD or 304 leave out */
};

/* An answer of the door itself: why not. */
struct down_refusal {
	int status;
	const char *phrase, *reason;
	unsigned retry_after;   /* seconds; 0: not said */
	const struct buf *body; /* JSON */
};

struct downstream_ops {
	/* The answer, in this order. false: it cannot be taken, and nothing more will be. */
	bool (*head)(struct downstream *d, const struct down_head *h);
	bool (*data)(struct downstream *d, const char *p, size_t n);
	bool (*end)(struct downstream *d, struct http1_text trailers); /* lines; maybe none */
	bool (*full)(const struct downstream *d); /* no more data, please, before `run` */
	/* In place of an answer, of which nothing has been sent. */
	void (*refuse)(struct downstream *d, const struct down_refusal *r);
	/* In the middle of one: it must not be taken for whole. */
	void (*reset)(struct downstream *d);
	/* There is news for the exchange: its owner steps it, or soon will. */
	void (*run)(struct downstream *d);
	/* The same, once the monitor knows what was decided. */
	void (*hold)(struct downstream *d);
};

struct shares;

struct downstream {
	const struct downstream_ops *ops;
	struct shares *shares; /* connections of HTTP/2 with hosts; NULL: HTTP/1 is what it gets */
	size_t turn; /* bytes moved since its owner set this to 0: others want their turn as well */
	bool ended;  /* the guest says no more, but may listen */
};

bool downstream_tired(const struct downstream *d); /* it moved a lot: others first */

/* What the door says: a verdict's no, or what went wrong. */
void downstream_deny(struct downstream *d, const struct egress_verdict *v);
void downstream_fail(struct downstream *d, int status, const char *reason, const char *what);
