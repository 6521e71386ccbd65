/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/metrics.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "telemetry/metrics_internal.h"

#define SERIES_MAX 512

#define MS 1000ULL
#define SECOND (1000 * MS)

static const uint64_t run_buckets[] = { 5 * MS,      10 * MS,      25 * MS,       50 * MS,
					100 * MS,    250 * MS,     500 * MS,      1 * SECOND,
					2500 * MS,   5 * SECOND,   10 * SECOND,   30 * SECOND,
					60 * SECOND, 300 * SECOND, 1800 * SECOND, 0 };
static const uint64_t setup_buckets[] = { 500,      1 * MS,     2 * MS,     3 * MS,      5 * MS,
					  10 * MS,  25 * MS,    50 * MS,    100 * MS,    250 * MS,
					  500 * MS, 1 * SECOND, 5 * SECOND, 30 * SECOND, 0 };
static_assert(ARRAY_LEN(run_buckets) <= BUCKETS_MAX && ARRAY_LEN(setup_buckets) <= BUCKETS_MAX,
	      "every bound has its bucket, +Inf takes the place of the final 0");

/* clang-format off */
const struct metric_row metric_table[METRIC_COUNT] = {
	[METRIC_RUNS] = { .name = "brig_runs_total", .type = METRIC_COUNTER, .labels = { "backend", "outcome" },
		.help = "Runs that ended, by how." },
	[METRIC_RUN_DURATION] = { .name = "brig_run_duration_seconds", .type = METRIC_HISTOGRAM,
		.labels = { "backend" }, .buckets = run_buckets,
		.help = "Time from the start of a command to its end." },
	[METRIC_SETUP] = { .name = "brig_run_setup_seconds", .type = METRIC_HISTOGRAM,
		.labels = { "backend" }, .buckets = setup_buckets,
		.help = "Time from the request to the start of the command." },
	[METRIC_LIMIT_HITS] = { .name = "brig_limit_hits_total", .type = METRIC_COUNTER, .labels = { "limit" },
		.help = "Runs that reached a limit." },
	[METRIC_DENIALS] = { .name = "brig_denials_total", .type = METRIC_COUNTER, .labels = { "kind" },
		.help = "Things a run was denied." },
	[METRIC_OUTPUT_BYTES] = { .name = "brig_output_bytes_total", .type = METRIC_COUNTER, .labels = { "stream" },
		.help = "Bytes that commands wrote." },
	[METRIC_AUDIT_FAILURES] = { .name = "brig_audit_failures_total", .type = METRIC_COUNTER,
		.help = "Runs whose record could not be written, or not all of it." },
	[METRIC_EXPORT_FAILURES] = { .name = "brig_export_failures_total", .type = METRIC_COUNTER,
		.help = "Traces whose sender could not be started." },
};
/* clang-format on */

static_assert(METRIC_COUNT == 8, "a row for every metric");

size_t metric_buckets(enum metric id)
{
	size_t n = 0;

	while (metric_table[id].buckets[n])
		n++;
	return n;
}

struct metrics *metrics_new(void)
{
	struct metrics *m = calloc(1, sizeof(*m));

	/* A counter that is there from the start can be watched before the first failure. */
	for (int id = 0; m && id < METRIC_COUNT; id++)
		if (!metric_table[id].labels[0])
			(void)metrics_exact(m, (enum metric)id, NULL, NULL);
	return m;
}

struct metrics *metrics_free(struct metrics *m)
{
	if (m)
		free(m->series);
	free(m);
	return NULL;
}

static void set_label(char out[LABEL_SIZE], const char *text)
{
	size_t n;

	if (!text)
		text = "";
	n = strlen(text);
	if (n >= LABEL_SIZE)
		n = utf8_cut(text, LABEL_SIZE - 1);
	for (size_t i = 0; i < n;) {
		size_t len = utf8_len(text + i, n - i);

		memcpy(out + i, len ? text + i : "?", len ? len : 1);
		i += len ? len : 1;
	}
	out[n] = '\0';
}

static int metrics_compare(const struct series *a, const struct series *b)
{
	int r = (int)a->metric - (int)b->metric;

	for (int i = 0; r == 0 && i < METRIC_LABELS_MAX; i++)
		r = strcmp(a->labels[i], b->labels[i]);
	return r;
}

static bool metrics_grow(struct metrics *m)
{
	size_t room = m->room ? 2 * m->room : 16;
	struct series *wider;

	if (m->count < m->room)
		return true;
	wider = realloc(m->series, room * sizeof(*wider));
	if (!wider)
		return false;
	m->series = wider;
	m->room = room;
	return true;
}

