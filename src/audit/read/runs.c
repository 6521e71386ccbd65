/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/read/runs.h"

#include <stdio.h>
#include <string.h>

#include "audit/read/export.h"
#include "base/sys/clock.h"
#include "base/text/clean.h"
#include "base/text/num.h"
#include "base/text/str.h"

struct kept_line {
	char *p; /* NULL: none */
	size_t n;
};

struct run_told {
	char id[33];
	int64_t time;
	struct kept_line begin, end;
	uint64_t requests, denials, trust, bytes_out, bytes_in, limits;
	struct {
		struct kept_line line;
		uint64_t count;
	} denied[RUNS_DENIED];
	size_t denied_n;
};

struct runs {
	struct run_told *v; /* a ring */
	size_t most, first, n;
	struct run_told **by_id; /* NULL: not sorted yet */
};

struct runs *runs_new(size_t most)
{
	CLEANUP(runs) struct runs *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return NULL;
	rs->most = most ? most : 1;
	rs->v = calloc(rs->most, sizeof(*rs->v));
	return rs->v ? TAKE_PTR(rs) : NULL;
}

static void told_done(struct run_told *t)
{
	free(t->begin.p);
	free(t->end.p);
	for (size_t i = 0; i < t->denied_n; i++)
		free(t->denied[i].line.p);
	*t = (struct run_told){ 0 };
}

struct runs *runs_free(struct runs *rs)
{
	if (rs) {
		for (size_t i = 0; rs->v && i < rs->most; i++)
			told_done(&rs->v[i]);
		free(rs->v);
		free(rs->by_id);
		free(rs);
	}
	return NULL;
}

/* --- taking in --- */

static int runs_keep(struct kept_line *k, const struct entry *en)
{
	char *p = malloc(en->len);

	if (!p)
		return -ENOMEM;
	memcpy(p, en->line, en->len);
	free(k->p);
	*k = (struct kept_line){ .p = p, .n = en->len };
	return 0;
}

/* A line that was kept was read before. */
static bool again(const struct kept_line *k, struct entry *ret)
{
	return k->p && entry_read(k->p, k->n, ret) == 0;
}

static struct run_told *at(const struct runs *rs, size_t i)
{
	i += rs->first;
	return &rs->v[i < rs->most ? i : i - rs->most];
}

static bool runs_is_id(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!strchr("0123456789abcdef", s.p[i]) || !s.p[i])
			return false;
	return s.n == 32;
}

int runs_add(struct runs *rs, const struct entry *en)
{
	struct run_told *t;

	if (!runs_is_id(en->run))
		return 0;
	for (size_t i = 0; i < rs->n; i++)
		if (memcmp(at(rs, i)->id, en->run.p, 32) == 0)
			return 0; /* begun again */
	if (rs->n == rs->most) {
		rs->first = rs->first + 1 < rs->most ? rs->first + 1 : 0;
		rs->n--;
	}
	t = at(rs, rs->n++);
	told_done(t);
	memcpy(t->id, en->run.p, 32);
	t->time = en->time;
	return runs_keep(&t->begin, en);
}

static int by_id(const void *a, const void *b)
{
	const struct run_told *const *x = a, *const *y = b;

	return memcmp((*x)->id, (*y)->id, 32);
}

static int against(const void *key, const void *b)
{
	const struct run_told *const *y = b;

	return memcmp(key, (*y)->id, 32);
}

static int sort(struct runs *rs)
{
	rs->by_id = calloc(rs->n + 1, sizeof(struct run_told *));
	if (!rs->by_id)
		return -ENOMEM;
	for (size_t i = 0; i < rs->n; i++)
		rs->by_id[i] = at(rs, i);
	qsort(rs->by_id, rs->n, sizeof(struct run_told *), by_id);
	return 0;
}

static bool runs_number(const struct entry *en, const char *key, uint64_t *ret)
{
	char text[24];
	struct pair p;

	if (!entry_get(en, key, &p) || p.kind != PAIR_NUMBER || p.value.n >= sizeof(text))
		return false;
	memcpy(text, p.value.p, p.value.n);
	text[p.value.n] = '\0';
	return num_count(text, ret) == 0;
}

static void sum(const struct entry *en, const char *key, uint64_t *to)
{
	uint64_t v = 0;

	if (runs_number(en, key, &v) && __builtin_add_overflow(*to, v, to))
		*to = UINT64_MAX;
}

static bool runs_same(const struct entry *a, const struct entry *b, const char *key)
{
	struct pair p, q;
	bool x = entry_get(a, key, &p), y = entry_get(b, key, &q);

	return x == y &&
	       (!x || (p.value.n == q.value.n && memcmp(p.value.p, q.value.p, p.value.n) == 0));
}

