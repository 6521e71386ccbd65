/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/shared/left_out.h - what an archive of a sandbox's files has not: how that is said over
 * HTTP.
 *
 *     Brig-Left-Out: 3 pipe sub/link
 *
 * A field behind the archive, since nobody knows before: how many things, and the first of their
 * names with "%XX" for whatever is no letter, digit or one of /-_.~+@=,: . Names are a guest's own
 * bytes. */
#pragma once

#include "base/text/buf.h"

#define LEFT_OUT_FIELD "Brig-Left-Out"

/* names: each with a NUL behind it, n bytes in all; what has none is passed over. */
void left_out_put(struct buf *b, uint64_t count, const char *names, size_t n);
/* How many; 0: none, or this is not such a value. *names (may be NULL) gets the names as above. */
uint64_t left_out_read(const char *p, size_t n, struct buf *names);
