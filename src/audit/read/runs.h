/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/runs.h - runs, each in a few words: who, where, how it ended, what it was denied.
 *
 * Beginnings are added first, the oldest first; then what happened is counted. Pure: it keeps
 * copies of the few lines that it tells from. */
#pragma once

#include "audit/read/entry.h"
#include "base/bytes/json.h"
#include "base/text/cleanup.h"

enum { RUNS_MAX = 500, RUNS_DENIED = 5 /* of one run, told apart */ };

struct runs;

struct runs *runs_new(size_t most); /* NULL: no memory; most: 1 to RUNS_MAX */
struct runs *runs_free(struct runs *rs);
DEFINE_CLEANUP(runs, struct runs *, runs_free)

/* A sandbox.create. Where there is no room left, the oldest goes. */
int runs_add(struct runs *rs, const struct entry *en); /* 0 or -ENOMEM */
/* After the last runs_add. A record of another run is passed over. */
int runs_count(struct runs *rs, const struct entry *en); /* 0 or -ENOMEM */

size_t runs_n(const struct runs *rs);
int64_t runs_since(const struct runs *rs); /* when the oldest began; 0: there is none */
/* The whole id of each, the newest first; NULL behind the last. */
const char *runs_id(const struct runs *rs, size_t i);
uint64_t runs_pid(const struct runs *rs, size_t i); /* whose processes they are; 0: not known */

/* `extra` writes more members of the object of run i. */
void runs_json(const struct runs *rs, struct json *j,
	       void (*extra)(void *data, struct json *j, size_t i), void *data);
/* A line each, safe on a terminal. */
void runs_text(const struct runs *rs, bool (*is_live)(const void *data, size_t i), const void *data,
	       struct buf *out);
