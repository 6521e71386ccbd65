/* SPDX-License-Identifier: Apache-2.0 */
/* differential/reader.c - what brig's HTTP/1 reader understands of byte streams, one line each.
 *
 * Input: streams, each a letter (q: requests; a: the answer to GET; h: the answer to HEAD), its
 * length in four bytes (little-endian), its bytes. Output: messages, how it ended, how many bytes
 * were read, with blanks between: "end", "closed" (what follows is not read), "more" (something is
 * unfinished), "refused". A message is
 *
 *     [METHOD|STATUS]|TARGET|NAME:VALUE,...|BODY
 *
 * with every text in hexadecimal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/http1.h"
#include "wire/http1_request.h"

enum ended { AT_END, CLOSED, MORE, REFUSED };

static void put(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)printf("%02x", (unsigned char)p[i]);
}

static void put_fields(const struct http1_field *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i)
			(void)putchar(',');
		put(f[i].name.p, f[i].name.n);
		(void)putchar(':');
		put(f[i].value.p, f[i].value.n);
	}
}

/* The body at p into a block of its own; where it ends is *at. */
static enum ended read_body(struct http1_body *b, const char *p, size_t n, size_t *at, char *out,
			    size_t *len)
{
	*at = *len = 0;
	while (*at < n && !http1_body_done(b)) {
		struct http1_text data;
		ssize_t got = http1_body_read(b, p + *at, n - *at, &data);

		if (got < 0)
			return REFUSED;
		if (data.n)
			memcpy(out + *len, data.p, data.n);
		*len += data.n;
		*at += (size_t)got;
	}
	return http1_body_end(b) == 0 ? AT_END : MORE;
}

static enum ended requests(const char *p, size_t n, size_t *took, char *out)
{
	while (n) {
		struct http1_request q;
		struct http1_body b;
		const char *why;
		size_t at, len;
		ssize_t head = http1_read_request(p, n, &q, &why);
		enum ended e;

		if (head <= 0)
			return head < 0 ? REFUSED : MORE;
		http1_body_start(&b, q.framing, q.length);
		e = read_body(&b, p + head, n - (size_t)head, &at, out, &len);
		if (e != AT_END)
			return e;
		put(q.method.p, q.method.n);
		(void)putchar('|');
		put(q.target.p, q.target.n);
		(void)putchar('|');
		put_fields(q.fields, q.n_fields);
		(void)putchar('|');
		put(out, len);
		(void)putchar(' ');
		*took += (size_t)head + at;
		if (q.form == HTTP1_AUTHORITY || !q.keeps_alive)
			return CLOSED; /* what follows is not HTTP, or not read */
		p += (size_t)head + at;
		n -= (size_t)head + at;
	}
	return AT_END;
}

static enum ended answer(const char *p, size_t n, enum http1_asked asked, size_t *took, char *out)
{
	struct http1_answer a;
	struct http1_body b;
	struct err e;
	size_t at, len;
	ssize_t head;
	enum ended ended;

	do {
		head = n ? http1_read_answer(p, n, asked, &a, &e) : 0;
		if (head <= 0)
			return head < 0 ? REFUSED : MORE;
		p += head;
		n -= (size_t)head;
		*took += (size_t)head;
	} while (a.status < 200);
	http1_body_init(&b, &a);
	ended = read_body(&b, p, n, &at, out, &len);
	if (ended != AT_END)
		return ended;
	*took += at;
	(void)printf("%d||", a.status);
	put_fields(a.fields, a.n_fields);
	(void)putchar('|');
	put(out, len);
	(void)putchar(' ');
	return AT_END;
}

int main(void)
{
	static const char *const words[] = { "end", "closed", "more", "refused" };
	unsigned char head[5];

	while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
		size_t n = head[1] | (size_t)head[2] << 8 | (size_t)head[3] << 16 |
			   (size_t)head[4] << 24;
		char *p = malloc(n + 1), *out = malloc(n + 1);
		size_t took = 0;
		enum ended e;

		if (!p || !out || fread(p, 1, n, stdin) != n)
			return 1;
		e = head[0] == 'q'
			    ? requests(p, n, &took, out)
			    : answer(p, n, head[0] == 'h' ? HTTP1_ASKED_HEAD : HTTP1_ASKED_PLAIN,
				     &took, out);
		(void)printf("%s %zu\n", words[e], took);
		free(p);
		free(out);
	}
	return 0;
}
