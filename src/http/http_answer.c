/* SPDX-License-Identifier: Apache-2.0 */
/* http/http_answer.c - answers and streams, as they go on the wire. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bytes/json.h"
#include "http/http_internal.h"

static const char *reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} rows[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 417, "Expectation Failed" },
		{ 421, "Misdirected Request" },
		{ 422, "Unprocessable Content" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].status == status)
			return rows[i].text;
	return "Unknown";
}

/* To a browser: what a page of this host may do. Nothing of another host is loaded, nothing is
 * framed, no string becomes HTML or code, and no address is told to others. */
static const char page_fields[] =
	"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
	"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
	"require-trusted-types-for 'script'; trusted-types 'none'\r\n"
	"Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n"
	"Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n";

static void http_answer_put_head(struct http_conn *c, int status, const char *fields,
				 const char *type)
{
	time_t now = time(NULL);
	char date[40] = "";
	struct tm tm;

	buf_printf(&c->out, "HTTP/1.1 %d %s\r\n", status, reason(status));
	if (gmtime_r(&now, &tm) && strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm))
		buf_printf(&c->out, "Date: %s\r\n", date);
	buf_puts(&c->out, "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
	if (c->from->pages)
		buf_puts(&c->out, page_fields);
	if (type)
		buf_printf(&c->out, "Content-Type: %s\r\n", type);
	if (fields)
		buf_puts(&c->out, fields);
	if (!c->keep)
		buf_puts(&c->out, "Connection: close\r\n");
}

void http_answer(struct http_call *call, int status, const char *fields, const char *type,
		 const void *body, size_t n)
{
	struct http_conn *c = call->conn;

	if (c->ended)
		return;
	if ((c->state == HTTP_BODY || c->state == HTTP_TAKE) && !http1_body_done(&c->framing))
		c->keep = false; /* the rest of the body is not waited for */
	http_answer_put_head(c, status, fields, type);
	if (status != 204)
		buf_printf(&c->out, "Content-Length: %zu\r\n", n);
	buf_puts(&c->out, "\r\n");
	if (n && !c->bare && status != 204)
		buf_add(&c->out, body, n);
	c->ended = true;
	if (call->answered)
		call->answered(call, status, body, n);
	call->answered = NULL;
	conn_due(c);
}

void http_last(struct http_call *call)
{
	call->conn->keep = false;
}

static void http_answer_refuse(struct http_call *call, int status, const char *fields,
			       enum problem p, const struct err *e, const uint64_t *oldest)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)16 << 10);
	struct json j;

	json_init(&j, &b, false);
	json_object(&j);
	json_kstr(&j, "type", "about:blank");
	json_kstr(&j, "title", problem_title(p));
	json_ku64(&j, "status", (uint64_t)status);
	json_kstr(&j, "code", problem_code(p));
	json_kstr(&j, "detail", e->what);
	if (e->hint[0])
		json_kstr(&j, "hint", e->hint);
	if (oldest)
		json_ku64(&j, "oldest", *oldest);
	json_object_end(&j);
	http_answer(call, status, fields, "application/problem+json", buf_str(&b), b.len);
}

void http_refuse(struct http_call *call, int status, const char *fields, enum problem p,
		 const struct err *e)
{
	http_answer_refuse(call, status, fields, p, e, NULL);
}

void http_expired(struct http_call *call, uint64_t oldest)
{
	struct err e;

	(void)problem_say(PROBLEM_EVENTS_EXPIRED, &e, "the oldest event that is kept is %llu",
			  (unsigned long long)oldest);
	(void)err_hint(&e, "list what there is, then listen from now on");
	http_answer_refuse(call, problem_status(PROBLEM_EVENTS_EXPIRED), NULL,
			   PROBLEM_EVENTS_EXPIRED, &e, &oldest);
}

void http_problem(struct http_call *call, enum problem p, const struct err *e)
{
	const char *fields = NULL;

	if (p == PROBLEM_QUOTA)
		fields = "Retry-After: 5\r\n";
	else if (p == PROBLEM_UNAUTHENTICATED)
		fields = "WWW-Authenticate: Bearer realm=\"brig\"\r\n";
	http_refuse(call, problem_status(p), fields, p, e);
}

bool http_turn_away(struct http_call *c, enum problem p, const char *hint, const char *what)
{
	struct err e;

	(void)problem_say(p, &e, "%s", what);
	if (hint)
		(void)err_hint(&e, "%s", hint);
	http_last(c);
	http_problem(c, p, &e);
	return false;
}

void http_head(struct http_call *call, int status, const char *fields, const char *type)
{
	http_answer_put_head(call->conn, status, fields, type);
	buf_puts(&call->conn->out, "\r\n");
}

/* ---- streams ---- */

bool http_stream(struct http_call *call, const char *fields)
{
	struct http_conn *c = call->conn;

	c->chunked = c->head.minor == 1;
	if (!c->chunked)
		c->keep = false;
	http_answer_put_head(c, 200, fields, "text/event-stream");
	if (c->chunked)
		buf_puts(&c->out, "Transfer-Encoding: chunked\r\n");
	buf_puts(&c->out, "\r\n");
	c->streaming = true;
	c->ended = c->bare;
	conn_due(c);
	return !c->bare;
}

size_t http_room(const struct http_call *call)
{
	const struct http_conn *c = call->conn;
	size_t waiting = c->out.len - c->sent;

	return waiting < HTTP_WAITING_MAX ? HTTP_WAITING_MAX - waiting : 0;
}

static void put_hex(struct buf *b, size_t n)
{
	char digits[2 * sizeof(n)];
	size_t at = sizeof(digits);

	do
		digits[--at] = "0123456789abcdef"[n & 15];
	while (n >>= 4);
	buf_add(b, digits + at, sizeof(digits) - at);
}

static void put_chunk(struct http_conn *c, const char *p, size_t n)
{
	if (c->chunked) {
		put_hex(&c->out, n);
		buf_puts(&c->out, "\r\n");
	}
	buf_add(&c->out, p, n);
	if (c->chunked)
		buf_puts(&c->out, "\r\n");
}

/* The data is JSON without a line end in it. */
void http_event_text(struct buf *b, const char *type, uint64_t id, const char *data, size_t n)
{
	assert(!memchr(data, '\n', n));
	if (type) {
		buf_puts(b, "event: ");
		buf_puts(b, type);
		buf_putc(b, '\n');
	}
	if (id) {
		buf_puts(b, "id: ");
		buf_putu(b, id, 1);
		buf_putc(b, '\n');
	}
	buf_puts(b, type ? "data: " : ":");
	buf_add(b, data, n);
	buf_puts(b, "\n\n");
}

void http_events(struct http_call *call, const char *text, size_t n)
{
	struct http_conn *c = call->conn;

	if (c->ended)
		return;
	put_chunk(c, text, n);
	conn_due(c);
}

void http_event(struct http_call *call, const char *type, uint64_t id, const char *data, size_t n)
{
	struct http_conn *c = call->conn;
	struct buf *b = &c->server->scratch;

	if (c->ended)
		return;
	b->len = 0;
	http_event_text(b, type, id, data, n);
	if (b->failed)
		c->out.failed = true;
	else
		put_chunk(c, b->data, b->len);
	b->failed = false;
	conn_due(c);
}

void http_wake(struct http_call *call)
{
	conn_due(call->conn);
}

void http_stream_end(struct http_call *call)
{
	struct http_conn *c = call->conn;

	if (c->ended)
		return;
	if (c->chunked)
		buf_puts(&c->out, "0\r\n\r\n");
	c->ended = true;
	conn_due(c);
}
