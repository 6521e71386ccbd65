/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/send/request.h"

#include <string.h>
#include <strings.h>

#include "base/bytes/parcel.h"
#include "base/text/str.h"
#include "telemetry/send.h"

#define FIELDS_MAX ((size_t)64 << 10)

static bool is_field(const char *line)
{
	size_t n = strcspn(line, ":");

	return n && !strchr(" \t", line[n - 1]) && line[n] == ':' && !str_has_control(line);
}

static int take_fields(const char *const *headers, struct send_request *q, struct err *e)
{
	for (; *headers; headers++) {
		const char *line = *headers;

		if (!is_field(line))
			return err_set(e, ERR_CONFIG, EINVAL, "a line is not a header field");
		if (str_starts_nocase(line, "Content-Type:"))
			q->type = line + strlen("Content-Type:") + strspn(line + 13, " ");
		else
			buf_printf(&q->fields, "%s\r\n", line);
	}
	return q->fields.failed ? err_nomem(e) : 0;
}

int request_parse(const char *data, size_t n, struct send_request *ret, struct err *e)
{
	struct send_request q = { .type = "application/octet-stream",
				  .fields = BUF_INIT(FIELDS_MAX) };
	const char *room[SEND_HEADERS_MAX + 1], *const *headers, *url = NULL;
	struct parcel p = parcel_from(data, n, SEND_MARK);

	p.room = (char *)room;
	p.left = sizeof(room);
	parcel_text(&p, &url);
	parcel_number(&p, &q.timeout_ms);
	headers = parcel_texts(&p, NULL, NULL);
	parcel_bytes(&p, &q.body, &q.len);
	if (!parcel_whole(&p) || !q.timeout_ms || q.timeout_ms > REQUEST_TIMEOUT_MAX_MS)
		return err_set(e, ERR_CONFIG, EINVAL, "this is not a request of brig's");
	if (url_parse(url, &q.url, e) < 0)
		return -e->code;
	if (take_fields(headers, &q, e) < 0) {
		request_done(&q);
		return -e->code;
	}
	*ret = q;
	return 0;
}

void request_done(struct send_request *q)
{
	buf_done(&q->fields);
}
