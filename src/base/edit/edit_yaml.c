/* SPDX-License-Identifier: Apache-2.0 */
#include "base/edit/edit_yaml.h"

#include <string.h>

#include "base/text/str.h"

size_t edit_yaml_indent(const struct edit_text *t, size_t line)
{
	size_t at = t->start[line], end = t->start[line + 1];

	while (at < end && t->p[at] == ' ')
		at++;
	return at - t->start[line];
}

/* The first character of a line that is not a blank; a newline stands for none. */
static char first_char(const struct edit_text *t, size_t line)
{
	size_t at = t->start[line] + edit_yaml_indent(t, line);

	return at < t->start[line + 1] ? t->p[at] : '\n';
}

bool edit_yaml_has_content(const struct edit_text *t, size_t line)
{
	return !strchr("#\r\n\t", first_char(t, line));
}

size_t edit_yaml_at(const struct edit_text *t, int line, int column)
{
	size_t at, end;

	if (line < 1 || (size_t)line > t->lines)
		return t->n;
	at = t->start[line - 1];
	end = t->start[line];
	for (int i = 1; i < column && at < end; i++) {
		size_t len = utf8_len(t->p + at, end - at);

		at += len ? len : 1;
	}
	return at;
}

bool edit_yaml_key_leads(const struct edit_text *t, const struct node *n, size_t *len)
{
	size_t line = (size_t)n->key_line - 1, k = strlen(n->key), at;
	bool quoted;

	if (n->key_line < 1 || line >= t->lines || !edit_yaml_has_content(t, line) ||
	    edit_yaml_indent(t, line) + 1 != (size_t)n->key_column)
		return false;
	at = t->start[line] + edit_yaml_indent(t, line);
	quoted = t->p[at] == '"' || t->p[at] == '\'';
	*len = k + (quoted ? 2 : 0);
	return at + *len <= t->n && memcmp(t->p + at + quoted, n->key, k) == 0;
}

size_t edit_yaml_block_end(const struct edit_text *t, size_t from, size_t outer)
{
	size_t end = from + 1;

	for (size_t i = from + 1; i < t->lines; i++) {
		bool deeper = edit_yaml_indent(t, i) > outer;

		if (edit_yaml_has_content(t, i) && !deeper)
			break;
		if (edit_yaml_has_content(t, i) || (deeper && first_char(t, i) == '#'))
			end = i + 1;
	}
	return end;
}

size_t edit_yaml_content_end(const struct edit_text *t, size_t from, size_t to)
{
	while (to > from && !edit_yaml_has_content(t, to - 1))
		to--;
	return to;
}

/* Moves from the opening quote to the closing one. */
static size_t skip_quotes(const struct edit_text *t, size_t at)
{
	char quote = t->p[at++];

	while (at < t->n && t->p[at] != quote)
		at += quote == '"' && t->p[at] == '\\' ? 2 : 1;
	return at;
}

static size_t comment_end(const struct edit_text *t, size_t at)
{
	while (at < t->n && t->p[at] != '\n')
		at++;
	return at;
}

size_t edit_yaml_flow_end(const struct edit_text *t, size_t at)
{
	bool collection = at < t->n && strchr("[{", t->p[at]), fresh = true;
	size_t depth = 0, i;

	for (i = at; i < t->n; i++) {
		char c = t->p[i];

		if ((c == '"' || c == '\'') && fresh)
			i = skip_quotes(t, i);
		else if (c == '#' && i && strchr(" \t\n", t->p[i - 1]))
			i = comment_end(t, i);
		else if (c == '[' || c == '{')
			depth++;
		else if ((c == ']' || c == '}' || c == ',') && !depth)
			break;
		else if ((c == ']' || c == '}') && !--depth && collection)
			return i + 1;
		fresh = strchr("[{,:", c) || (fresh && strchr(" \t\r\n", c));
	}
	if (i > t->n)
		i = t->n; /* a quote or comment without an end */
	while (i > at && strchr(" \t\r\n", t->p[i - 1]))
		i--;
	return i;
}

size_t edit_yaml_item_head(const struct edit_text *t, const struct node *item)
{
	size_t at = edit_line(t, (size_t)item->line), len = (size_t)item->column - 1, hyphens = 0;

	if (item->kind != NODE_SCALAR || item->line < 1 || at + len > t->n)
		return 0;
	for (size_t i = 0; i < len; i++) {
		if (t->p[at + i] != ' ' && t->p[at + i] != '-')
			return 0;
		hyphens += t->p[at + i] == '-';
	}
	return hyphens == 1 ? len : 0;
}
