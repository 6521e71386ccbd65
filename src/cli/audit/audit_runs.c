/* SPDX-License-Identifier: Apache-2.0 */
/* cli/audit/audit_runs.c - "runs": those in progress and the newest that have ended.
 *
 * A run that is in progress is told by the lock on its slot (audit/running.h), whatever the record
 * says; what it uses now by one look at /proc. */
#include <stdio.h>
#include <string.h>

#include "audit/read/runs.h"
#include "audit/running.h"
#include "base/text/str.h"
#include "cli/audit/asked.h"
#include "cli/cli.h"
#include "proc/use.h"

#define OUT_MAX ((size_t)8 << 20)
#define BEGINNINGS 20000 /* that are looked at: most of them may be commands of a sandbox */
#define RECORDS 50000    /* that are counted */

struct runs_search {
	const struct asked *a;
	struct runs *runs;
	struct use *use; /* NULL: nobody is in progress */
	char live[RUNS_MAX][33];
	size_t live_n;
};

static bool id_is_live(const struct runs_search *f, const char *id)
{
	for (size_t i = 0; i < f->live_n; i++)
		if (str_eq(f->live[i], id))
			return true;
	return false;
}

static bool is_live(const void *data, size_t i)
{
	const struct runs_search *f = data;

	return id_is_live(f, runs_id(f->runs, i));
}

static bool audit_runs_wanted(const struct runs_search *f, const struct entry *en)
{
	struct pair p;
	bool inner = entry_get(en, "within", &p);
	char id[33] = "";

	if (f->a->live) {
		(void)snprintf(id, sizeof(id), "%.*s", (int)en->run.n, en->run.p ? en->run.p : "");
		if (!id_is_live(f, id))
			return false;
	}
	return f->a->within ? inner && slice_eq(p.value, f->a->within) : !inner || f->a->filter.run;
}

static int audit_runs_add(void *data, const struct entry *en)
{
	struct runs_search *f = data;

	return audit_runs_wanted(f, en) ? runs_add(f->runs, en) : 0;
}

static int audit_runs_count(void *data, const struct entry *en)
{
	const struct runs_search *f = data;

	return runs_count(f->runs, en);
}

/* When the sandbox began; those inside began later. */
static int note_time(void *data, const struct entry *en)
{
	*(int64_t *)data = en->time;
	return 1;
}

static int find_begin(struct query *q, struct runs_search *f, struct err *e)
{
	struct filter wide = { .types = { "sandbox.create" }, .type_count = 1 };

	wide.run = f->a->filter.run;
	wide.limit = BEGINNINGS;
	if (f->a->within) {
		struct filter of = wide;

		of.run = f->a->within;
		of.limit = 1;
		if (query_run(q, &of, note_time, &wide.since, e) < 0)
			return -e->code;
	}
	return query_run(q, &wide, audit_runs_add, f, e);
}

/* One that is in progress may have begun before all that are shown. */
static int find_live(struct query *q, struct runs_search *f, struct err *e)
{
	struct filter one = { .types = { "sandbox.create" }, .type_count = 1, .limit = 1 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->live_n; i++) {
		one.run = f->live[i];
		r = query_run(q, &one, audit_runs_add, f, e);
	}
	return r;
}

static int find_rest(struct query *q, struct runs_search *f, struct err *e)
{
	static const char *const types[] = { "sandbox.exec", "egress.*",          "access.deny",
					     "leak.block",   "credential.misuse", "limit.hit",
					     "log.summary",  "trust.change" };
	struct filter rest = { .since = runs_since(f->runs), .limit = RECORDS };

	if (!runs_n(f->runs))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		rest.types[rest.type_count++] = types[i];
	if (runs_n(f->runs) == 1)
		rest.run = runs_id(f->runs, 0);
	return query_run(q, &rest, audit_runs_count, f, e);
}

static int audit_runs_find(struct query *q, struct runs_search *f, struct err *e)
{
	int r = f->a->live ? find_live(q, f, e) : find_begin(q, f, e);

	if (r == 0)
		r = find_rest(q, f, e);
	return r == -ENOMEM && !e->code ? err_nomem(e) : r;
}

static void put_state(void *data, struct json *j, size_t i)
{
	struct runs_search *f = data;
	char top[24];

	json_kbool(j, "live", is_live(f, i));
	if (!is_live(f, i))
		return;
	if (!f->use)
		f->use = use_look();
	(void)snprintf(top, sizeof(top), "%llu", (unsigned long long)runs_pid(f->runs, i));
	json_key(j, "use");
	used_json(f->use, top, j);
}

static int audit_runs_tell(struct runs_search *f, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(OUT_MAX);
	struct json j;

	if (f->a->json) {
		json_init(&j, &out, false);
		runs_json(f->runs, &j, put_state, f);
		buf_putc(&out, '\n');
	} else {
		runs_text(f->runs, is_live, f, &out);
	}
	if (!f->a->json && !runs_n(f->runs))
		message_print("brig: note", "no run matches");
	return flush_to(STDOUT_FILENO, &out, true, e);
}

int audit_runs(const struct asked *a, struct err *e)
{
	CLEANUP(fd) int dirfd = -1;
	CLEANUP(query) struct query *q = NULL;
	uint64_t most = a->filter.limit ? a->filter.limit : RUNS_MAX;
	CLEANUP(runs) struct runs *runs = runs_new(most < RUNS_MAX ? (size_t)most : RUNS_MAX);
	CLEANUP(mem) struct runs_search *f = calloc(1, sizeof(*f));
	int r;

	if (!runs || !f)
		return err_nomem(e);
	f->a = a;
	f->runs = runs;
	r = asked_query(a, &dirfd, &q, e);
	if (r < 0 && (r != -ENOENT || a->dir))
		return r;
	err_clear(e);
	if (q) {
		f->live_n = running_live(dirfd, f->live, ARRAY_LEN(f->live));
		r = audit_runs_find(q, f, e);
	}
	if (r == 0 || r == -ENOENT)
		r = audit_runs_tell(f, e);
	f->use = use_free(f->use);
	return r;
}
