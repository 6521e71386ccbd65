/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/index_find.c - a filter as a SELECT.
 *
 * Types are looked up first: those there are and the filter wants. Each gets a SELECT of its own,
 * in the order of its index; SQLite merges them, so that the newest few come at once whatever is
 * wanted. A time becomes a sequence number first: along these it never runs backwards. */
#include <stdio.h>
#include <string.h>

#include "audit/read/index_internal.h"
#include "base/text/str.h"

enum { TYPES_MAX = 64, TYPE_SIZE = 72, SELECT_MAX = 64 << 10, BINDS_MAX = 16 };

struct bind {
	const char *text; /* NULL: the number */
	size_t n;
	int64_t number;
};

/* The terms that all types share, and what is bound to their ?1, ?2... */
struct terms {
	struct buf sql;
	struct bind binds[BINDS_MAX];
	int count;
	char behind[40]; /* the first text that does not begin with the run's digits any more */
};

struct types {
	char names[TYPES_MAX][TYPE_SIZE];
	size_t count;
	bool all; /* no term is needed */
};

/* --- types --- */

/* The next type behind `after`, through the index: one step a type, not one a record. */
static int next_type(sqlite3_stmt *q, const char *after, char out[TYPE_SIZE])
{
	const unsigned char *text;
	int rc;

	(void)sqlite3_reset(q);
	(void)sqlite3_bind_text(q, 1, after, -1, SQLITE_TRANSIENT);
	rc = sqlite3_step(q);
	if (rc != SQLITE_ROW)
		return rc;
	text = sqlite3_column_text(q, 0);
	if (!text)
		return SQLITE_DONE;
	/* A type of ours is shorter; what is not ours is cut, which only ends the list early. */
	(void)snprintf(out, TYPE_SIZE, "%s", (const char *)text);
	return strlen((const char *)text) < TYPE_SIZE ? SQLITE_ROW : SQLITE_TOOBIG;
}

static int types_find(struct index *ix, const struct filter *f, struct types *t, struct err *e)
{
	CLEANUP(stmt) sqlite3_stmt *q = NULL;
	char name[TYPE_SIZE] = "";
	int rc;

	/* A run has few records: the filter looks at them itself. */
	t->all = !!f->run || (!f->type_count && !f->security);
	if (t->all)
		return 0;
	if (index_prepare(ix, "SELECT min(type) FROM records WHERE type > ?", &q, e) < 0)
		return -e->code;
	while ((rc = next_type(q, name, name)) == SQLITE_ROW) {
		if (!filter_match_type(f, (struct slice){ name, strlen(name) }))
			continue;
		if (t->count == TYPES_MAX) {
			rc = SQLITE_TOOBIG;
			break;
		}
		memcpy(t->names[t->count++], name, TYPE_SIZE);
	}
	t->all = rc == SQLITE_TOOBIG;
	return rc == SQLITE_DONE || t->all ? 0 : index_fail(ix, rc, e);
}

/* --- the other terms --- */

static void add_term(struct terms *t, const char *term, const struct bind *b)
{
	if (t->count == BINDS_MAX) {
		t->sql.failed = true;
		return;
	}
	t->binds[t->count++] = *b;
	buf_printf(&t->sql, " AND %s ?%d", term, t->count);
}

static void add_equal(struct terms *t, const char *column, const char *text)
{
	/* A text that JSON writes with escapes stands so in the index: the filter looks itself. */
	if (!text || strpbrk(text, "\"\\/") || str_has_control(text))
		return;
	add_term(t, column, &(struct bind){ .text = text, .n = strlen(text) });
}

static void add_run(struct terms *t, const char *run)
{
	size_t n = run ? strlen(run) : 0;

	if (!n || n >= sizeof(t->behind))
		return;
	(void)snprintf(t->behind, sizeof(t->behind), "%s", run);
	t->behind[n - 1]++;
	add_term(t, "run >=", &(struct bind){ .text = run, .n = n });
	add_term(t, "run <", &(struct bind){ .text = t->behind, .n = n });
}

/* The sequence number at an edge in time; `none` when no record is on its side of it. */
static int edge(struct index *ix, const char *sql, int64_t time, int64_t none, int64_t *ret,
		struct err *e)
{
	CLEANUP(stmt) sqlite3_stmt *q = NULL;
	int rc;

	if (index_prepare(ix, sql, &q, e) < 0)
		return -e->code;
	(void)sqlite3_bind_int64(q, 1, time);
	rc = sqlite3_step(q);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return index_fail(ix, rc, e);
	*ret = rc == SQLITE_ROW ? sqlite3_column_int64(q, 0) : none;
	return 0;
}

