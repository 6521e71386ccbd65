/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/mcp/host_entry.h"

#include <stdbool.h>
#include <string.h>

#include "apps/mcp/host_toml.h"

#define DEPTH_MAX 64

/* Where something stands in the text. */
struct entry_span {
	size_t from, to;
};

/* An object, and one member of it. */
struct entry_place {
	struct entry_span object;     /* from '{' to behind '}' */
	struct entry_span key, value; /* value.to 0: the member is not there */
	struct entry_span last;       /* the last member, key to value; to 0: there is none */
	size_t before;                /* the comma before the member; SIZE_MAX: none */
	size_t comma;                 /* behind the comma after the last member; 0: none */
	size_t after;                 /* behind the comma after the member; 0: none */
};

struct entry_text {
	const char *p;
	size_t n;
};

static int malformed(struct err *e)
{
	return err_refuse(e, ERR_CONFIG, EINVAL, "look at it with its own program",
			  "its text is not an object with a section of entries");
}

/* ---- reading JSON with comments, far enough to find places ---- */

static size_t skip_blank(const struct entry_text *t, size_t at)
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
static size_t skip_string(const struct entry_text *t, size_t at)
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
static size_t skip_value(const struct entry_text *t, size_t at)
{
	char open[DEPTH_MAX];
	size_t depth = 0;

	do {
		char c;

		at = skip_blank(t, at);
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

/* Finds a member of the object that begins at `at`. */
static int host_entry_find(const struct entry_text *t, size_t at, const char *name,
			   struct entry_place *ret, struct err *e)
{
	size_t before = SIZE_MAX;

	*ret = (struct entry_place){ .object.from = at, .before = SIZE_MAX };
	if (at >= t->n || t->p[at] != '{')
		return malformed(e);
	for (at = skip_blank(t, at + 1); at < t->n && t->p[at] == '"';) {
		struct entry_span key = { at, skip_string(t, at) }, value;
		size_t colon = key.to ? skip_blank(t, key.to) : t->n;
		bool hit = key.to && key.to - key.from == strlen(name) + 2 &&
			   memcmp(t->p + key.from + 1, name, strlen(name)) == 0;

		if (colon >= t->n || t->p[colon] != ':')
			return malformed(e);
		value.from = skip_blank(t, colon + 1);
		value.to = skip_value(t, value.from);
		if (!value.to || (hit && ret->value.to))
			return malformed(e);
		ret->last = (struct entry_span){ key.from, value.to };
		ret->comma = 0;
		if (hit) {
			ret->key = key;
			ret->value = value;
			ret->before = before;
		}
		at = skip_blank(t, value.to);
		if (at < t->n && t->p[at] == ',') {
			before = at;
			ret->comma = at + 1;
			if (hit)
				ret->after = at + 1;
			at = skip_blank(t, at + 1);
		} else {
			break;
		}
	}
	if (at >= t->n || t->p[at] != '}')
		return malformed(e);
	ret->object.to = at + 1;
	return 0;
}

/* ---- JSON, changed ---- */

/* What stands before a member in its line, if that is blank. */
static struct entry_span indent(const struct entry_text *t, size_t at)
{
	size_t from = at;

	while (from && (t->p[from - 1] == ' ' || t->p[from - 1] == '\t'))
		from--;
	return from && t->p[from - 1] == '\n' ? (struct entry_span){ from, at }
					      : (struct entry_span){ 0, 0 };
}

static void put_member(const struct entry_text *t, const struct entry_place *o, const char *name,
		       const char *value, struct buf *out)
{
	size_t at = o->last.to ? (o->comma ? o->comma : o->last.to) : o->object.from + 1;
	struct entry_span in = o->last.to ? indent(t, o->last.from) : (struct entry_span){ 0, 0 };

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

static int json_put(const struct entry_text *t, const char *section, const char *name,
		    const char *value, struct buf *out, struct err *e)
{
	CLEANUP(buf) struct buf whole = BUF_INIT(1 << 16);
	struct entry_place top, in;
	size_t begin = skip_blank(t, 0);

	if (begin >= t->n) {
		buf_printf(out, "{\n  \"%s\": {\n    \"%s\": %s\n  }\n}\n", section, name, value);
		return 0;
	}
	if (host_entry_find(t, begin, section, &top, e) < 0)
		return -e->code;
	if (skip_blank(t, top.object.to) < t->n)
		return malformed(e);
	if (!top.value.to) {
		buf_printf(&whole, "{\"%s\": %s}", name, value);
		put_member(t, &top, section, buf_str(&whole), out);
		return 0;
	}
	if (host_entry_find(t, top.value.from, name, &in, e) < 0)
		return -e->code;
	if (!in.value.to) {
		put_member(t, &in, name, value, out);
		return 0;
	}
	buf_add(out, t->p, in.value.from);
	buf_puts(out, value);
	buf_add(out, t->p + in.value.to, t->n - in.value.to);
	return 0;
}

static size_t skip_white(const struct entry_text *t, size_t at)
{
	while (at < t->n && t->p[at] && strchr(" \t\r\n", t->p[at]))
		at++;
	return at;
}

/* With the comma that it had; an object that had nothing else is "{}" again. */
static void cut_member(const struct entry_text *t, const struct entry_place *o, struct buf *out)
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

static int json_cut(const struct entry_text *t, const char *section, const char *name,
		    struct buf *out, struct err *e)
{
	struct entry_place top, in;
	size_t begin = skip_blank(t, 0);

	if (begin >= t->n)
		return -ENOENT;
	if (host_entry_find(t, begin, section, &top, e) < 0)
		return -e->code;
	if (!top.value.to)
		return -ENOENT;
	if (host_entry_find(t, top.value.from, name, &in, e) < 0)
		return -e->code;
	if (!in.value.to)
		return -ENOENT;
	cut_member(t, &in, out);
	return 0;
}

int entry_put(enum entry_form form, const char *text, size_t n, const char *section,
	      const char *name, const char *value, struct buf *out, struct err *e)
{
	const struct entry_text t = { text, n };

	return form == ENTRY_TOML ? toml_change(text, n, section, name, value, out, e)
				  : json_put(&t, section, name, value, out, e);
}

int entry_cut(enum entry_form form, const char *text, size_t n, const char *section,
	      const char *name, struct buf *out, struct err *e)
{
	const struct entry_text t = { text, n };

	return form == ENTRY_TOML ? toml_change(text, n, section, name, NULL, out, e)
				  : json_cut(&t, section, name, out, e);
}

enum entry_section entry_section(const char *text, size_t n, const char *section)
{
	const struct entry_text t = { text, n };
	struct err none = { 0 };
	struct entry_place top, in;

	if (host_entry_find(&t, skip_blank(&t, 0), section, &top, &none) < 0 || !top.value.to)
		return SECTION_ABSENT;
	if (host_entry_find(&t, top.value.from, "", &in, &none) < 0 || in.last.to)
		return SECTION_FULL;
	return skip_white(&t, in.object.from + 1) == in.object.to - 1 ? SECTION_EMPTY
								      : SECTION_FULL;
}

int entry_cut_section(const char *text, size_t n, const char *section, struct buf *out)
{
	const struct entry_text t = { text, n };
	struct err none = { 0 };
	struct entry_place top;

	if (entry_section(text, n, section) != SECTION_EMPTY ||
	    host_entry_find(&t, skip_blank(&t, 0), section, &top, &none) < 0)
		return -ENOENT;
	cut_member(&t, &top, out);
	return 0;
}
