/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/metrics_text.c - Prometheus text, written and read back.
 *
 * The reader takes what the writer makes and nothing else, because what it reads becomes the next
 * state: names of the table, labels in their order, whole numbers, seconds with at most six digits
 * behind the point, buckets that add up. */
#include <string.h>

#include "base/text/str.h"
#include "telemetry/metrics_internal.h"

#define SECOND 1000000ULL

/* ---- writing ---- */

static void put_escaped(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			buf_putc(out, '\\');
		if (*text == '\n')
			buf_puts(out, "\\n");
		else
			buf_putc(out, *text);
	}
}

/* Shortest form: 2.5, 0.000125, 30. */
static void put_seconds(struct buf *out, uint64_t us)
{
	unsigned digits = 6, part = (unsigned)(us % SECOND);

	buf_printf(out, "%llu", (unsigned long long)(us / SECOND));
	if (!part)
		return;
	for (; part % 10 == 0; part /= 10)
		digits--;
	buf_printf(out, ".%0*u", (int)digits, part);
}

/* name_suffix{label="value",le="bound"} with a blank behind it; bound 0 of a bucket: +Inf. */
static void metrics_text_put_head(struct buf *out, const struct series *s, const char *suffix,
				  bool bucket, uint64_t bound)
{
	const struct metric_row *row = &metric_table[s->metric];
	bool any = false;

	buf_printf(out, "%s%s", row->name, suffix);
	for (int i = 0; i < METRIC_LABELS_MAX && row->labels[i]; i++) {
		buf_printf(out, "%s%s=\"", any ? "," : "{", row->labels[i]);
		put_escaped(out, s->labels[i]);
		buf_putc(out, '"');
		any = true;
	}
	if (bucket) {
		buf_printf(out, "%sle=\"", any ? "," : "{");
		if (bound)
			put_seconds(out, bound);
		else
			buf_puts(out, "+Inf");
		buf_putc(out, '"');
		any = true;
	}
	buf_puts(out, any ? "} " : " ");
}

static void put_histogram(struct buf *out, const struct series *s)
{
	const uint64_t *bounds = metric_table[s->metric].buckets;
	size_t n = metric_buckets(s->metric);
	uint64_t sum = 0;

	for (size_t i = 0; i <= n; i++) {
		if (__builtin_add_overflow(sum, s->buckets[i], &sum))
			sum = UINT64_MAX;
		metrics_text_put_head(out, s, "_bucket", true, bounds[i]);
		buf_printf(out, "%llu\n", (unsigned long long)sum);
	}
	metrics_text_put_head(out, s, "_sum", false, 0);
	put_seconds(out, s->sum);
	buf_putc(out, '\n');
	metrics_text_put_head(out, s, "_count", false, 0);
	buf_printf(out, "%llu\n", (unsigned long long)sum);
}

int metrics_render(const struct metrics *m, struct buf *out)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct series *s = &m->series[i];
		const struct metric_row *row = &metric_table[s->metric];
		bool histogram = row->type == METRIC_HISTOGRAM;

		if (i == 0 || s[-1].metric != s->metric)
			buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help,
				   row->name, histogram ? "histogram" : "counter");
		if (histogram) {
			put_histogram(out, s);
		} else {
			metrics_text_put_head(out, s, "", false, 0);
			buf_printf(out, "%llu\n", (unsigned long long)s->count);
		}
	}
	return m->lost || out->failed ? -ENOMEM : 0;
}

/* ---- reading ---- */

struct sample {
	enum metric metric;
	const char *suffix; /* "", "_bucket", "_sum" or "_count" */
	char labels[METRIC_LABELS_MAX][LABEL_SIZE];
	char bound[32];    /* of "le"; "" where there is none */
	const char *value; /* to the end of the line */
	size_t value_len;
};

static bool metrics_text_take(const char **at, const char *end, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(end - *at) < n || memcmp(*at, word, n) != 0)
		return false;
	*at += n;
	return true;
}

/* A quoted value, unescaped. */
static bool take_quoted(const char **at, const char *end, char *out, size_t room)
{
	size_t n = 0;

	if (!metrics_text_take(at, end, "\""))
		return false;
	while (*at < end && **at != '"') {
		char c = *(*at)++;

		if (c == '\\') {
			if (*at == end || !strchr("\\\"n", **at) || !**at)
				return false;
			c = **at == 'n' ? '\n' : **at;
			(*at)++;
		}
		if (!c || n + 1 >= room)
			return false;
		out[n++] = c;
	}
	out[n] = '\0';
	for (size_t i = 0, len; i < n; i += len) {
		len = utf8_len(out + i, n - i);
		if (!len)
			return false;
	}
	return metrics_text_take(at, end, "\"");
}

static bool take_name(const char **at, const char *end, struct sample *s)
{
	static const char *const suffixes[] = { "_bucket", "_sum", "_count" };
	size_t n = 0;

	while (*at + n < end && (*at)[n] != '{' && (*at)[n] != ' ')
		n++;
	for (int id = 0; id < METRIC_COUNT; id++) {
		const char *name = metric_table[id].name, *rest = *at + strlen(name);
		size_t len = strlen(name);

		if (len > n || memcmp(*at, name, len) != 0)
			continue;
		s->metric = (enum metric)id;
		s->suffix = len == n && metric_table[id].type == METRIC_COUNTER ? "" : NULL;
		for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
			if (metric_table[id].type == METRIC_HISTOGRAM &&
			    n - len == strlen(suffixes[i]) &&
			    memcmp(rest, suffixes[i], n - len) == 0)
				s->suffix = suffixes[i];
		if (s->suffix) {
			*at += n;
			return true;
		}
	}
	return false;
}

