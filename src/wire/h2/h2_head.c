/* SPDX-License-Identifier: Apache-2.0 */
/* wire/h2/h2_head.c - heads of HTTP/2 as HTTP/1 writes them, and back. */
#include <string.h>
#include <strings.h>

#include "wire/h2/h2_internal.h"
#include "wire/http1_internal.h"
#include "wire/http1_request.h"

#define FIELD_COSTS 32 /* as RFC 9113 counts them */

/* ---- coming ---- */

void h2_head_start(struct h2_stream *s)
{
	s->fields.len = s->cookies.len = 0;
	s->host_len = s->head_bytes = 0;
	s->lengthy = false;
}

/* What a line can hold. nghttp2 has looked already; a line break that got through would be a field,
 * or a request, of the sender's own making. */
static bool fits_line(struct http1_text name, struct http1_text value)
{
	size_t from = name.n && name.p[0] == ':';

	for (size_t i = from; i < name.n; i++)
		if (!http1_is_token_char((unsigned char)name.p[i]) ||
		    (name.p[i] >= 'A' && name.p[i] <= 'Z'))
			return false;
	for (size_t i = 0; i < value.n; i++)
		if (((unsigned char)value.p[i] < 0x20 && value.p[i] != '\t') || value.p[i] == 0x7f)
			return false;
	return name.n > from;
}

static bool keep_host(struct h2_stream *s, struct http1_text value)
{
	if (value.n > sizeof(s->host))
		return false;
	if (s->host_len)
		s->disagrees |=
			value.n != s->host_len || strncasecmp(value.p, s->host, value.n) != 0;
	memcpy(s->host, value.p, value.n);
	s->host_len = value.n;
	return true;
}

static bool keep_word(char *to, size_t room, struct http1_text value)
{
	if (value.n >= room)
		return false;
	memcpy(to, value.p, value.n);
	to[value.n] = '\0';
	return true;
}

/* No path is a whole URL: its host would be another word on where it goes. */
static bool keep_path(struct h2_stream *s, struct http1_text value)
{
	if (!value.n || value.n > HTTP1_TARGET_MAX ||
	    (value.p[0] != '/' && !(value.n == 1 && value.p[0] == '*')))
		return false;
	s->path.len = 0;
	buf_add(&s->path, value.p, value.n);
	return true;
}

static bool pseudo_field(struct h2_stream *s, struct http1_text name, struct http1_text value)
{
	if (http1_text_is(name, ":method"))
		return keep_word(s->first, sizeof(s->first), value);
	if (http1_text_is(name, ":status"))
		return keep_word(s->first, sizeof(s->first), value);
	if (http1_text_is(name, ":path"))
		return keep_path(s, value);
	if (http1_text_is(name, ":authority"))
		return value.n && keep_host(s, value);
	if (!http1_text_is(name, ":scheme"))
		return false;
	s->https = http1_text_is(value, "https");
	return true;
}

/* Crumbs of a cookie are one field where HTTP/1 has it. */
static void keep_cookie(struct h2_stream *s, struct http1_text value)
{
	if (s->cookies.len)
		buf_puts(&s->cookies, "; ");
	buf_add(&s->cookies, value.p, value.n);
}

static void add_line(struct buf *b, struct http1_text name, struct http1_text value)
{
	buf_add(b, name.p, name.n);
	buf_puts(b, ": ");
	buf_add(b, value.p, value.n);
	buf_puts(b, "\r\n");
}

bool h2_head_field(struct h2_stream *s, struct http1_text name, struct http1_text value)
{
	enum http1_name is = http1_name(name);

	s->head_bytes += name.n + value.n + FIELD_COSTS;
	if (s->head_bytes > H2_FIELDS_BYTES || !fits_line(name, value))
		return false;
	if (name.p[0] == ':')
		return pseudo_field(s, name, value);
	switch (is) {
	case HTTP1_NAME_CONNECTION:
	case HTTP1_NAME_KEEP_ALIVE:
	case HTTP1_NAME_PROXY_CONNECTION:
	case HTTP1_NAME_TRANSFER_ENCODING:
	case HTTP1_NAME_UPGRADE:
		return false;
	case HTTP1_NAME_HOST:
		return keep_host(s, value);
	case HTTP1_NAME_COOKIE:
		keep_cookie(s, value);
		return true;
	case HTTP1_NAME_CONTENT_LENGTH:
		s->lengthy = true;
		break;
	default:
		break;
	}
	add_line(&s->fields, name, value);
	return true;
}

