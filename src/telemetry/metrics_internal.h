/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/metrics_internal.h - what counting and its text share. */
#pragma once

#include "telemetry/metrics.h"

enum { LABEL_SIZE = 48, BUCKETS_MAX = 20 };

struct series {
	enum metric metric;
	char labels[METRIC_LABELS_MAX][LABEL_SIZE]; /* valid UTF-8 */
	uint64_t count;                             /* the value of a counter */
	uint64_t sum;                               /* microseconds */
	uint64_t buckets[BUCKETS_MAX]; /* each its own, not cumulative; the last used is +Inf */
};

struct metrics {
	struct series *series; /* sorted by metric, then labels */
	size_t count, room;
	bool lost; /* there was no memory for something */
};

size_t metric_buckets(enum metric id); /* bounds, +Inf not counted */

/* Finds or makes; NULL without memory, and when there are too many. Valid until the next call. */
struct series *metrics_exact(struct metrics *m, enum metric id, const char *a, const char *b);
