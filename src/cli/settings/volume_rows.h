/* SPDX-License-Identifier: Apache-2.0 */
/* cli/settings/volume_rows.h - caches of tools and volumes, as `brig cache` and `brig volume` list
 * and remove them. */
#pragma once

#include <time.h>

#include "base/bytes/json.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "sandbox/home/volumes.h"

/* A size for people, nine wide; `more`: nobody counted on. */
void volume_put_size(struct buf *b, uint64_t bytes, bool more);
/* A moment, as JSON has it; "-" for none. */
void volume_when(time_t t, char out[32]);

/* As a table behind what `b` has, with a head of its own; nothing where there is none. */
int volume_rows_text(enum volume_kind kind, struct buf *b, struct err *e);
/* As the array `name`. */
int volume_rows_json(enum volume_kind kind, const char *name, struct json *j, struct err *e);

/* Which ones are removed: those of a name, or one by the beginning of its id (NULL: any), that no
 * run began with since `before` (0: whenever). */
struct volume_pick {
	const char *name;
	time_t before;
};

struct volume_removed {
	size_t cleared, left;
};

/* The first that could not be removed is told; the others are removed all the same. What is removed
 * and left is added to *ret. */
int volume_remove(enum volume_kind kind, const struct volume_pick *pick, struct volume_removed *ret,
		  struct err *e);
