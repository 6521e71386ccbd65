/* SPDX-License-Identifier: Apache-2.0 */
/* base/edit/edit_toml.c - read far enough to know where a statement begins and of which table it
 * is.
 */
#include "base/edit/edit_toml.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"

#define KEY_MAX 256
#define DEPTH_MAX 64
#define TABLE_MAX ((size_t)1 << 20)

/* What was found: the table, from its head to behind its last statement. */
struct toml_table {
	const char *text;
	size_t n;
	const char *section, *path; /* "servers", "servers.brig" */
	size_t from, own, to; /* own: to where its tables below begin; to 0: it is not there */
	bool inside, below;   /* of what follows: its own, or of a table below it */
	char head[KEY_MAX];   /* of the table that is being read */
};

static int not_understood(struct err *e)
{
	return err_refuse(e, ERR_CONFIG, EINVAL, "look at it with its own program",
			  "its text is not TOML, or has the entry in another form");
}

/* Behind the string that begins at `at`; 0: it does not end. */
static size_t skip_string(const char *p, size_t n, size_t at)
{
	const char quote = p[at];
	const bool lines = n - at >= 3 && p[at + 1] == quote && p[at + 2] == quote;

	for (at += lines ? 3 : 1; at < n; at++) {
		if (p[at] == '\\' && quote == '"')
			at++;
		else if (p[at] == '\n' && !lines)
			return 0;
		else if (p[at] == quote && !lines)
			return at + 1;
		else if (lines && n - at >= 3 && p[at] == quote && p[at + 1] == quote &&
			 p[at + 2] == quote && !(n - at > 3 && p[at + 3] == quote))
			return at + 3;
	}
	return 0;
}

/* Behind the line in which the statement that begins at `at` ends; 0: it does not end. */
static size_t skip_statement(const char *p, size_t n, size_t at)
{
	size_t depth = 0;

	while (at < n) {
		char c = p[at];

		if (c == '"' || c == '\'') {
			at = skip_string(p, n, at);
			if (!at)
				return 0;
			continue;
		}
		if (c == '\n' && !depth)
			return at + 1;
		if (c == '#') {
			const char *nl = memchr(p + at, '\n', n - at);

			at = nl ? (size_t)(nl - p) : n;
			continue;
		}
		if (c == '[' || c == '{')
			depth++;
		if ((c == ']' || c == '}') && !depth--)
			return 0;
		if (depth > DEPTH_MAX)
			return 0;
		at++;
	}
	return depth ? 0 : n;
}

/* The name that a statement begins with, without blanks and quotes, as far as it is wanted. false:
 * nothing ends it. */
static bool read_toml_name(const char *p, size_t n, char end, char out[KEY_MAX])
{
	size_t len = 0;
	char quote = '\0';

	for (size_t i = 0; i < n && p[i] != '\n'; i++) {
		out[len] = '\0';
		if (!quote && p[i] == end)
			return len > 0;
		if (quote ? p[i] == quote : p[i] == '"' || p[i] == '\'')
			quote = quote ? '\0' : p[i];
		else if ((quote || (p[i] != ' ' && p[i] != '\t')) && len < KEY_MAX - 1)
			out[len++] = p[i];
	}
	return false;
}

static bool is_below(const char *name, const char *top)
{
	return str_starts(name, top) && name[strlen(top)] == '.';
}

/* A line that begins a table. */
static int take_head(struct toml_table *t, size_t at, size_t end, struct err *e)
{
	const bool list = end - at > 1 && t->text[at + 1] == '[';
	size_t skip = list ? 2 : 1, len = strlen(t->path);
	bool plain;

	if (memchr(t->text + at, '\n', end - at - 1) ||
	    !read_toml_name(t->text + at + skip, end - at - skip, ']', t->head))
		return not_understood(e);
	plain = !list && end - at > len + 1 && memcmp(t->text + at + 1, t->path, len) == 0 &&
		t->text[at + 1 + len] == ']';
	t->below = t->inside && is_below(t->head, t->path);
	if (t->below)
		return 0;
	if (list && str_eq(t->head, t->section))
		return not_understood(e);
	if (is_below(t->head, t->path) || (str_eq(t->head, t->path) && (!plain || t->to)))
		return not_understood(e);
	t->inside = str_eq(t->head, t->path);
	return 0;
}

/* A member of a table. */
static int take_member(const struct toml_table *t, size_t at, size_t end, struct err *e)
{
	char name[KEY_MAX], whole[2 * KEY_MAX + 1];

	if (!read_toml_name(t->text + at, end - at, '=', name))
		return not_understood(e);
	(void)snprintf(whole, sizeof(whole), "%s%s%s", t->head, t->head[0] ? "." : "", name);
	if (t->inside)
		return 0;
	return str_eq(whole, t->section) || str_eq(whole, t->path) || is_below(whole, t->path) ||
			       (!t->head[0] && is_below(whole, t->section))
		       ? not_understood(e)
		       : 0;
}

static int take_statement(struct toml_table *t, size_t line, size_t at, size_t end, struct err *e)
{
	bool head = t->text[at] == '[';
	int r = head ? take_head(t, at, end, e) : take_member(t, at, end, e);

	if (r < 0 || !t->inside)
		return r;
	if (head && !t->below)
		t->from = line;
	if (!t->below)
		t->own = end;
	t->to = end;
	return 0;
}

static int find_table(struct toml_table *t, struct err *e)
{
	size_t at = 0;

	if (memchr(t->text, '\0', t->n))
		return not_understood(e);
	while (at < t->n) {
		size_t line = at, end;

		while (at < t->n && (t->text[at] == ' ' || t->text[at] == '\t'))
			at++;
		end = skip_statement(t->text, t->n, at);
		if (!end)
			return not_understood(e);
		/* Blank lines and comments are nobody's. */
		if (at < t->n && !strchr("#\r\n", t->text[at]) &&
		    take_statement(t, line, at, end, e) < 0)
			return -e->code;
		at = end;
	}
	return 0;
}

int edit_toml_table(const struct edit_text *in, const char *section, const char *name,
		    const char *value, struct buf *out, struct err *e)
{
	CLEANUP(buf) struct buf own = BUF_INIT(TABLE_MAX);
	char path[KEY_MAX];
	struct toml_table t = { .text = in->p, .n = in->n, .section = section, .path = path };

	(void)snprintf(path, sizeof(path), "%s.%s", section, name);
	if (find_table(&t, e) < 0)
		return -e->code;
	if (!value && !t.to)
		return -ENOENT;
	if (!t.to)
		t.from = t.own = t.to = t.n;
	/* The empty line that was put in front goes with it. */
	if (!value && t.from > 1 && t.text[t.from - 1] == '\n' && t.text[t.from - 2] == '\n')
		t.from--;
	if (value)
		buf_printf(&own, "%s%s[%s]\n%s", t.from && t.text[t.from - 1] != '\n' ? "\n" : "",
			   t.from && t.from == t.n ? "\n" : "", path, value);
	edit_replace(in, (struct edit_span){ t.from, value ? t.own : t.to }, buf_str(&own), own.len,
		     out);
	return own.failed ? err_nomem(e) : 0;
}