static bool alike(const struct entry *a, const struct entry *b)
{
	static const char *const keys[] = { "type", "host", "port", "kind", "target", "reason" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (!runs_same(a, b, keys[i]))
			return false;
	return true;
}

static int count_denial(struct run_told *t, const struct entry *en)
{
	struct entry old;

	t->denials++;
	for (size_t i = 0; i < t->denied_n; i++)
		if (again(&t->denied[i].line, &old) && alike(&old, en)) {
			t->denied[i].count++;
			return 0;
		}
	if (t->denied_n == RUNS_DENIED)
		return 0;
	if (runs_keep(&t->denied[t->denied_n].line, en) < 0)
		return -ENOMEM;
	t->denied[t->denied_n++].count = 1;
	return 0;
}

static bool is_denial(struct slice type)
{
	static const char *const types[] = { "egress.deny", "access.deny", "leak.block",
					     "credential.misuse" };

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (slice_eq(type, types[i]))
			return true;
	return false;
}

/* So many more of a type were counted instead of written. */
static void count_summary(struct run_told *t, const struct entry *en)
{
	struct pair p;

	if (!entry_get(en, "of", &p))
		return;
	if (is_denial(p.value))
		sum(en, "count", &t->denials);
	else if (slice_eq(p.value, "egress.allow"))
		sum(en, "count", &t->requests);
	else if (slice_eq(p.value, "trust.change"))
		sum(en, "count", &t->trust);
}

int runs_count(struct runs *rs, const struct entry *en)
{
	struct run_told **found, *t;

	if (!runs_is_id(en->run) || !rs->n)
		return 0;
	if (!rs->by_id && sort(rs) < 0)
		return -ENOMEM;
	found = bsearch(en->run.p, rs->by_id, rs->n, sizeof(struct run_told *), against);
	if (!found)
		return 0;
	t = *found;
	if (is_denial(en->type))
		return count_denial(t, en);
	if (slice_eq(en->type, "sandbox.exec"))
		return runs_keep(&t->end, en);
	t->requests += slice_eq(en->type, "egress.allow");
	t->limits += slice_eq(en->type, "limit.hit");
	t->trust += slice_eq(en->type, "trust.change");
	if (slice_eq(en->type, "log.summary"))
		count_summary(t, en);
	if (slice_eq(en->type, "egress.done")) {
		sum(en, "bytes_out", &t->bytes_out);
		sum(en, "bytes_in", &t->bytes_in);
	}
	return 0;
}

/* --- telling --- */

size_t runs_n(const struct runs *rs)
{
	return rs->n;
}

int64_t runs_since(const struct runs *rs)
{
	int64_t since = 0;

	for (size_t i = 0; i < rs->n; i++)
		if (!since || at(rs, i)->time < since)
			since = at(rs, i)->time;
	return since;
}

const char *runs_id(const struct runs *rs, size_t i)
{
	return i < rs->n ? at(rs, rs->n - 1 - i)->id : NULL;
}

uint64_t runs_pid(const struct runs *rs, size_t i)
{
	struct entry en;
	uint64_t pid = 0;

	if (again(&at(rs, rs->n - 1 - i)->begin, &en))
		(void)runs_number(&en, "pid", &pid);
	return pid;
}

/* Members of the line, as they stand there, under their own names or another. */
static void runs_copy(struct json *j, const struct kept_line *k, const char *const (*keys)[2])
{
	struct entry en;
	struct pair p;

	if (!again(k, &en))
		return;
	for (; (*keys)[0]; keys++) {
		CLEANUP(buf) struct buf value = BUF_INIT(2 * ENTRY_LINE_MAX);

		if (!entry_get(&en, (*keys)[0], &p))
			continue;
		export_json_value(&value, &p);
		json_key(j, (*keys)[1] ? (*keys)[1] : (*keys)[0]);
		json_raw(j, buf_str(&value), value.len);
		j->out->failed |= value.failed;
	}
}

static void put_denied(struct json *j, const struct run_told *t)
{
	static const char *const keys[][2] = { { "time" },   { "type" },   { "host" },
					       { "port" },   { "method" }, { "kind" },
					       { "target" }, { "reason" }, { NULL } };

	json_karray(j, "denied");
	for (size_t i = 0; i < t->denied_n; i++) {
		json_object(j);
		runs_copy(j, &t->denied[i].line, keys);
		json_ku64(j, "count", t->denied[i].count);
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_run(struct json *j, const struct run_told *t)
{
	static const char *const begin[][2] = {
		{ "time", "began" }, { "principal" }, { "agent" },  { "backend" },
		{ "argv0" },         { "argv" },      { "access" }, { "network" },
		{ "profile" },       { "workspace" }, { "memory" }, { "timeout_ms" },
		{ "policy" },        { "version" },   { "within" }, { "name" },
		{ "mode" },          { NULL }
	};
	static const char *const end[][2] = {
		{ "time", "ended" }, { "outcome" },   { "rc" },    { "signal" }, { "duration_ms" },
		{ "setup_ms" },      { "layers" },    { "error" }, { "reason" }, { "stdout_bytes" },
		{ "stderr_bytes" },  { "questions" }, { "names" }, { NULL }
	};

	json_kstr(j, "run", t->id);
	runs_copy(j, &t->begin, begin);
	runs_copy(j, &t->end, end);
	json_ku64(j, "requests", t->requests);
	json_ku64(j, "denials", t->denials);
	json_ku64(j, "limits", t->limits);
	json_ku64(j, "changed_trust", t->trust);
	json_ku64(j, "bytes_out", t->bytes_out);
	json_ku64(j, "bytes_in", t->bytes_in);
	put_denied(j, t);
}

void runs_json(const struct runs *rs, struct json *j,
	       void (*extra)(void *data, struct json *j, size_t i), void *data)
{
	json_array(j);
	for (size_t i = 0; i < rs->n; i++) {
		json_object(j);
		put_run(j, at(rs, rs->n - 1 - i));
		extra(data, j, i);
		json_object_end(j);
	}
	json_array_end(j);
}

static bool has(const struct kept_line *k, const char *key)
{
	struct entry en;
	struct pair p;

	return again(k, &en) && entry_get(&en, key, &p) && p.value.n;
}

/* One value in a column; "-" where there is none. Of a path the last name alone, if `last`. */
static void column(struct buf *out, const struct kept_line *k, const char *key, int width,
		   bool last)
{
	CLEANUP(buf) struct buf text = BUF_INIT(ENTRY_LINE_MAX);
	const char *from = "-", *slash;
	struct entry en;
	struct pair p;

	if (again(k, &en) && entry_get(&en, key, &p) && p.value.n)
		export_value(&text, &p);
	if (text.len)
		from = buf_str(&text);
	slash = last ? strrchr(from, '/') : NULL;
	buf_printf(out, "  %-*s", width, slash && slash[1] ? slash + 1 : from);
	out->failed |= text.failed;
}

/* The whole number that a field begins with; false: there is none. */
static bool whole_number(const struct kept_line *k, const char *key, uint64_t *ret)
{
	char text[24];
	struct entry en;
	struct pair p;

	if (!again(k, &en) || !entry_get(&en, key, &p) || p.value.n >= sizeof(text))
		return false;
	(void)snprintf(text, sizeof(text), "%.*s", (int)p.value.n, p.value.p);
	text[strcspn(text, ".")] = '\0';
	return num_count(text, ret) == 0;
}

/* `now` in microseconds, of a run that goes on; 0: it does not. */
static void put_took(struct buf *out, const struct run_told *t, int64_t now)
{
	char text[32] = "-";
	uint64_t ms = now > t->time ? (uint64_t)(now - t->time) / 1000 : 0;

	if (now || whole_number(&t->end, "duration_ms", &ms))
		(void)snprintf(text, sizeof(text), "%llu.%llu s", (unsigned long long)(ms / 1000),
			       (unsigned long long)(ms / 100 % 10));
	buf_printf(out, "  %9s", text);
}

/* Names that were asked for without a network are told with the end. */
static uint64_t all_denials(const struct run_told *t)
{
	uint64_t questions = 0;

	(void)whole_number(&t->end, "questions", &questions);
	return t->denials + questions;
}

void runs_text(const struct runs *rs, bool (*is_live)(const void *data, size_t i), const void *data,
	       struct buf *out)
{
	if (rs->n)
		buf_printf(out, "%-20s  %-8s  %-10s  %-10s  %9s  %6s  %-12s  %s\n", "began", "run",
			   "agent", "outcome", "took", "denied", "command", "folder");
	for (size_t i = 0; i < rs->n; i++) {
		const struct run_told *t = at(rs, rs->n - 1 - i);
		bool live = is_live(data, i);
		struct entry en;

		if (!again(&t->begin, &en) || en.when.n < 19)
			continue;
		clean_put(out, en.when.p, 10);
		buf_putc(out, ' ');
		clean_put(out, en.when.p + 11, 8);
		buf_printf(out, "Z  %.8s", t->id);
		column(out, &t->begin, "agent", 10, false);
		if (live)
			buf_printf(out, "  %-10s", "running");
		else
			column(out, &t->end, "outcome", 10, false);
		put_took(out, t, live ? (int64_t)clock_wall_us() : 0);
		buf_printf(out, "  %6llu", (unsigned long long)all_denials(t));
		column(out, &t->begin, has(&t->begin, "argv0") ? "argv0" : "name", 12,
		       has(&t->begin, "argv0"));
		column(out, &t->begin, "workspace", 0, false);
		buf_putc(out, '\n');
	}
}
