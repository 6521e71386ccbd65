/* SPDX-License-Identifier: Apache-2.0 */
#include "base/edit/edit.h"

#include <string.h>

#define CONTEXT 3

int edit_lines(struct arena *a, const char *p, size_t n, struct edit_text *ret, struct err *e)
{
	size_t count = 2;

	for (size_t i = 0; i < n; i++)
		count += p[i] == '\n';
	*ret = (struct edit_text){ .p = p, .n = n };
	ret->start = arena_alloc(a, count * sizeof(*ret->start));
	if (!ret->start)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || p[i - 1] == '\n')
			ret->start[ret->lines++] = i;
	ret->start[ret->lines] = n;
	return 0;
}

size_t edit_line(const struct edit_text *t, size_t number)
{
	return number > t->lines ? t->n : t->start[number ? number - 1 : 0];
}

const char *edit_newline(const struct edit_text *t)
{
	return t->lines && t->start[1] >= 2 && t->p[t->start[1] - 2] == '\r' ? "\r\n" : "\n";
}

void edit_replace(const struct edit_text *t, struct edit_span at, const char *s, size_t n,
		  struct buf *out)
{
	buf_add(out, t->p, at.from);
	buf_add(out, s, n);
	buf_add(out, t->p + at.to, t->n - at.to);
}

void edit_pad(struct buf *out, size_t n)
{
	while (n--)
		buf_putc(out, ' ');
}

void edit_diff(const char *name, const struct edit_text *after, size_t at, size_t lines,
	       struct buf *out)
{
	size_t from = at > CONTEXT ? at - CONTEXT : 1, end = at + lines + CONTEXT;

	if (end > after->lines + 1)
		end = after->lines + 1;
	buf_printf(out, "--- %s\n+++ %s\n@@ -%zu,%zu +%zu,%zu @@\n", name, name, from,
		   end - from - lines, from, end - from);
	for (size_t i = from; i < end; i++) {
		size_t begin = edit_line(after, i), len = edit_line(after, i + 1) - begin;

		buf_putc(out, i >= at && i < at + lines ? '+' : ' ');
		buf_add(out, after->p + begin, len - (len && after->p[begin + len - 1] == '\n'));
		buf_putc(out, '\n');
	}
}
