/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_request.c - a request is the same however it is cut, and written anew it reads the
 * same.
 *
 * The first byte: how the body is cut into calls. */
#include <stdio.h>

#include "fuzz.h"

#include "wire/http1_request.h"

#define INPUT_MAX ((size_t)1 << 17)

static void inside(struct http1_text t, const char *p, size_t n)
{
	require(!t.n || (t.p >= p && t.p + t.n <= p + n) || (t.n == 1 && *t.p == '/'));
}

static void check(const struct http1_request *q, const char *p, size_t n)
{
	inside(q->method, p, n);
	inside(q->path, p, n);
	inside(q->authority, p, n);
	require(q->host.n > 0 || q->form == HTTP1_AUTHORITY);
	require(q->n_fields <= HTTP1_FIELDS_MAX && q->path.n > 0);
	require(q->framing == HTTP1_NO_BODY || q->framing == HTTP1_LENGTH ||
		q->framing == HTTP1_CHUNKED);
	for (size_t i = 0; i < q->n_fields; i++) {
		inside(q->fields[i].name, p, n);
		inside(q->fields[i].value, p, n);
		require(!memchr(q->fields[i].value.p, '\n', q->fields[i].value.n));
		require(!memchr(q->fields[i].value.p, '\r', q->fields[i].value.n));
		require(!memchr(q->fields[i].value.p, '\0', q->fields[i].value.n));
	}
}

/* What the door would send is read back as the same request. */
static void again(const struct http1_request *q)
{
	char *out = malloc(INPUT_MAX * 2);
	struct http1_request r;
	const char *why;
	int n;

	require(out != NULL);
	n = sprintf(out, "%.*s %.*s HTTP/1.1\r\n", (int)q->method.n, q->method.p, (int)q->target.n,
		    q->target.p);
	if (q->host.n) /* CONNECT does without */
		n += sprintf(out + n, "Host: %.*s\r\n", (int)q->host.n, q->host.p);
	for (size_t i = 0; i < q->n_fields; i++)
		if (!http1_text_is(q->fields[i].name, "Host"))
			n += sprintf(out + n, "%.*s: %.*s\r\n", (int)q->fields[i].name.n,
				     q->fields[i].name.p, (int)q->fields[i].value.n,
				     q->fields[i].value.p);
	n += sprintf(out + n, "\r\n");
	if (q->minor == 1 && n < HTTP1_HEAD_MAX) {
		require(http1_read_request(out, (size_t)n, &r, &why) == n);
		require(r.n_fields == q->n_fields && r.framing == q->framing &&
			r.length == q->length && r.form == q->form && r.path.n == q->path.n);
	}
	free(out);
}

static size_t body(const struct http1_request *q, const char *p, size_t n, size_t step, bool *bad)
{
	struct http1_body b;
	size_t at = 0, done = 0;

	http1_body_start(&b, q->framing, q->length);
	*bad = false;
	while (at < n && !http1_body_done(&b)) {
		struct http1_text data;
		ssize_t got = http1_body_read(&b, p + at, n - at < step ? n - at : step, &data);

		if (got < 0)
			return *bad = true, done;
		require(got >= 1);
		done += data.n;
		at += (size_t)got;
	}
	return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data + 1, *why = NULL;
	size_t n = size - 1, one, many;
	struct http1_request q, less;
	bool bad_one, bad_many;
	ssize_t head;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	head = http1_read_request(p, n, &q, &why);
	require((head < 0) == (why != NULL));
	if (head <= 0)
		return 0;
	check(&q, p, (size_t)head);
	require(http1_read_request(p, (size_t)head - 1, &less, &why) == 0);
	again(&q);
	one = body(&q, p + head, n - (size_t)head, n, &bad_one);
	many = body(&q, p + head, n - (size_t)head, data[0] % 32 + 1, &bad_many);
	require(one == many && bad_one == bad_many);
	return 0;
}
