/* SPDX-License-Identifier: Apache-2.0 */
/* apps/chat/chat_loop.h - a conversation with a model that calls tools, within bounds.
 *
 * Prompt -> request -> answer -> calls -> results -> request ... until an answer calls nothing, a
 * bound is reached, somebody interrupts, or something fails. The model's words decide nothing but
 * which of the offered tools is called with what: what a tool may do is the user's spec. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "apps/chat/chat_events.h"
#include "apps/chat/chat_history.h"
#include "apps/chat/chat_line.h"
#include "apps/toolset/tools.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"

/* Who is told; every function may be NULL. Nothing of the texts is clean. */
struct chat_listener {
	chat_text_fn *text;                                  /* of an answer, as it comes */
	void (*answered)(void *arg);                         /* an answer is whole */
	void (*calls)(void *arg, const struct chat_call *c); /* before the tool begins */
	/* true: go ahead. Asked where the role wants it. */
	bool (*confirm)(void *arg, const struct chat_call *c);
	void (*result)(void *arg, const struct chat_call *c, const struct tool_result *r);
	void *arg;
};

/* What prompts have come to so far. */
struct chat_report {
	uint64_t turns, calls, failed, denied, in_tokens, out_tokens;
	uint64_t spent;    /* billionths of a USD */
	char stopped[160]; /* by which bound; "": the model had its say */
	struct buf text;   /* the last answer */
};

struct chat_prices {
	uint64_t in, out; /* thousandths of USD for a million tokens; both 0: not known */
};

struct chat;

/* Everything is borrowed. `tools` may be NULL: none are offered. */
struct chat_with {
	const struct spec *spec;
	struct chat_line *line;
	struct tools *tools;
	struct loop *loop; /* of the tools */
	struct chat_history *history;
	struct chat_prices prices;
	int signals; /* a descriptor that is readable when somebody interrupts */
	struct chat_listener to;
};

int chat_new(const struct chat_with *w, struct chat **ret, struct err *e);
struct chat *chat_free(struct chat *c);
DEFINE_CLEANUP(chat, struct chat *, chat_free)

/* Says something and sees it through. The bounds hold for each prompt. -EINTR: interrupted. The
 * history is kept in its file whatever happens. */
int chat_say(struct chat *c, const char *prompt, struct err *e);
const struct chat_report *chat_report(const struct chat *c);
