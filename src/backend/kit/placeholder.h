/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/placeholder.h - empty folders that hold a protected name for as long as a run lasts.
 *
 * Made and removed at every run they cost more than the sandbox's mounts: a file system does not
 * like to give out an inode that was freed a moment ago. So brig keeps a few spare ones and moves
 * them in and out; where that cannot be done (another file system), they are made and removed.
 * All of it happens under the journal's lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* The spare ones, looked at once for all names of a run. */
struct spares {
	int folder; /* brig's own; borrowed */
	int dir;    /* where they are; opened when the first is wanted */
	size_t n;
	unsigned long long name[32]; /* the number of its inode is its name */
};

#define SPARES_INIT(own)                                                                           \
	{                                                                                          \
		.folder = (own), .dir = -1                                                         \
	}
static inline void cleanup_spares(struct spares *s)
{
	s->dir = fd_close(s->dir);
}

/* Puts one at `name` in `dir`; 0 or -errno (-EEXIST: something is there). */
int placeholder_put(struct spares *s, int dir, const char *name);

/* The same for a place that a file is mounted on: an empty file nobody may open, by which it is
 * known again. */
int placeholder_file(int dir, const char *name);
void placeholder_file_take(int dir, const char *name);

bool placeholder_is(int dir, const char *name); /* still there, still empty */

/* Takes it away again; false when it is not an empty folder (any more). */
bool placeholder_take(struct spares *s, int dir, const char *name);
