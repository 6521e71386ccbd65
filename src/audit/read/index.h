/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/index.h - where in the segments a record stands: SQLite, filled by readers.
 *
 * The index holds nothing that the segments do not hold, and is never believed: it gives places,
 * and who reads them checks what is there. It is opened only in a folder of the caller's own. */
#pragma once

#include <stdint.h>

#include "audit/read/filter.h"
#include "audit/read/segments.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"

#define INDEX_NAME "audit.db"

struct index;

struct spot {
	uint64_t seq, segment, at;
	size_t len; /* without the newline */
};

/* Opens the index of the folder and brings it up to the segments' end; builds it where there is
 * none, or where it is damaged or belongs to another state of the log. -errno where it is not
 * available (a read-only place, another user's folder): then the segments are read from end to end.
 * Blocks while another reader fills it. */
int index_open(int dirfd, const char *dir, struct index **ret, struct err *e);
struct index *index_free(struct index *ix);
DEFINE_CLEANUP(index, struct index *, index_free)

/* After -EBADMSG from index_find: discards the file and rebuilds it. */
int index_renew(struct index *ix, struct err *e);

/* Calls `found` for the records that may match, in order (newest first when asked for), until it
 * returns other than 0, which is returned. -EBADMSG: the file is damaged after all. */
typedef int found_fn(void *data, const struct spot *at);
int index_find(struct index *ix, const struct filter *f, bool newest_first, found_fn *found,
	       void *data, struct err *e);