/* Where the key stands or belongs; sorted, so that the samples of a family stand together. */
static size_t metrics_place_of(const struct metrics *m, const struct series *key, bool *there)
{
	size_t low = 0, high = m->count;

	*there = false;
	while (low < high) {
		size_t mid = (low + high) / 2;
		int r = metrics_compare(&m->series[mid], key);

		if (r == 0) {
			*there = true;
			return mid;
		}
		if (r < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct series *insert(struct metrics *m, size_t at, const struct series *key)
{
	/* The places beyond the maximum are for "other", one a metric. */
	if (m->count >= SERIES_MAX + METRIC_COUNT)
		return NULL;
	if (!metrics_grow(m)) {
		m->lost = true;
		return NULL;
	}
	memmove(&m->series[at + 1], &m->series[at], (m->count - at) * sizeof(*key));
	m->series[at] = *key;
	m->count++;
	return &m->series[at];
}

struct series *metrics_exact(struct metrics *m, enum metric id, const char *a, const char *b)
{
	const struct metric_row *row = &metric_table[id];
	struct series key = { .metric = id };
	bool there;
	size_t at;

	for (int i = 0; i < METRIC_LABELS_MAX; i++)
		set_label(key.labels[i], row->labels[i] ? (i ? b : a) : NULL);
	at = metrics_place_of(m, &key, &there);
	if (there)
		return &m->series[at];
	return insert(m, at, &key);
}

/* The same, or "other" when there are too many already. */
static struct series *metrics_find(struct metrics *m, enum metric id, const char *a, const char *b)
{
	struct series key = { .metric = id };
	bool there = false;

	set_label(key.labels[0], a);
	set_label(key.labels[1], b);
	if (m->count >= SERIES_MAX)
		(void)metrics_place_of(m, &key, &there);
	if (m->count < SERIES_MAX || there)
		return metrics_exact(m, id, a, b);
	return metrics_exact(m, id, "other", "other");
}

static void metric_add(uint64_t *to, uint64_t n)
{
	if (__builtin_add_overflow(*to, n, to))
		*to = UINT64_MAX;
}

void metrics_add(struct metrics *m, enum metric id, const char *a, const char *b, uint64_t n)
{
	struct series *s = metrics_find(m, id, a, b);

	if (s)
		metric_add(&s->count, n);
}

void metrics_observe(struct metrics *m, enum metric id, const char *a, const char *b, uint64_t us)
{
	const uint64_t *bounds = metric_table[id].buckets;
	struct series *s = metrics_find(m, id, a, b);
	size_t i = 0;

	if (!s)
		return;
	while (bounds[i] && us > bounds[i])
		i++;
	metric_add(&s->buckets[i], 1);
	metric_add(&s->count, 1);
	metric_add(&s->sum, us);
}

void metrics_merge(struct metrics *m, const struct metrics *more)
{
	m->lost |= more->lost;
	for (size_t i = 0; i < more->count; i++) {
		const struct series *from = &more->series[i];
		struct series *to = metrics_find(m, from->metric, from->labels[0], from->labels[1]);

		if (!to)
			continue;
		metric_add(&to->count, from->count);
		metric_add(&to->sum, from->sum);
		for (size_t b = 0; b < BUCKETS_MAX; b++)
			metric_add(&to->buckets[b], from->buckets[b]);
	}
}

void metrics_count_run(struct metrics *m, const struct outcome *o)
{
	const char *backend = o->backend ? o->backend : "unchosen";

	metrics_add(m, METRIC_RUNS, backend, outcome_name(o->kind), 1);
	metrics_add(m, METRIC_AUDIT_FAILURES, NULL, NULL, o->unrecorded);
	for (int l = 0; l < LIMIT_COUNT; l++)
		if (o->limits_hit & (1U << l))
			metrics_add(m, METRIC_LIMIT_HITS, limit_name((enum limit)l), NULL, 1);
	for (size_t i = 0; i < o->denial_count; i++)
		metrics_add(m, METRIC_DENIALS, o->denials[i].kind, NULL, o->denials[i].count);
	for (int c = 0; c < DENIAL_CLASSES; c++)
		if (o->denials_dropped[c])
			metrics_add(m, METRIC_DENIALS, denial_class_kind((enum denial_class)c),
				    NULL, o->denials_dropped[c]);
	if (!o->started)
		return;
	metrics_observe(m, METRIC_RUN_DURATION, backend, NULL, o->duration_us);
	metrics_observe(m, METRIC_SETUP, backend, NULL, o->setup_us);
	metrics_add(m, METRIC_OUTPUT_BYTES, "stdout", NULL, o->out.bytes);
	metrics_add(m, METRIC_OUTPUT_BYTES, "stderr", NULL, o->err.bytes);
}
