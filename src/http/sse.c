/* SPDX-License-Identifier: Apache-2.0 */
#include "http/sse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"

void sse_done(struct sse *s)
{
	buf_done(&s->data);
	buf_done(&s->line);
}

/* "name: value"; one blank behind the colon belongs to neither. */
static const char *field(const char *line, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(line, name, n) != 0 || line[n] != ':')
		return NULL;
	return line + n + 1 + (line[n + 1] == ' ');
}

static void sse_take_line(struct sse *s)
{
	const char *line = buf_str(&s->line), *v;
	uint64_t id;

	if ((v = field(line, "event"))) {
		(void)snprintf(s->type, sizeof(s->type), "%s", v);
		s->any = true;
	} else if ((v = field(line, "data"))) {
		if (s->data.len)
			buf_putc(&s->data, '\n');
		buf_add(&s->data, v, s->line.len - (size_t)(v - line));
		s->any = true;
	} else if ((v = field(line, "id")) && num_count(v, &id) == 0) {
		s->id = id;
	}
}

static void sse_begin(struct sse *s)
{
	s->type[0] = '\0';
	s->id = 0;
	s->data.len = 0;
	s->any = s->done = false;
}

ssize_t sse_take(struct sse *s, const char *p, size_t n, bool *whole)
{
	size_t at = 0;

	*whole = false;
	if (s->done)
		sse_begin(s);
	while (at < n && !*whole) {
		const char *end = memchr(p + at, '\n', n - at);
		size_t len = end ? (size_t)(end - p) - at : n - at;

		buf_add(&s->line, p + at, len);
		at += len + (end != NULL);
		if (!end)
			break;
		if (s->line.len) {
			sse_take_line(s);
		} else if (s->any) {
			*whole = s->done = true;
		}
		s->line.len = 0;
	}
	if (*whole && s->data.data)
		s->data.data[s->data.len] = '\0';
	return s->data.failed || s->line.failed ? -EMSGSIZE : (ssize_t)at;
}
