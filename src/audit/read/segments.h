/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/segments.h - the record's files, line by line, while others append to them.
 *
 * Read with pread and never mapped: a tail that is cut meanwhile is a short read, not a signal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"

struct segments {
	uint32_t *numbers; /* ascending */
	size_t count;
};

/* 0 with none at all when the folder holds no segment. */
int segments_list(int dirfd, struct segments *ret, struct err *e);
static inline void cleanup_segments(struct segments *s)
{
	free(s->numbers);
}
bool segments_next(const struct segments *s, uint64_t after, uint64_t *ret);
int segment_open(int dirfd, uint64_t number); /* for reading; a descriptor or -errno */

struct lines;

/* Reads the whole lines of fd from offset `at` on; fd is borrowed. NULL without memory. */
struct lines *lines_new(int fd, uint64_t at);
struct lines *lines_free(struct lines *l);
DEFINE_CLEANUP(lines, struct lines *, lines_free)

/* 1: a line without its newline, valid until the next call; p is NULL for one that is too long to
 * be a record. 0: no whole line is left for now; a later call looks again. -errno. */
int lines_next(struct lines *l, const char **p, size_t *n);
uint64_t lines_at(const struct lines *l); /* where the next line begins */
