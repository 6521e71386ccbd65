/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/metrics.h - what brig counts: one table of names, and their Prometheus text.
 *
 * Pure: values in memory, text in and out. A textfile (telemetry/metrics_file.h) and later the
 * daemon store the same. Every name and label of the table is part of the interface. */
#pragma once

#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/err.h"
#include "model/outcome/outcome.h"

enum metric {
	METRIC_RUNS,
	METRIC_RUN_DURATION,
	METRIC_SETUP,
	METRIC_LIMIT_HITS,
	METRIC_DENIALS,
	METRIC_OUTPUT_BYTES,
	METRIC_AUDIT_FAILURES,
	METRIC_EXPORT_FAILURES,
	METRIC_COUNT
};

enum { METRIC_LABELS_MAX = 2 };

enum metric_type { METRIC_COUNTER, METRIC_HISTOGRAM };

struct metric_row {
	const char *name, *help;
	enum metric_type type;
	const char *labels[METRIC_LABELS_MAX]; /* names; NULL: fewer */
	const uint64_t *buckets; /* of a histogram: upper bounds in microseconds, 0 ends them */
};

extern const struct metric_row metric_table[METRIC_COUNT];

struct metrics; /* opaque; bounded: past its maximum new label values are counted as "other" */

struct metrics *metrics_new(void); /* NULL without memory */
struct metrics *metrics_free(struct metrics *m);
DEFINE_CLEANUP(metrics, struct metrics *, metrics_free)

/* `a` and `b` are the values of the row's labels, NULL where it has fewer. Without memory the count
 * is lost and metrics_render says so by failing. */
void metrics_add(struct metrics *m, enum metric id, const char *a, const char *b, uint64_t n);
void metrics_observe(struct metrics *m, enum metric id, const char *a, const char *b, uint64_t us);
void metrics_count_run(struct metrics *m, const struct outcome *o); /* all that one run adds */
void metrics_merge(struct metrics *m, const struct metrics *more);

/* Prometheus text exposition, format 0.0.4; -ENOMEM when something was lost. */
int metrics_render(const struct metrics *m, struct buf *out);

/* Reads back what metrics_render wrote, into an empty m. Strict: -EINVAL and *e for anything else,
 * -ENOMEM when that is all that is wrong.
 */
int metrics_parse(struct metrics *m, const char *text, size_t n, struct err *e);
