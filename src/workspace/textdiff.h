/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/textdiff.h - what changed between two texts, as unified text.
 *
 * Both may be hostile: the bytes and lines of a side are bounded, and so is the work, after which
 * what is left counts as replaced. Pure: no system call. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"

enum {
	TEXTDIFF_BYTES = 1 << 20, /* of a side */
	TEXTDIFF_LINES = 10000,
	TEXTDIFF_CONTEXT = 3,
};

enum textdiff_is {
	TEXTDIFF_TEXT,   /* the difference is told; it may be empty */
	TEXTDIFF_BINARY, /* a byte is 0 */
	TEXTDIFF_LARGE,  /* beyond the bounds */
};

struct textdiff_side {
	const char *data;
	size_t len;
};

struct textdiff_count {
	uint32_t added, removed; /* lines */
};

/* Appends the hunks to *out (NULL: they are only counted). What it is, or -ENOMEM. */
int textdiff(struct textdiff_side a, struct textdiff_side b, struct buf *out,
	     struct textdiff_count *count);
