/* SPDX-License-Identifier: Apache-2.0 */
/* apps/chat/chat_events.h - a model's answer, put together from the pieces of its stream.
 *
 * What comes is an OpenAI-compatible answer: server-sent events with chunks of JSON, or one JSON
 * object where the server does not stream. It is a stranger's text: every part has a bound, and
 * what breaks one, or is no JSON, is an error. Pure: no socket, no clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"

enum {
	CHAT_CALLS_MAX = 64,
	CHAT_NAME_SIZE = 65,
	CHAT_ID_SIZE = 129,
	CHAT_EVENT_MAX = 1 << 20,   /* one event of the stream, or the answer as one object */
	CHAT_TEXT_MAX = 4 << 20,    /* of the answer */
	CHAT_ARGS_MAX = 1 << 20,    /* of all its calls */
	CHAT_STREAM_MAX = 64 << 20, /* on the wire */
};

/* A tool that the model asks for. */
struct chat_call {
	char id[CHAT_ID_SIZE], name[CHAT_NAME_SIZE];
	struct buf args; /* JSON, if the model keeps its word */
};

struct chat_answer {
	struct buf text;
	struct chat_call calls[CHAT_CALLS_MAX];
	size_t n_calls;
	size_t args_len; /* of all calls */
	char finish[32]; /* why it ended, in the server's words; "": it did not say */
	bool counted;    /* the server said what it was */
	uint64_t in_tokens, out_tokens;
};

void chat_answer_done(struct chat_answer *a);
static inline void cleanup_chat_answer(struct chat_answer *a)
{
	chat_answer_done(a);
}

typedef void chat_text_fn(void *arg, const char *p, size_t n); /* valid UTF-8 */

struct chat_events {
	struct chat_answer *to;
	chat_text_fn *text; /* as it comes; may be NULL */
	void *arg;
	struct buf line, data;
	uint64_t seen;
	bool plain;    /* no stream of events: one object */
	bool after_cr; /* a line feed belongs to the line that has ended */
	bool over;     /* the server said so */
};

void chat_events_init(struct chat_events *x, bool plain, struct chat_answer *to, chat_text_fn *text,
		      void *arg);
void chat_events_done(struct chat_events *x);
/* Some bytes of it; -EBADMSG, -EMSGSIZE, or -EREMOTEIO for an error that the server tells. */
int chat_events_feed(struct chat_events *x, const char *p, size_t n, struct err *e);
/* There are no more: an answer without an end is an error. */
int chat_events_end(struct chat_events *x, struct err *e);

/* What a server says of an error in JSON, cut and cleaned; "" if it says nothing. */
void chat_error_text(const char *p, size_t n, char *out, size_t room);
