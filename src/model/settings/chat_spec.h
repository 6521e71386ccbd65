/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/chat_spec.h - the model that a role talks to, and what a conversation with it may
 * cost. Plain data, borrowed from the spec that holds it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/settings/lists.h"

struct chat_spec {
	const char *provider, *name; /* NULL: the role says nothing of a model */
	const char *base_url;        /* NULL: the provider's own */
	const char *key;             /* the variable with the key; NULL: the provider's */
	bool url_given;              /* base_url is the caller's own, and not the role's */
	const char *prompt;          /* the role's own words to the model; NULL: none */
	uint64_t temperature;        /* thousandths */
	uint64_t answer_tokens;      /* of one answer */
	/* Bounds of one run; 0: none. */
	uint64_t out_tokens, in_tokens, tokens, calls, requests, timeout,
		cost; /* thousandths of USD */
	uint64_t prompt_chars;
	bool shell, python; /* tools that the role has */
	bool confirm;       /* written: somebody is to be asked before a command is run */
	const char
		*slip; /* a key that looks like another; NULL: none. Told by who asks the model */
	struct strlist other; /* types of its tools that are not served */
};
