/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http1_request.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "wire/http1_internal.h"

static ssize_t http1_request_refuse(enum http1_refusal status, const char *what, const char **why)
{
	*why = what;
	return -(ssize_t)status;
}

static struct http1_text text(const char *p, size_t n)
{
	return (struct http1_text){ .p = p, .n = n };
}

static bool is_method(struct http1_text t)
{
	for (size_t i = 0; i < t.n; i++)
		if (!http1_is_token_char((unsigned char)t.p[i]))
			return false;
	return t.n > 0 && t.n <= HTTP1_METHOD_MAX;
}

static bool is_visible(struct http1_text t)
{
	for (size_t i = 0; i < t.n; i++)
		if (t.p[i] <= 0x20 || t.p[i] >= 0x7f)
			return false;
	return t.n > 0;
}

/* scheme://authority[/path][?query] */
static bool absolute(struct http1_text t, struct http1_request *q)
{
	const char *colon = memmem(t.p, t.n, "://", 3), *end = t.p + t.n, *at;

	if (!colon || colon == t.p)
		return false;
	q->scheme = text(t.p, (size_t)(colon - t.p));
	for (at = t.p; at < colon; at++)
		if ((*at | 0x20) < 'a' || (*at | 0x20) > 'z')
			return false;
	for (at = colon + 3; at < end && *at != '/' && *at != '?' && *at != '#'; at++)
		;
	q->authority = text(colon + 3, (size_t)(at - colon - 3));
	/* A query without a path would need one made up. */
	if (!q->authority.n || (at < end && *at != '/'))
		return false;
	q->path = at < end ? text(at, (size_t)(end - at)) : text("/", 1);
	return true;
}

/* Methods have case: "connect" is another one, which some server may know. */
static bool is_connect(struct http1_text t)
{
	return t.n == 7 && memcmp(t.p, "CONNECT", 7) == 0;
}

static bool target_form(struct http1_text t, struct http1_request *q)
{
	q->target = q->path = t;
	if (is_connect(q->method)) {
		q->form = HTTP1_AUTHORITY;
		q->authority = t;
		return t.p[0] != '/';
	}
	if (t.p[0] == '/') {
		q->form = HTTP1_ORIGIN;
		return !memchr(t.p, '#', t.n);
	}
	if (t.n == 1 && t.p[0] == '*') {
		q->form = HTTP1_ASTERISK;
		return http1_text_is(q->method, "OPTIONS");
	}
	q->form = HTTP1_ABSOLUTE;
	return absolute(t, q) && !memchr(t.p, '#', t.n);
}

static ssize_t request_line(struct http1_text l, struct http1_request *q, const char **why)
{
	const char *space = memchr(l.p, ' ', l.n), *end = l.p + l.n, *last;
	struct http1_text target;

	if (!space || !is_method(q->method = text(l.p, (size_t)(space - l.p))))
		return http1_request_refuse(HTTP1_BAD_REQUEST, "the request line has no method",
					    why);
	last = memrchr(l.p, ' ', l.n);
	if (last == space)
		return http1_request_refuse(HTTP1_BAD_REQUEST, "the request line has no version",
					    why);
	target = text(space + 1, (size_t)(last - space - 1));
	if (end - last != 9 || memcmp(last + 1, "HTTP/", 5) != 0)
		return http1_request_refuse(HTTP1_BAD_REQUEST, "the request line has no version",
					    why);
	if (memcmp(last + 1, "HTTP/1.", 7) != 0 || (end[-1] != '0' && end[-1] != '1'))
		return http1_request_refuse(HTTP1_VERSION_UNSUPPORTED, "only HTTP/1.1 and HTTP/1.0",
					    why);
	q->minor = (unsigned)(end[-1] - '0');
	if (target.n > HTTP1_TARGET_MAX)
		return http1_request_refuse(HTTP1_URI_TOO_LONG, "the target is too long", why);
	if (!is_visible(target) || !target_form(target, q))
		return http1_request_refuse(HTTP1_BAD_REQUEST, "the request target is malformed",
					    why);
	return 0;
}

