/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/query.h - the records that match a filter, oldest first.
 *
 * Uses the index where it is available, else reads everything. Takes no lock of the log's and
 * disturbs no writer. */
#pragma once

#include "audit/read/filter.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"

struct query;

/* `dir` is the record's folder, for messages and for the index; dirfd is borrowed. `indexed` false:
 * do without the index. */
int query_open(int dirfd, const char *dir, bool indexed, struct query **ret, struct err *e);
struct query *query_free(struct query *q);
DEFINE_CLEANUP(query, struct query *, query_free)

/* Why there is no index; NULL when there is one. */
const char *query_unindexed(const struct query *q);

/* Calls `each` with every match (the newest f->limit of them), the entry borrowed for the call,
 * until it returns other than 0, which is returned. */
int query_run(struct query *q, const struct filter *f,
	      int (*each)(void *data, const struct entry *en), void *data, struct err *e);

/* The run that an id, the beginning of one, or "last" means: 0, or -ENOENT, -EEXIST (several). */
int query_resolve_run(struct query *q, const char *text, char out[33], struct err *e);
