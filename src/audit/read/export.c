/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/read/export.h"

#include <string.h>

#include "audit/events.h"
#include "base/text/clean.h"
#include "base/text/str.h"

static const char *const names[FORMAT_COUNT] = {
	[FORMAT_TEXT] = "text",
	[FORMAT_JSON] = "json",
	[FORMAT_JSONL] = "jsonl",
	[FORMAT_RAW] = "raw",
	[FORMAT_CSV] = "csv",
	[FORMAT_OCSF] = "ocsf",
	[FORMAT_OCSF_JSONL] = "ocsf-jsonl",
};

bool format_by_name(const char *name, enum format *ret)
{
	for (int i = 0; i < FORMAT_COUNT; i++)
		if (str_eq(name, names[i])) {
			*ret = (enum format)i;
			return true;
		}
	return false;
}

static bool one_of(struct slice key, const char *const *keys)
{
	for (; *keys; keys++)
		if (slice_eq(key, *keys))
			return true;
	return false;
}

void export_value(struct buf *out, const struct pair *p)
{
	CLEANUP(buf) struct buf plain = BUF_INIT(ENTRY_LINE_MAX);

	if (p->kind != PAIR_STRING) {
		clean_put(out, p->value.p, p->value.n);
		return;
	}
	slice_decode(p->value, &plain);
	clean_put(out, buf_str(&plain), plain.len);
	out->failed |= plain.failed;
}

void export_json_value(struct buf *out, const struct pair *p)
{
	bool text = p->kind == PAIR_STRING;

	buf_puts(out, text ? "\"" : "");
	clean_put_json(out, p->value.p, p->value.n);
	buf_puts(out, text ? "\"" : "");
}

/* --- JSON --- */

static void json_record(struct buf *out, const struct entry *en)
{
	static const char *const chain[] = { "prev", "mac", NULL };
	const char *comma = "";
	struct pairs it;
	struct pair p;

	buf_putc(out, '{');
	pairs_init(&it, en->line, en->len);
	while (pairs_next(&it, &p) > 0) {
		if (one_of(p.key, chain))
			continue;
		buf_printf(out, "%s\"", comma);
		clean_put_json(out, p.key.p, p.key.n);
		buf_puts(out, "\":");
		export_json_value(out, &p);
		comma = ",";
	}
	buf_putc(out, '}');
}

/* --- text --- */

static bool needs_quotes(const char *p, size_t n)
{
	return !n || memchr(p, ' ', n) || memchr(p, '"', n) || memchr(p, '=', n);
}

static void text_pair(struct buf *out, const struct pair *p)
{
	CLEANUP(buf) struct buf value = BUF_INIT(ENTRY_LINE_MAX);
	bool quoted;

	export_value(&value, p);
	quoted = p->kind == PAIR_STRING && needs_quotes(buf_str(&value), value.len);
	buf_putc(out, ' ');
	clean_put(out, p->key.p, p->key.n);
	buf_printf(out, quoted ? "=\"%s\"" : "=%s", buf_str(&value));
	out->failed |= value.failed;
}

static void text_record(struct buf *out, const struct entry *en)
{
	static const char *const shown[] = { "seq",       "time", "type", "run", "policy",
					     "principal", "prev", "mac",  NULL };
	CLEANUP(buf) struct buf type = BUF_INIT(ENTRY_LINE_MAX);
	struct pairs it;
	struct pair p;

	clean_put(out, en->when.p, en->when.n >= 10 ? 10 : en->when.n);
	buf_putc(out, ' ');
	clean_put(out, en->when.n >= 19 ? en->when.p + 11 : "", en->when.n >= 19 ? 8 : 0);
	buf_puts(out, "Z  ");
	clean_put(out, en->run.p ? en->run.p : "--------",
		  en->run.p && en->run.n < 8 ? en->run.n : 8);
	clean_put(&type, en->type.p, en->type.n);
	buf_printf(out, "  %-17s", buf_str(&type));
	out->failed |= type.failed;
	pairs_init(&it, en->line, en->len);
	while (pairs_next(&it, &p) > 0)
		if (!one_of(p.key, shown))
			text_pair(out, &p);
	buf_putc(out, '\n');
}

/* --- CSV --- */

