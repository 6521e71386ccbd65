/* SPDX-License-Identifier: Apache-2.0 */
/* egress/unpack/unpack_line.h - what worker and unpacker say to one another: packets, each a head
 * and up to 64 KiB behind it.
 *
 * The worker asks, and hears UNPACK_TEXT any number of times, then UNPACK_DONE. It may say
 * UNPACK_STOP meanwhile, which has no answer of its own. */
#pragma once

#include <stdint.h>

#include "egress/unpack/peel.h"

enum { UNPACK_PIECE = 65536, UNPACK_STREAMS = 8192 };

enum unpack_word { UNPACK_OPEN, UNPACK_FEED, UNPACK_LAST, UNPACK_CLOSE, UNPACK_STOP };

struct unpack_ask {
	uint32_t word, stream, n;
	uint8_t n_codings, codings[PEEL_CODINGS]; /* of UNPACK_OPEN */
	uint32_t depth;
	struct peel_spent spent; /* by this body until now */
};

enum unpack_said { UNPACK_TEXT, UNPACK_DONE };

struct unpack_told {
	uint32_t said, stream, n;
	uint8_t depth, begins, ends, is; /* of UNPACK_TEXT */
	int32_t status;                  /* of UNPACK_DONE: 0 or -errno */
	uint8_t unreadable, idle, unused[2];
	struct peel_spent spent;
};

/* The unpacker's whole life: takes on its role, then serves until the line ends. An exit status. */
int unpacker_main(int line);
