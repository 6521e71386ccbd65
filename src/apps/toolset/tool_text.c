/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_text.c - a file's text, shown by lines and edited. Pure. */
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/text/str.h"

bool text_is(const char *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		size_t len = p[at] ? utf8_len(p + at, n - at) : 0;

		if (!len)
			return false;
		at += len;
	}
	return true;
}

/* The byte behind the line that begins at p. */
static const char *line_end(const char *p, const char *end)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));

	return nl ? nl + 1 : end;
}

bool text_lines(const char *p, size_t n, uint64_t first, uint64_t count, size_t max,
		struct buf *out, uint64_t *total)
{
	const char *end = p ? p + n : p;
	uint64_t line = 0, shown = 0;
	bool whole = true;

	for (const char *at = p; at < end; at = line_end(at, end)) {
		size_t len = (size_t)(line_end(at, end) - at);

		if (++line < first || (count && shown == count))
			continue;
		if (!whole || out->len + len > max) {
			size_t room = whole && max > out->len ? max - out->len : 0;

			buf_add(out, at, utf8_cut(at, room));
			whole = false;
			continue;
		}
		buf_add(out, at, len);
		shown++;
	}
	*total = line;
	return whole;
}

size_t text_replace(const char *p, size_t n, const char *old, const char *new, bool all,
		    struct buf *out)
{
	size_t len = strlen(old), new_len = strlen(new), found = 0, from = 0;

	/* Beyond its bound nothing is added: it would take as long as ever, for nothing. */
	while (!out->failed) {
		const char *hit = n > from ? memmem(p + from, n - from, old, len) : NULL;

		if (!hit)
			break;
		found++;
		buf_add(out, p + from, (size_t)(hit - p) - from);
		if (all || found == 1)
			buf_add(out, new, new_len);
		else
			buf_add(out, old, len);
		from = (size_t)(hit - p) + len;
	}
	buf_add(out, p + from, n - from);
	return found;
}

bool text_insert(const char *p, size_t n, uint64_t line, const char *text, struct buf *out)
{
	const char *end = p ? p + n : p, *at = p;
	size_t len = strlen(text);

	for (uint64_t i = 0; i < line; i++) {
		if (at == end)
			return false;
		at = line_end(at, end);
	}
	buf_add(out, p, (size_t)(at - p));
	if (at != p && at[-1] != '\n')
		buf_putc(out, '\n');
	buf_add(out, text, len);
	if (len && text[len - 1] != '\n' && at != end)
		buf_putc(out, '\n');
	buf_add(out, at, (size_t)(end - at));
	return true;
}