bool h2_head_end(struct h2_stream *s, bool request, bool last)
{
	struct buf *b = &s->heads.b;

	if (s->heads.at == b->len)
		s->heads.at = b->len = 0;
	if (request) {
		buf_puts(b, s->first);
		buf_putc(b, ' ');
		buf_add(b, s->path.len ? s->path.data : s->host,
			s->path.len ? s->path.len : s->host_len);
		buf_puts(b, " HTTP/1.1\r\n");
		add_line(b, (struct http1_text){ "Host", 4 },
			 (struct http1_text){ s->host, s->host_len });
	} else {
		buf_puts(b, "HTTP/1.1 ");
		buf_puts(b, s->first);
		buf_puts(b, " \r\n");
	}
	if (s->fields.len)
		buf_add(b, s->fields.data, s->fields.len);
	if (s->cookies.len)
		add_line(b, (struct http1_text){ "cookie", 6 },
			 (struct http1_text){ s->cookies.data, s->cookies.len });
	if (request && !last && !s->lengthy)
		buf_puts(b, "Transfer-Encoding: chunked\r\n");
	buf_puts(b, "\r\n");
	if (s->first[0] != '1' || request) {
		s->fresh = false;
		s->bare = last;
	}
	return !b->failed && !s->fields.failed && !s->cookies.failed && !s->path.failed;
}

/* ---- going ---- */

/* What one stream says is in no table that another could learn it from. */
static void put(struct h2_fields *f, struct http1_text name, struct http1_text value)
{
	f->lost |= f->n == H2_FIELDS_MAX;
	if (f->lost)
		return;
	f->v[f->n++] = (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name.p,
				     .namelen = name.n,
				     .value = (uint8_t *)(uintptr_t)value.p,
				     .valuelen = value.n,
				     .flags = NGHTTP2_NV_FLAG_NO_INDEX };
}

static void put_word(struct h2_fields *f, const char *name, struct http1_text value)
{
	put(f, (struct http1_text){ name, strlen(name) }, value);
}

void h2_fields_status(struct h2_fields *f, int status)
{
	put_word(f, ":status",
		 (struct http1_text){ f->status, http1_digits(f->status, (uint64_t)status, 10) });
}

/* Fields about the connection are HTTP/1's alone, but for one word of TE. */
static bool goes(const struct http1_field *f)
{
	switch (f->is) {
	case HTTP1_NAME_CONNECTION:
	case HTTP1_NAME_KEEP_ALIVE:
	case HTTP1_NAME_PROXY_CONNECTION:
	case HTTP1_NAME_TRANSFER_ENCODING:
	case HTTP1_NAME_UPGRADE:
	case HTTP1_NAME_HTTP2_SETTINGS:
	case HTTP1_NAME_HOST:
		return false;
	case HTTP1_NAME_TE:
		return http1_text_is(f->value, "trailers");
	default:
		return true;
	}
}

static void put_field(struct h2_fields *f, const struct http1_field *one)
{
	char *name = f->names + f->used;

	if (!goes(one))
		return;
	f->lost |= one->name.n > sizeof(f->names) - f->used;
	if (f->lost)
		return;
	for (size_t i = 0; i < one->name.n; i++) {
		char c = one->name.p[i];

		name[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
	}
	f->used += one->name.n;
	put(f, (struct http1_text){ name, one->name.n }, one->value);
}

void h2_fields_of(struct h2_fields *f, struct http1_text lines)
{
	const char *at = lines.p, *end = lines.n ? at + lines.n : at;
	struct http1_text line;
	struct http1_field one;

	while (at < end && http1_take_line(&at, end, &line))
		if (http1_field_line(line, &one))
			put_field(f, &one);
}

bool h2_fields_of_request(struct h2_fields *f, struct http1_text head)
{
	struct http1_request q;
	const char *why;

	if (http1_read_request(head.p, head.n, &q, &why) != (ssize_t)head.n)
		return false;
	put_word(f, ":method", q.method);
	put_word(f, ":scheme", (struct http1_text){ "https", 5 });
	put_word(f, ":authority", q.host);
	put_word(f, ":path", q.path);
	for (size_t i = 0; i < q.n_fields; i++)
		put_field(f, &q.fields[i]);
	return !f->lost;
}