static int add_times(struct index *ix, struct terms *t, const struct filter *f, struct err *e)
{
	struct bind b = { 0 };

	if (f->since) {
		if (edge(ix, "SELECT seq FROM records WHERE time >= ? ORDER BY time, seq LIMIT 1",
			 f->since, INT64_MAX, &b.number, e) < 0)
			return -e->code;
		add_term(t, "seq >=", &b);
	}
	if (f->until) {
		if (edge(ix,
			 "SELECT seq FROM records WHERE time <= ? "
			 "ORDER BY time DESC, seq DESC LIMIT 1",
			 f->until, -1, &b.number, e) < 0)
			return -e->code;
		add_term(t, "seq <=", &b);
	}
	return 0;
}

static int terms_build(struct index *ix, struct terms *t, const struct filter *f, struct err *e)
{
	add_run(t, f->run);
	add_equal(t, "outcome =", f->outcome);
	add_equal(t, "principal =", f->principal);
	add_equal(t, "agent =", f->agent);
	if (f->host && f->host[0] == '*')
		buf_puts(&t->sql, " AND host IS NOT NULL");
	else
		add_equal(t, "host =", f->host);
	return add_times(ix, t, f, e);
}

/* --- the statement --- */

static int bind_all(struct index *ix, sqlite3_stmt *q, const struct terms *t,
		    const struct types *types, struct err *e)
{
	int rc = SQLITE_OK;

	for (int i = 0; rc == SQLITE_OK && i < t->count; i++) {
		const struct bind *b = &t->binds[i];

		rc = b->text ? sqlite3_bind_text(q, i + 1, b->text, (int)b->n, SQLITE_STATIC)
			     : sqlite3_bind_int64(q, i + 1, b->number);
	}
	for (size_t i = 0; rc == SQLITE_OK && !types->all && i < types->count; i++)
		rc = sqlite3_bind_text(q, t->count + (int)i + 1, types->names[i], -1,
				       SQLITE_STATIC);
	return rc == SQLITE_OK ? 0 : index_fail(ix, rc, e);
}

static int compose(struct index *ix, const struct terms *t, const struct types *types,
		   bool newest_first, sqlite3_stmt **ret, struct err *e)
{
	static const char select[] = "SELECT seq, segment, at, len FROM records WHERE 1";
	CLEANUP(buf) struct buf sql = BUF_INIT(SELECT_MAX);

	if (types->all)
		buf_printf(&sql, "%s%s", select, buf_str(&t->sql));
	for (size_t i = 0; !types->all && i < types->count; i++)
		buf_printf(&sql, "%s%s AND type = ?%d%s", i ? " UNION ALL " : "", select,
			   t->count + (int)i + 1, buf_str(&t->sql));
	buf_puts(&sql, newest_first ? " ORDER BY seq DESC" : " ORDER BY seq");
	if (sql.failed || t->sql.failed)
		return err_nomem(e);
	return index_prepare(ix, buf_str(&sql), ret, e) < 0 ? -e->code
							    : bind_all(ix, *ret, t, types, e);
}

static int index_find_walk(struct index *ix, sqlite3_stmt *q, found_fn *found, void *data,
			   struct err *e)
{
	int rc, r = 0;

	while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
		struct spot at = { .seq = (uint64_t)sqlite3_column_int64(q, 0),
				   .segment = (uint64_t)sqlite3_column_int64(q, 1),
				   .at = (uint64_t)sqlite3_column_int64(q, 2),
				   .len = (size_t)sqlite3_column_int64(q, 3) };

		r = found(data, &at);
		if (r)
			return r;
	}
	return rc == SQLITE_DONE ? 0 : index_fail(ix, rc, e);
}

int index_find(struct index *ix, const struct filter *f, bool newest_first, found_fn *found,
	       void *data, struct err *e)
{
	CLEANUP(stmt) sqlite3_stmt *q = NULL;
	struct terms t = { .sql = BUF_INIT(SELECT_MAX) };
	struct types types = { 0 };
	int r = types_find(ix, f, &types, e);

	if (r == 0 && (types.all || types.count)) {
		r = terms_build(ix, &t, f, e);
		if (r == 0)
			r = compose(ix, &t, &types, newest_first, &q, e);
		if (r == 0)
			r = index_find_walk(ix, q, found, data, e);
	}
	buf_done(&t.sql);
	return r;
}
