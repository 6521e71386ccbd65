/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/sandbox_print.c - "sandbox list" and "sandbox get": what there is, for people and
 * programs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/sandbox/sandbox_cli.h"

#define CELLS_MAX ((size_t)256 << 20)

enum column {
	COL_ID,
	COL_NAME,
	COL_STATE,
	COL_BACKEND,
	COL_RUNNING,
	COL_AGE,
	COL_FOLDER,
	COL_LABELS,
	COLS
};

static const char *const heads[COLS] = {
	[COL_ID] = "ID",           [COL_NAME] = "NAME",       [COL_STATE] = "STATE",
	[COL_BACKEND] = "BACKEND", [COL_RUNNING] = "RUNNING", [COL_AGE] = "AGE",
	[COL_FOLDER] = "FOLDER",   [COL_LABELS] = "LABELS",
};

/* A table is as wide as what is in it: names have up to 63 characters. */
struct rows {
	struct buf json, cells; /* cells: COLS texts a row, each with its NUL */
	size_t width[COLS];
	bool as_json, any;
};

/* ---- words ---- */

static void sandbox_print_put_clean(struct buf *b, const char *text)
{
	clean_put(b, text, strlen(text));
}

/* Seconds since an RFC 3339 time of the daemon's; -1: there is none. */
static int64_t seconds_since(const char *text)
{
	struct tm t = { 0 };
	time_t then;

	if (!text || !strptime(text, "%Y-%m-%dT%H:%M:%S", &t))
		return -1;
	then = timegm(&t);
	return (int64_t)(time(NULL) - then);
}

static void sandbox_print_put_time(struct buf *b, int64_t s)
{
	static const struct {
		int64_t seconds;
		char unit;
	} units[] = { { (int64_t)48 * 3600, 'd' }, { (int64_t)2 * 3600, 'h' }, { 120, 'm' } };
	static const int64_t each[] = { (int64_t)24 * 3600, 3600, 60 };

	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (s >= units[i].seconds) {
			buf_printf(b, "%lld%c", (long long)(s / each[i]), units[i].unit);
			return;
		}
	buf_printf(b, "%llds", (long long)(s > 0 ? s : 0));
}

static void put_state(struct buf *b, const struct jread *v)
{
	const char *state = jread_str(v, "state"), *reason = jread_str(v, "reason");

	sandbox_print_put_clean(b, state ? state : "-");
	if (!reason || !*reason || (state && str_eq(state, reason)))
		return;
	buf_puts(b, " (");
	sandbox_print_put_clean(b, reason);
	buf_putc(b, ')');
}

static void put_labels(struct buf *b, const struct jread *v)
{
	const struct jread *labels = jread_get(v, "labels");
	bool any = false;

	for (void *it = jread_first(labels); it; it = jread_next(labels, it)) {
		const char *value = jread_text(jread_value(it));

		if (any)
			buf_putc(b, ' ');
		any = true;
		sandbox_print_put_clean(b, jread_key(it));
		buf_putc(b, '=');
		sandbox_print_put_clean(b, value ? value : "");
	}
}

/* ---- list ---- */

static const char *folder_of(const struct jread *v)
{
	return jread_str(jread_get(jread_get(v, "spec"), "workspace"), "path");
}

static void put_cell(struct buf *b, enum column c, const struct jread *v)
{
	const char *text = NULL;

	if (c == COL_FOLDER)
		text = folder_of(v);
	else if (c == COL_ID || c == COL_NAME || c == COL_BACKEND)
		text = jread_str(v, c == COL_ID ? "id" : c == COL_NAME ? "name" : "backend");
	if (c == COL_STATE)
		put_state(b, v);
	else if (c == COL_RUNNING)
		buf_printf(b, "%lld", (long long)jread_int(v, "execs_running", 0));
	else if (c == COL_AGE && seconds_since(jread_str(v, "created")) >= 0)
		sandbox_print_put_time(b, seconds_since(jread_str(v, "created")));
	else if (c == COL_LABELS)
		put_labels(b, v);
	else
		sandbox_print_put_clean(b, text ? text : "-");
}

static int on_row(void *arg, const struct jread *v, struct err *e UNUSED)
{
	struct rows *r = arg;

	if (r->as_json) {
		if (r->any)
			buf_putc(&r->json, ',');
		jread_write(v, &r->json);
	}
	for (int c = 0; c < COLS && !r->as_json; c++) {
		CLEANUP(buf) struct buf b = BUF_INIT((size_t)64 << 10);

		put_cell(&b, (enum column)c, v);
		buf_add(&r->cells, buf_str(&b), b.len + 1);
		if (b.len > r->width[c])
			r->width[c] = b.len;
	}
	r->any = true;
	return 0;
}

static void print_row(const struct rows *r, const char *const cell[COLS])
{
	for (int c = 0; c < COLS - 1; c++)
		(void)printf("%-*s  ", (int)r->width[c], cell[c]);
	(void)printf("%s\n", cell[COLS - 1]);
}

