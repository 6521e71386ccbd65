/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/story.h - the records of one run, told in order: what was asked, what contained it,
 * what it tried, how it ended. Pure: into a buffer, safe on a terminal. */
#pragma once

#include "audit/read/entry.h"
#include "base/text/buf.h"

struct story {
	struct buf *out;
	int64_t began; /* time of the first record */
	uint64_t records, denials, first, last;
	bool told_head, told_layers, within;
	/* Told last, whenever it is learned. */
	struct buf events, end;
};

void story_begin(struct story *s, struct buf *out);
void story_entry(struct story *s, const struct entry *en); /* oldest first */
void story_end(struct story *s); /* writes the rest and frees what the story holds */
