/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/prompt.h - one question to the person at the terminal, and the reading of the answer.
 *
 * Pure: bytes and times in, an answer out. What was typed before the question could be read does
 * not count: bytes count only after PROMPT_QUIET_US without any, and an escape, with which every
 * key that is no letter and every report of a terminal begins, starts that time anew. A "yes" is a
 * whole word and Enter, which no report has in it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"

#define PROMPT_QUIET_US ((uint64_t)500 * 1000)

enum prompt_word { PROMPT_NONE, PROMPT_NO, PROMPT_ONCE, PROMPT_RUN, PROMPT_ALWAYS, PROMPT_YES };

struct prompt {
	bool confirms; /* what is asked is only whether to write the change that was shown */
	uint64_t from; /* bytes count from then on */
	bool told;     /* that some did not count; or they were no letters */
	char line[16];
	size_t n;
};

/* What is asked: the name as the resolver will see it, whole, and what it belongs to. */
void prompt_text(const char *host, unsigned port, unsigned further, struct buf *out);

void prompt_begin(struct prompt *p, bool confirms, uint64_t now);
/* What was typed before it was shown is gone: said once, in *echo. */
void prompt_dropped(struct prompt *p, struct buf *echo);
/* What was typed at `now`; *echo gets what is to be shown of it. */
enum prompt_word prompt_type(struct prompt *p, const char *data, size_t n, uint64_t now,
			     struct buf *echo);
