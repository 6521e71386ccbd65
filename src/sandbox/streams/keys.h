/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/streams/keys.h - the way out of a terminal that the command has for its own.
 *
 * There every key goes to the command, which may ignore it. Control and backslash three times, each
 * within a second of the one before, is brig's. A program can teach a terminal to send keys as
 * sequences: those of this key are known, too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keys {
	unsigned times;
	uint64_t last;     /* microseconds */
	char sequence[24]; /* that has begun, from behind ESC [ */
	size_t len;
	enum { KEYS_PLAIN, KEYS_ESCAPE, KEYS_SEQUENCE } state;
};

/* What was typed at `now`: does it ask to leave? */
bool keys_leave(struct keys *k, const char *data, size_t n, uint64_t now);
