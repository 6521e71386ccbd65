/* SPDX-License-Identifier: Apache-2.0 */
/* audit/reader.h - the lines of the record, in order, up to its head.
 *
 * Takes no lock and disturbs no writer. A reader sees what was acknowledged when it was opened or
 * last refreshed, never a part of a line. Retention may remove what a reader stands on: that is
 * -ESTALE, and the reader starts anew at the oldest record. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "audit/head.h"
#include "base/cleanup.h"

struct reader;

/* The next line to read: where, and which record must be there. seq 0: the oldest there is. */
struct position {
	uint64_t seq;
	uint64_t offset;
	uint32_t segment;
};

/* `dir` NULL: brig's own. The key is not needed to read; without it (NULL) the head is taken as it
 * is. -ENOENT: there is no record. */
int reader_open(const char *dir, const struct audit_key *k, struct reader **ret, struct err *e);
struct reader *reader_free(struct reader *r);
DEFINE_CLEANUP(reader, struct reader *, reader_free)

int reader_dirfd(const struct reader *r); /* borrowed */
const char *reader_dir(const struct reader *r);
struct head reader_head(const struct reader *r);
struct head reader_base(const struct reader *r); /* what retention removed; seq 0: nothing */

/* Looks at the head again; 1 when there is more than before, 0, or -errno. */
int reader_refresh(struct reader *r, struct err *e);

/* Go to a place kept from an earlier reader: 0, or -ESTALE when another record is there now. */
int reader_seek(struct reader *r, const struct position *at, struct err *e);

/* One line without its newline, borrowed until the next call: 1, 0 at the head, -EBADMSG for a line
 * that cannot be one of ours, -ESTALE, -errno. *at, unless NULL, receives the line's own place. */
int reader_next(struct reader *r, const char **line, size_t *n, struct position *at, struct err *e);

/* The line at one place; the buffer is the reader's own and does not move its position. */
int reader_line_at(struct reader *r, const struct position *at, const char **line, size_t *n,
		   struct err *e);