static ssize_t body_framing(struct http1_request *q, const char **why)
{
	size_t lengths = http1_count(q->fields, q->n_fields, "Content-Length"),
	       codings = http1_count(q->fields, q->n_fields, "Transfer-Encoding");

	q->framing = HTTP1_NO_BODY;
	if (lengths + codings > 1)
		return http1_request_refuse(HTTP1_BAD_REQUEST,
					    "more than one word on how long the body is", why);
	if (codings) {
		if (q->minor < 1 ||
		    !http1_text_is(http1_only(q->fields, q->n_fields, "Transfer-Encoding"),
				   "chunked"))
			return http1_request_refuse(HTTP1_NOT_IMPLEMENTED,
						    "a transfer coding other than chunked", why);
		q->framing = HTTP1_CHUNKED;
	}
	if (!lengths)
		return 0;
	if (http1_content_length(http1_only(q->fields, q->n_fields, "Content-Length"), &q->length) <
	    0)
		return http1_request_refuse(HTTP1_BAD_REQUEST, "Content-Length is malformed", why);
	q->framing = q->length ? HTTP1_LENGTH : HTTP1_NO_BODY;
	return 0;
}

static ssize_t framing(struct http1_request *q, const char **why)
{
	ssize_t r = body_framing(q, why);

	if (r == 0 && q->form == HTTP1_AUTHORITY && q->framing != HTTP1_NO_BODY)
		return http1_request_refuse(HTTP1_BAD_REQUEST, "CONNECT with a body",
					    why); /* some read it */
	return r;
}

static ssize_t meaning(struct http1_request *q, const char **why)
{
	size_t hosts = http1_count(q->fields, q->n_fields, "Host"),
	       expects = http1_count(q->fields, q->n_fields, "Expect");

	/* Of CONNECT the target says it all, and clients that speak HTTP/1.0 send nothing else. */
	if (hosts > 1 || (!hosts && q->form != HTTP1_AUTHORITY))
		return http1_request_refuse(HTTP1_BAD_REQUEST,
					    hosts ? "two Host fields" : "no Host field", why);
	if (hosts)
		q->host = http1_only(q->fields, q->n_fields, "Host");
	if (hosts && !q->host.n)
		return http1_request_refuse(HTTP1_BAD_REQUEST, "an empty Host field", why);
	if (expects && !http1_text_is(http1_only(q->fields, q->n_fields, "Expect"), "100-continue"))
		return http1_request_refuse(HTTP1_EXPECTATION_FAILED, "an unknown expectation",
					    why);
	q->expects = expects && q->minor == 1;
	q->keeps_alive =
		q->minor == 1 && !http1_lists(q->fields, q->n_fields, "Connection", "close");
	return framing(q, why);
}

/* Refuses early what can never become a head. */
static bool may_become_head(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && i <= HTTP1_METHOD_MAX && http1_is_token_char((unsigned char)p[i]))
		i++;
	return i == n || (i > 0 && i <= HTTP1_METHOD_MAX && p[i] == ' ');
}

ssize_t http1_read_request(const char *p, size_t n, struct http1_request *ret, const char **why)
{
	size_t whole = http1_head_length(p, n < HTTP1_HEAD_MAX ? n : HTTP1_HEAD_MAX);
	const char *at = p, *end = p + (whole ? whole - 2 : 0);
	struct http1_request q;
	struct http1_text line;
	ssize_t r;

	memset(&q, 0, offsetof(struct http1_request, fields));
	if (n && !may_become_head(p, n))
		return http1_request_refuse(HTTP1_BAD_REQUEST, "this is not HTTP", why);
	if (!whole)
		return n < HTTP1_HEAD_MAX ? 0
					  : http1_request_refuse(HTTP1_FIELDS_TOO_LARGE,
								 "the head is too long", why);
	if (!http1_take_line(&at, end, &line))
		return http1_request_refuse(HTTP1_BAD_REQUEST, "the request line is malformed",
					    why);
	r = request_line(line, &q, why);
	if (r < 0)
		return r;
	while (at < end) {
		if (q.n_fields == HTTP1_FIELDS_MAX)
			return http1_request_refuse(HTTP1_FIELDS_TOO_LARGE, "too many fields", why);
		if (!http1_take_line(&at, end, &line) ||
		    !http1_field_line(line, &q.fields[q.n_fields++]))
			return http1_request_refuse(HTTP1_BAD_REQUEST,
						    "a header field is malformed", why);
	}
	r = meaning(&q, why);
	if (r < 0)
		return r;
	memcpy(ret, &q, offsetof(struct http1_request, fields) + q.n_fields * sizeof(q.fields[0]));
	return (ssize_t)whole;
}