static bool take_labels(const char **at, const char *end, struct sample *s)
{
	const struct metric_row *row = &metric_table[s->metric];
	const char *between = "{";

	for (int i = 0; i < METRIC_LABELS_MAX && row->labels[i]; i++, between = ",")
		if (!metrics_text_take(at, end, between) ||
		    !metrics_text_take(at, end, row->labels[i]) ||
		    !metrics_text_take(at, end, "=") ||
		    !take_quoted(at, end, s->labels[i], LABEL_SIZE))
			return false;
	if (str_eq(s->suffix, "_bucket")) {
		if (!metrics_text_take(at, end, between) || !metrics_text_take(at, end, "le=") ||
		    !take_quoted(at, end, s->bound, sizeof(s->bound)))
			return false;
		between = ",";
	}
	return *between == '{' || metrics_text_take(at, end, "}");
}

static bool metrics_text_read_whole(const char **at, const char *end, uint64_t *ret)
{
	const char *from = *at;
	uint64_t v = 0;

	for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(**at - '0'), &v))
			return false;
	*ret = v;
	/* One spelling a number: what was written is what will be written. */
	return *at > from && (*from != '0' || *at == from + 1);
}

static bool read_seconds(const char *at, const char *end, uint64_t *us)
{
	uint64_t whole, part = 0;
	int digits = 0;

	if (!metrics_text_read_whole(&at, end, &whole))
		return false;
	if (at < end && *at == '.')
		for (at++; at < end && *at >= '0' && *at <= '9' && digits < 6; at++, digits++)
			part = 10 * part + (uint64_t)(*at - '0');
	if (at != end || (digits && !(part % 10)) || (end[-1] == '.'))
		return false;
	for (; digits && digits < 6; digits++)
		part *= 10;
	return !__builtin_mul_overflow(whole, SECOND, us) && !__builtin_add_overflow(*us, part, us);
}

/* The bucket of a bound, or -1. */
static int bucket_of(const struct sample *s)
{
	const uint64_t *bounds = metric_table[s->metric].buckets;
	size_t n = metric_buckets(s->metric);
	uint64_t us;

	if (str_eq(s->bound, "+Inf"))
		return (int)n;
	if (!read_seconds(s->bound, s->bound + strlen(s->bound), &us))
		return -1;
	for (size_t i = 0; i < n; i++)
		if (bounds[i] == us)
			return (int)i;
	return -1;
}

/* Samples come in the writer's order: series sorted, in each the buckets from below, then _sum,
 * then _count. */
struct due {
	struct sample last;
	bool any; /* there is a last one */
	int next; /* bucket, then n + 1 for _sum, n + 2 for _count, n + 3: complete */
	uint64_t sum;
};

static int metrics_text_compare(const struct sample *a, const struct sample *b)
{
	int r = (int)a->metric - (int)b->metric;

	for (int i = 0; r == 0 && i < METRIC_LABELS_MAX; i++)
		r = strcmp(a->labels[i], b->labels[i]);
	return r;
}

static bool complete(const struct due *d)
{
	return !d->any || metric_table[d->last.metric].type == METRIC_COUNTER ||
	       d->next == (int)metric_buckets(d->last.metric) + 3;
}

/* Does the sample go on with the last series, or rightly begin the next one? */
static bool follows(struct due *d, const struct sample *s)
{
	int r = d->any ? metrics_text_compare(s, &d->last) : 1;

	if (r < 0 || (r == 0 && metric_table[s->metric].type == METRIC_COUNTER) ||
	    (r > 0 && !complete(d)))
		return false;
	if (r > 0)
		*d = (struct due){ .any = true };
	d->last = *s;
	return true;
}

static bool put_counter(struct series *to, const struct sample *s)
{
	const char *at = s->value, *end = at + s->value_len;

	return metrics_text_read_whole(&at, end, &to->count) && at == end;
}

static bool put_part(struct series *to, const struct sample *s, struct due *d)
{
	int n = (int)metric_buckets(s->metric), step = d->next++;
	const char *at = s->value, *end = at + s->value_len;
	uint64_t v;

	if (str_eq(s->suffix, "_sum"))
		return step == n + 1 && read_seconds(at, end, &to->sum);
	if (!metrics_text_read_whole(&at, end, &v) || at != end)
		return false;
	if (str_eq(s->suffix, "_count")) {
		to->count = v;
		return step == n + 2 && v == d->sum;
	}
	if (step > n || bucket_of(s) != step || v < d->sum)
		return false;
	to->buckets[step] = v - d->sum;
	d->sum = v;
	return true;
}

static bool read_sample(struct metrics *m, const char *at, const char *end, struct due *d)
{
	struct sample s = { 0 };
	struct series *to;

	if (!take_name(&at, end, &s) || !take_labels(&at, end, &s) ||
	    !metrics_text_take(&at, end, " "))
		return false;
	s.value = at;
	s.value_len = (size_t)(end - at);
	if (!follows(d, &s))
		return false;
	to = metrics_exact(m, s.metric, s.labels[0], s.labels[1]);
	if (!to)
		return false;
	return *s.suffix ? put_part(to, &s, d) : put_counter(to, &s);
}

int metrics_parse(struct metrics *m, const char *text, size_t n, struct err *e)
{
	const char *end = text + n;
	unsigned line = 1;
	struct due d = { 0 };

	for (const char *at = text; at < end; line++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		if (!stop)
			return err_set(e, ERR_CONFIG, EINVAL, "line %u is cut off", line);
		if (*at != '#' && !read_sample(m, at, stop, &d))
			return m->lost ? err_nomem(e)
				       : err_set(e, ERR_CONFIG, EINVAL, "line %u is not brig's",
						 line);
		at = stop + 1;
	}
	if (!complete(&d))
		return err_set(e, ERR_CONFIG, EINVAL, "the last histogram is cut off");
	return 0;
}
