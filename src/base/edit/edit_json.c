/* SPDX-License-Identifier: Apache-2.0 */
#include "base/edit/edit_json.h"

#include <stdint.h>
#include <string.h>

#define DEPTH_MAX 64

int edit_json_malformed(struct err *e)
{
	return err_refuse(e, ERR_CONFIG, EINVAL, "look at it with its own program",
			  "its text is not an object with a section of entries");
}

/* ---- reading JSON with comments, far enough to find places ---- */

size_t edit_json_blank(const struct edit_text *t, size_t at)
{
	while (at < t->n) {
		const char *p = t->p + at;

		if (strchr(" \t\r\n", *p) && *p) {
			at++;
		} else if (at + 1 < t->n && p[0] == '/' && p[1] == '/') {
			const char *nl = memchr(p, '\n', t->n - at);

			at = nl ? (size_t)(nl - t->p) : t->n;
		} else if (at + 1 < t->n && p[0] == '/' && p[1] == '*') {
			const char *end = memmem(p + 2, t->n - at - 2, "*/", 2);

			if (!end)
				return t->n;
			at = (size_t)(end - t->p) + 2;
		} else {
			break;
		}
	}
	return at;
}

/* Behind the string that begins at `at`; 0: it does not end. */
static size_t skip_string(const struct edit_text *t, size_t at)
{
	for (at++; at < t->n; at++) {
		if (t->p[at] == '\\')
			at++;
		else if (t->p[at] == '"')
			return at + 1;
		else if (t->p[at] == '\n')
			return 0;
	}
	return 0;
}

/* Behind the value that begins at `at`; 0: there is none. */
static size_t skip_value(const struct edit_text *t, size_t at)
{
	char open[DEPTH_MAX];
	size_t depth = 0;

	do {
		char c;

		at = edit_json_blank(t, at);
		if (at >= t->n)
			return 0;
		c = t->p[at];
		if (c == '"') {
			at = skip_string(t, at);
			if (!at)
				return 0;
		} else if (c == '{' || c == '[') {
			if (depth == DEPTH_MAX)
				return 0;
			open[depth++] = c;
			at++;
		} else if (c == '}' || c == ']') {
			if (!depth || open[--depth] != (c == '}' ? '{' : '['))
				return 0;
			at++;
		} else if (depth && (c == ',' || c == ':')) {
			at++;
		} else {
			size_t len = 0;

			while (at + len < t->n && !strchr(",:{}[]\" \t\r\n/", t->p[at + len]))
				len++;
			if (!len)
				return 0;
			at += len;
		}
	} while (depth);
	return at;
}

int edit_json_find(const struct edit_text *t, size_t at, const char *name, struct edit_member *ret,
		   struct err *e)
{
	size_t before = SIZE_MAX;

	*ret = (struct edit_member){ .object.from = at, .before = SIZE_MAX };
	if (at >= t->n || t->p[at] != '{')
		return edit_json_malformed(e);
	for (at = edit_json_blank(t, at + 1); at < t->n && t->p[at] == '"';) {
		struct edit_span key = { at, skip_string(t, at) }, value;
		size_t colon = key.to ? edit_json_blank(t, key.to) : t->n;
		bool hit = key.to && key.to - key.from == strlen(name) + 2 &&
			   memcmp(t->p + key.from + 1, name, strlen(name)) == 0;

		if (colon >= t->n || t->p[colon] != ':')
			return edit_json_malformed(e);
		value.from = edit_json_blank(t, colon + 1);
		value.to = skip_value(t, value.from);
		if (!value.to || (hit && ret->value.to))
			return edit_json_malformed(e);
		ret->last = (struct edit_span){ key.from, value.to };
		ret->comma = 0;
		if (hit) {
			ret->key = key;
			ret->value = value;
			ret->before = before;
		}
		at = edit_json_blank(t, value.to);
		if (at < t->n && t->p[at] == ',') {
			before = at;
			ret->comma = at + 1;
			if (hit)
				ret->after = at + 1;
			at = edit_json_blank(t, at + 1);
		} else {
			break;
		}
	}
	if (at >= t->n || t->p[at] != '}')
		return edit_json_malformed(e);
	ret->object.to = at + 1;
	return 0;
}

/* ---- JSON, changed ---- */

/* What stands before a member in its line, if that is blank. */
static struct edit_span indent(const struct edit_text *t, size_t at)
{
	size_t from = at;

	while (from && (t->p[from - 1] == ' ' || t->p[from - 1] == '\t'))
		from--;
	return from && t->p[from - 1] == '\n' ? (struct edit_span){ from, at }
					      : (struct edit_span){ 0, 0 };
}

void edit_json_add(const struct edit_text *t, const struct edit_member *o, const char *name,
		   const char *value, struct buf *out)
{
	size_t at = o->last.to ? (o->comma ? o->comma : o->last.to) : o->object.from + 1;
	struct edit_span in = o->last.to ? indent(t, o->last.from) : (struct edit_span){ 0, 0 };

	buf_add(out, t->p, at);
	if (o->last.to && !o->comma)
		buf_putc(out, ',');
	if (in.from) {
		buf_putc(out, '\n');
		buf_add(out, t->p + in.from, in.to - in.from);
	} else {
		buf_puts(out, o->last.to ? " " : "\n  ");
	}
	buf_printf(out, "\"%s\": %s", name, value);
	if (!o->last.to)
		buf_putc(out, '\n');
	buf_add(out, t->p + at, t->n - at);
}

static size_t skip_white(const struct edit_text *t, size_t at)
{
	while (at < t->n && t->p[at] && strchr(" \t\r\n", t->p[at]))
		at++;
	return at;
}

void edit_json_cut(const struct edit_text *t, const struct edit_member *o, struct buf *out)
{
	size_t from = o->key.from, to = o->after ? skip_white(t, o->after) : o->value.to;
	size_t first = o->object.from + 1, end = skip_white(t, to);

	if (!o->after && o->before != SIZE_MAX) {
		from = o->before;
	} else if (skip_white(t, first) == from && end == o->object.to - 1) {
		from = first;
		to = end;
	}
	buf_add(out, t->p, from);
	buf_add(out, t->p + to, t->n - to);
}

bool edit_json_empty(const struct edit_text *t, const struct edit_member *o)
{
	return !o->last.to && skip_white(t, o->object.from + 1) == o->object.to - 1;
}