static int print_rows(struct rows *r, struct err *e)
{
	const char *at = r->cells.data, *end = at + r->cells.len, *cell[COLS];

	if (r->cells.failed)
		return err_nomem(e);
	for (int c = 0; c < COLS; c++)
		if (strlen(heads[c]) > r->width[c])
			r->width[c] = strlen(heads[c]);
	print_row(r, heads);
	while (at < end) {
		for (int c = 0; c < COLS; at += strlen(at) + 1)
			cell[c++] = at;
		print_row(r, cell);
	}
	return 0;
}

int verb_list(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	struct rows r = { .json = BUF_INIT(CELLS_MAX),
			  .cells = BUF_INIT(CELLS_MAX),
			  .as_json = a->json };
	int done = sandbox_each(d, a, on_row, &r, e);

	if (done == 0 && a->json)
		(void)printf("{\"sandboxes\":[%s]}\n", buf_str(&r.json));
	else if (done == 0 && r.any)
		done = print_rows(&r, e);
	else if (done == 0 && isatty(STDOUT_FILENO))
		message_print("brig: note", "there are none; brig sandbox create makes one");
	buf_done(&r.json);
	buf_done(&r.cells);
	return done;
}

/* ---- get ---- */

static void sandbox_print_put_line(struct buf *b, const char *key, const char *text)
{
	if (!text || !*text)
		return;
	buf_printf(b, "%-12s", key);
	sandbox_print_put_clean(b, text);
	buf_putc(b, '\n');
}

/* Long ago, or in some time. */
static void put_when(struct buf *b, const char *key, const char *text)
{
	int64_t ago = seconds_since(text);

	if (!text)
		return;
	buf_printf(b, "%-12s", key);
	sandbox_print_put_clean(b, text);
	buf_puts(b, ago < 0 ? " (in " : " (");
	sandbox_print_put_time(b, ago < 0 ? -ago : ago);
	buf_puts(b, ago < 0 ? ")\n" : " ago)\n");
}

static void put_companions(struct buf *b, const struct jread *list)
{
	for (size_t i = 0; i < jread_count(list); i++) {
		const struct jread *c = jread_at(list, i);
		CLEANUP(buf) struct buf line = BUF_INIT(4096);
		const char *name = jread_str(c, "name"), *address = jread_str(c, "address");

		buf_printf(&line, "%s ", name ? name : "-");
		put_state(&line, c);
		if (address)
			buf_printf(&line, " %s", address);
		sandbox_print_put_line(b, i ? "" : "companions", buf_str(&line));
	}
}

static void put_ports(struct buf *b, const struct jread *list)
{
	for (size_t i = 0; i < jread_count(list); i++) {
		CLEANUP(buf) struct buf line = BUF_INIT(4096);
		const struct jread *p = jread_at(list, i);

		if (jread_text(p))
			buf_puts(&line, jread_text(p));
		else
			jread_write(p, &line);
		sandbox_print_put_line(b, i ? "" : "ports", buf_str(&line));
	}
}

static void sandbox_print_put_error(struct buf *b, const struct jread *error)
{
	sandbox_print_put_line(b, "error", jread_str(error, "what"));
	sandbox_print_put_line(b, "hint", jread_str(error, "hint"));
}

/* What people ask for first; the rest, settings and isolation among it, is in the JSON. */
static void print_one(const struct jread *v)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	CLEANUP(buf) struct buf state = BUF_INIT(4096);
	CLEANUP(buf) struct buf labels = BUF_INIT((size_t)64 << 10);
	const struct jread *spec = jread_get(v, "spec");

	put_state(&state, v);
	put_labels(&labels, v);
	sandbox_print_put_line(&b, "id", jread_str(v, "id"));
	sandbox_print_put_line(&b, "name", jread_str(v, "name"));
	sandbox_print_put_line(&b, "state", buf_str(&state));
	sandbox_print_put_error(&b, jread_get(v, "error"));
	sandbox_print_put_line(&b, "backend", jread_str(v, "backend"));
	sandbox_print_put_line(&b, "image", jread_str(spec, "image"));
	sandbox_print_put_line(&b, "network", jread_str(spec, "network"));
	sandbox_print_put_line(&b, "workspace", jread_str(jread_get(spec, "workspace"), "path"));
	sandbox_print_put_line(&b, "labels", buf_str(&labels));
	buf_printf(&b, "%-12s%lld\n", "running", (long long)jread_int(v, "execs_running", 0));
	put_companions(&b, jread_get(v, "companions"));
	put_ports(&b, jread_get(v, "ports"));
	put_when(&b, "created", jread_str(v, "created"));
	put_when(&b, "started", jread_str(v, "started"));
	put_when(&b, "expires", jread_str(v, "expires"));
	(void)printf("%s", buf_str(&b));
}

/* Into a pipe or a file it is what it always was: JSON. */
int verb_get(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	char target[256];

	if (sandbox_target_of(target, a->rest[0], "", e) < 0 ||
	    sandbox_ask(d, "GET", target, NULL, &v, e) < 0)
		return -e->code;
	if (a->json || !isatty(STDOUT_FILENO)) {
		sandbox_print_json(v);
		return 0;
	}
	print_one(v);
	if (!a->quiet)
		message_print("brig: note", "--json has its settings and what is enforced");
	return 0;
}