/* The columns; what has none of its own is an object in the last, `details`. */
static const char *const columns[] = { "seq",     "time",   "type",        "run",     "principal",
				       "agent",   "policy", "rule",        "backend", "argv0",
				       "outcome", "rc",     "duration_ms", "host",    "port",
				       "reason",  NULL };

/* Spreadsheets run a cell that begins like this, and its full-width twins. */
static bool is_formula(const char *p)
{
	static const char *const heads[] = {
		"=", "+", "-", "@", "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0"
	};

	for (size_t i = 0; i < ARRAY_LEN(heads); i++)
		if (str_starts(p, heads[i]))
			return true;
	return false;
}

static void csv_cell(struct buf *out, const char *text, bool guarded)
{
	bool formula = guarded && is_formula(text);

	if (!formula && !strpbrk(text, ",\"\r\n") && text[0] != ' ') {
		buf_puts(out, text);
		return;
	}
	buf_puts(out, formula ? "\"'" : "\"");
	for (; *text; text++) {
		buf_putc(out, *text);
		if (*text == '"')
			buf_putc(out, '"');
	}
	buf_putc(out, '"');
}

static void csv_details(struct buf *out, const struct entry *en)
{
	static const char *const chain[] = { "prev", "mac", NULL };
	CLEANUP(buf) struct buf object = BUF_INIT(2 * ENTRY_LINE_MAX);
	struct pairs it;
	struct pair p;

	pairs_init(&it, en->line, en->len);
	while (pairs_next(&it, &p) > 0) {
		if (one_of(p.key, columns) || one_of(p.key, chain))
			continue;
		buf_puts(&object, object.len ? ",\"" : "{\"");
		clean_put_json(&object, p.key.p, p.key.n);
		buf_puts(&object, "\":");
		export_json_value(&object, &p);
	}
	if (object.len)
		buf_putc(&object, '}');
	csv_cell(out, buf_str(&object), true);
	out->failed |= object.failed;
}

static void csv_record(struct buf *out, const struct entry *en)
{
	struct pair p;

	for (const char *const *c = columns; *c; c++) {
		CLEANUP(buf) struct buf cell = BUF_INIT(ENTRY_LINE_MAX);

		bool there = entry_get(en, *c, &p);

		if (there)
			export_value(&cell, &p);
		csv_cell(out, buf_str(&cell), there && p.kind != PAIR_NUMBER);
		out->failed |= cell.failed;
		buf_putc(out, ',');
	}
	csv_details(out, en);
	buf_puts(out, "\r\n");
}

static void csv_head(struct buf *out)
{
	for (const char *const *c = columns; *c; c++)
		buf_printf(out, "%s,", *c);
	buf_puts(out, "details\r\n");
}

/* --- all of them --- */

/* Behind the escapes the line means the same, but its mac is not that of these bytes any more. */
static void raw_record(struct exporter *x, const struct entry *en)
{
	if (x->terminal)
		clean_put_json(x->out, en->line, en->len);
	else
		buf_add(x->out, en->line, en->len);
}

static bool is_array(enum format f)
{
	return f == FORMAT_JSON || f == FORMAT_OCSF;
}

void export_begin(struct exporter *x, enum format f, struct buf *out)
{
	*x = (struct exporter){ .format = f, .out = out };
	if (is_array(f))
		buf_putc(out, '[');
	else if (f == FORMAT_CSV)
		csv_head(out);
}

void export_entry(struct exporter *x, const struct entry *en)
{
	if (is_array(x->format))
		buf_puts(x->out, x->some ? ",\n" : "\n");
	x->some = true;
	switch (x->format) {
	case FORMAT_TEXT:
		text_record(x->out, en);
		break;
	case FORMAT_CSV:
		csv_record(x->out, en);
		break;
	case FORMAT_RAW:
		raw_record(x, en);
		break;
	case FORMAT_OCSF:
	case FORMAT_OCSF_JSONL:
		ocsf_event(x->out, en);
		break;
	default:
		json_record(x->out, en);
	}
	if (x->format == FORMAT_JSONL || x->format == FORMAT_OCSF_JSONL || x->format == FORMAT_RAW)
		buf_putc(x->out, '\n');
}

void export_end(struct exporter *x)
{
	if (is_array(x->format))
		buf_puts(x->out, x->some ? "\n]\n" : "]\n");
}
