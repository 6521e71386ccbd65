/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/send/request.h"

#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "base/str.h"

#define FIELDS_MAX ((size_t)64 << 10)

/* The next line, ended by a NUL; NULL when there is no whole one, or one with a NUL inside. */
static char *next_line(char **at, const char *end)
{
	char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));

	if (!stop || memchr(line, '\0', (size_t)(stop - line)))
		return NULL;
	*stop = '\0';
	*at = stop + 1;
	return line;
}

static bool is_field(const char *line)
{
	size_t n = strcspn(line, ":");

	return n && !strchr(" \t", line[n - 1]) && line[n] == ':' && !str_has_control(line);
}

static int take_fields(char **at, const char *end, struct send_request *q, struct err *e)
{
	const char *line;

	while ((line = next_line(at, end)) && *line) {
		if (!is_field(line))
			return err_set(e, ERR_CONFIG, EINVAL, "a line is no header field");
		if (str_starts_nocase(line, "Content-Type:"))
			q->type = line + strlen("Content-Type:") + strspn(line + 13, " ");
		else
			buf_printf(&q->fields, "%s\r\n", line);
	}
	if (!line)
		return err_set(e, ERR_CONFIG, EINVAL, "the request is cut off");
	return q->fields.failed ? err_nomem(e) : 0;
}

int request_parse(char *text, size_t n, struct send_request *ret, struct err *e)
{
	struct send_request q = { .type = "application/octet-stream",
				  .fields = BUF_INIT(FIELDS_MAX) };
	const char *end = text + n, *url = next_line(&text, end);
	const char *timeout = url ? next_line(&text, end) : NULL;

	if (!timeout || num_count(timeout, &q.timeout_ms) < 0 || !q.timeout_ms ||
	    q.timeout_ms > REQUEST_TIMEOUT_MAX_MS)
		return err_set(e, ERR_CONFIG, EINVAL, "the request has no address and time");
	if (url_parse(url, &q.url, e) < 0)
		return -e->code;
	if (take_fields(&text, end, &q, e) < 0) {
		request_done(&q);
		return -e->code;
	}
	q.body = text;
	q.len = (size_t)(end - text);
	*ret = q;
	return 0;
}

void request_done(struct send_request *q)
{
	buf_done(&q->fields);
}
