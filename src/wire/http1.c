/* SPDX-License-Identifier: Apache-2.0 */
/* wire/http1.c - see http1.h. A head is searched for its end first and parsed once it is whole, so
 * that the parser itself has no states; a body is a small machine that never looks back. */
#include "wire/http1.h"
#include "base/bytes/hex.h"
#include "wire/http1_internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/text/num.h"

/* A chunk's size in hexadecimal; sixteen would overflow only with more, fifteen cannot. */
#define SIZE_DIGITS_MAX 15

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_INTERNAL, EBADMSG, "the HTTP answer is malformed: %s", what);
}

/* ---- the head ---- */

bool http1_is_token_char(unsigned char c)
{
	/* Of the sixteen signs that have the high half of the byte in common, those that may be. */
	static const uint16_t tokens[16] = {
		[2] = 0x6cfa, [3] = 0x03ff, [4] = 0xfffe, [5] = 0xc7ff, [6] = 0xffff, [7] = 0x57ff
	};

	return tokens[c >> 4] >> (c & 15) & 1;
}

static bool is_text_char(unsigned char c)
{
	return c == '\t' || (c >= 0x20 && c != 0x7f);
}

/* Takes the line at *p off it; false when it holds a control character or a bare CR. The whole
 * head is known to end in CR LF CR LF. */
bool http1_take_line(const char **p, const char *end, struct http1_text *line)
{
	const char *lf = memchr(*p, '\n', (size_t)(end - *p));

	if (!lf || lf == *p || lf[-1] != '\r')
		return false;
	*line = (struct http1_text){ .p = *p, .n = (size_t)(lf - 1 - *p) };
	*p = lf + 1;
	for (size_t i = 0; i < line->n; i++)
		if (!is_text_char((unsigned char)line->p[i]))
			return false;
	return true;
}

static bool http1_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* HTTP/1.1 200 OK; the text behind the number may be missing, and then its blank too. */
static bool status_line(struct http1_text l, struct http1_answer *a)
{
	if (l.n < 12 || memcmp(l.p, "HTTP/1.", 7) != 0 || (l.p[7] != '0' && l.p[7] != '1') ||
	    l.p[8] != ' ' || !http1_is_digit(l.p[9]) || !http1_is_digit(l.p[10]) ||
	    !http1_is_digit(l.p[11]) || (l.n > 12 && l.p[12] != ' '))
		return false;
	a->minor = (unsigned)(l.p[7] - '0');
	a->status = (l.p[9] - '0') * 100 + (l.p[10] - '0') * 10 + (l.p[11] - '0');
	a->reason = (struct http1_text){ .p = l.p + (l.n > 12 ? 13 : 12),
					 .n = l.n > 12 ? l.n - 13 : 0 };
	return a->status >= 100 && a->status <= 599;
}

static struct http1_text trim(struct http1_text t)
{
	while (t.n && (*t.p == ' ' || *t.p == '\t')) {
		t.p++;
		t.n--;
	}
	while (t.n && (t.p[t.n - 1] == ' ' || t.p[t.n - 1] == '\t'))
		t.n--;
	return t;
}

/* A folded line begins with a blank and a blank may not stand before the colon: neither is a token
 * character. */
bool http1_field_line(struct http1_text l, struct http1_field *f)
{
	size_t n = 0;

	while (n < l.n && http1_is_token_char((unsigned char)l.p[n]))
		n++;
	if (!n || n == l.n || l.p[n] != ':')
		return false;
	f->name = (struct http1_text){ .p = l.p, .n = n };
	f->is = http1_name(f->name);
	f->value = trim((struct http1_text){ .p = l.p + n + 1, .n = l.n - n - 1 });
	return true;
}

bool http1_text_is(struct http1_text t, const char *word)
{
	/* Most names differ in their first sign: bit 5 is all that case can change. */
	if (t.n && ((t.p[0] ^ word[0]) & 0xdf))
		return false;
	return t.p && t.n == strlen(word) && strncasecmp(t.p, word, t.n) == 0;
}

/* A name that is asked for. */
struct named {
	struct http1_text text;
	enum http1_name is;
};

static struct named named(const char *name)
{
	struct http1_text t = { name, strlen(name) };

	return (struct named){ t, http1_name(t) };
}

static bool is_named(const struct named *w, const struct http1_field *f)
{
	return f->is == w->is && (w->is != HTTP1_NAME_OTHER || http1_text_is(f->name, w->text.p));
}

struct http1_text http1_only(const struct http1_field *f, size_t n, const char *name)
{
	const struct named w = named(name);
	struct http1_text found = { 0 };

	for (size_t i = 0; i < n; i++) {
		if (!is_named(&w, &f[i]))
			continue;
		if (found.p)
			return (struct http1_text){ 0 };
		found = f[i].value;
	}
	return found;
}

struct http1_text http1_field(const struct http1_answer *a, const char *name)
{
	return http1_only(a->fields, a->n_fields, name);
}

uint64_t http1_retry_after(const struct http1_answer *a)
{
	struct http1_text t = http1_field(a, "Retry-After");
	char text[16];
	uint64_t seconds;

	if (!t.p || t.n >= sizeof(text))
		return 0;
	memcpy(text, t.p, t.n);
	text[t.n] = '\0';
	return num_count(text, &seconds) == 0 ? seconds : 0;
}

size_t http1_count(const struct http1_field *f, size_t n, const char *name)
{
	const struct named w = named(name);
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += is_named(&w, &f[i]);
	return found;
}

/* Is the word one of the comma-separated tokens of any field of that name? */
bool http1_lists(const struct http1_field *f, size_t count, const char *name, const char *word)
{
	const struct named w = named(name);

	for (size_t i = 0; i < count; i++) {
		struct http1_text rest = f[i].value;

		while (is_named(&w, &f[i]) && rest.n) {
			const char *comma = memchr(rest.p, ',', rest.n);
			size_t n = comma ? (size_t)(comma - rest.p) : rest.n;

			if (http1_text_is(trim((struct http1_text){ .p = rest.p, .n = n }), word))
				return true;
			rest.p += n + (comma != NULL);
			rest.n -= n + (comma != NULL);
		}
	}
	return false;
}

size_t http1_digits(char out[HTTP1_DIGITS], uint64_t v, unsigned base)
{
	char text[HTTP1_DIGITS];
	size_t at = sizeof(text);

	do
		text[--at] = "0123456789abcdef"[v % base];
	while (v /= base);
	memcpy(out, text + at, sizeof(text) - at);
	return sizeof(text) - at;
}

int http1_content_length(struct http1_text t, uint64_t *ret)
{
	uint64_t v = 0;

	if (!t.n || t.n > 18) /* fits whatever the digits are */
		return -EBADMSG;
	for (size_t i = 0; i < t.n; i++) {
		if (!http1_is_digit(t.p[i]))
			return -EBADMSG;
		v = v * 10 + (uint64_t)(t.p[i] - '0');
	}
	*ret = v;
	return 0;
}

static int body_framing(struct http1_answer *a, struct err *e)
{
	size_t lengths = http1_count(a->fields, a->n_fields, "Content-Length"),
	       codings = http1_count(a->fields, a->n_fields, "Transfer-Encoding");

	a->framing = HTTP1_UNTIL_CLOSE;
	if (lengths + codings > 1)
		return bad(e, "more than one word on how long it is");
	if (codings) {
		if (a->minor < 1 || !http1_text_is(http1_field(a, "Transfer-Encoding"), "chunked"))
			return bad(e, "a transfer coding other than chunked");
		a->framing = HTTP1_CHUNKED;
	}
	if (lengths) {
		if (http1_content_length(http1_field(a, "Content-Length"), &a->length) < 0)
			return bad(e, "Content-Length");
		a->framing = HTTP1_LENGTH;
	}
	return 0;
}

static int framing(struct http1_answer *a, enum http1_asked asked, struct err *e)
{
	int r = body_framing(a, e);
	bool bare = asked == HTTP1_ASKED_HEAD || a->status == 204 || a->status == 304 ||
		    a->status < 200;

	if (r < 0)
		return r;
	a->asks_upgrade = http1_lists(a->fields, a->n_fields, "Connection", "upgrade");
	if (a->status == 101 && asked != HTTP1_ASKED_UPGRADE && asked != HTTP1_ASKED_WEBSOCKET)
		return bad(e, "it changes the protocol, which nobody asked for");
	/* A 200 with a length or chunks is an answer; without, it is the engine's raw stream. */
	if (asked == HTTP1_ASKED_UPGRADE &&
	    (a->status == 101 || (a->status == 200 && a->framing == HTTP1_UNTIL_CLOSE)))
		a->framing = HTTP1_UPGRADED;
	else if (bare)
		a->framing = HTTP1_NO_BODY;
	a->keeps_alive = a->framing != HTTP1_UNTIL_CLOSE && a->framing != HTTP1_UPGRADED &&
			 a->minor == 1 &&
			 !http1_lists(a->fields, a->n_fields, "Connection", "close");
	return 0;
}

/* Length of the head with its empty line; 0: not there yet. */
size_t http1_head_length(const char *p, size_t n)
{
	const char *end = memmem(p, n, "\r\n\r\n", 4);

	return end ? (size_t)(end - p) + 4 : 0;
}

/* Refuses early what can never become a head: a peer that speaks something else should not have to
 * send 64 KiB of it, or wait for the deadline. */
static bool may_become_head(const char *p, size_t n)
{
	return memcmp(p, "HTTP/1.", n < 7 ? n : 7) == 0;
}

ssize_t http1_read_answer(const char *p, size_t n, enum http1_asked asked, struct http1_answer *ret,
			  struct err *e)
{
	size_t whole = http1_head_length(p, n < HTTP1_HEAD_MAX ? n : HTTP1_HEAD_MAX);
	const char *at = p, *end = p + (whole ? whole - 2 : 0); /* before the empty line */
	struct http1_answer a;
	struct http1_text line;
	int r;

	memset(&a, 0, offsetof(struct http1_answer, fields));

	if (n && !may_become_head(p, n))
		return bad(e, "it does not begin with HTTP/1.");
	if (!whole)
		return n < HTTP1_HEAD_MAX ? 0
					  : err_set(e, ERR_INTERNAL, EMSGSIZE,
						    "the HTTP answer's head is too long");
	if (!http1_take_line(&at, end, &line) || !status_line(line, &a))
		return bad(e, "status line");
	while (at < end) {
		if (a.n_fields == HTTP1_FIELDS_MAX)
			return err_set(e, ERR_INTERNAL, EMSGSIZE,
				       "the HTTP answer has too many fields");
		if (!http1_take_line(&at, end, &line) ||
		    !http1_field_line(line, &a.fields[a.n_fields++]))
			return bad(e, "a header field");
	}
	r = framing(&a, asked, e);
	if (r < 0)
		return r;
	memcpy(ret, &a, offsetof(struct http1_answer, fields) + a.n_fields * sizeof(a.fields[0]));
	return (ssize_t)whole;
}

/* ---- the body ---- */

void http1_body_start(struct http1_body *b, enum http1_framing framed, uint64_t length)
{
	bool has = framed == HTTP1_CHUNKED || framed == HTTP1_UNTIL_CLOSE ||
		   (framed == HTTP1_LENGTH && length > 0);

	*b = (struct http1_body){ .state = !has                      ? HTTP1_DONE
					   : framed == HTTP1_CHUNKED ? HTTP1_SIZE
								     : HTTP1_DATA,
				  .chunked = framed == HTTP1_CHUNKED,
				  .until_close = framed == HTTP1_UNTIL_CLOSE,
				  .left = framed == HTTP1_LENGTH ? length : 0 };
}

void http1_body_init(struct http1_body *b, const struct http1_answer *a)
{
	http1_body_start(b, a->framing, a->length);
}

bool http1_body_done(const struct http1_body *b)
{
	return b->state == HTTP1_DONE;
}

void http1_body_skip(struct http1_body *b, uint64_t n)
{
	b->left -= n;
	if (!b->left)
		b->state = HTTP1_DONE;
}

int http1_body_end(struct http1_body *b)
{
	if (b->until_close && b->state == HTTP1_DATA)
		b->state = HTTP1_DONE;
	return b->state == HTTP1_DONE ? 0 : -EBADMSG;
}

static ssize_t take_data(struct http1_body *b, const char *p, size_t n, struct http1_text *data)
{
	if (!b->until_close && n > b->left)
		n = (size_t)b->left;
	*data = (struct http1_text){ .p = p, .n = n };
	if (b->until_close)
		return (ssize_t)n;
	b->left -= n;
	if (!b->left)
		b->state = b->chunked ? HTTP1_DATA_CR : HTTP1_DONE;
	return (ssize_t)n;
}

static int size_char(struct http1_body *b, char c)
{
	int v = hex_nibble(c);

	if (c == '\r' && b->digits)
		b->state = HTTP1_SIZE_LF;
	else if (v < 0 || b->digits == SIZE_DIGITS_MAX)
		return -EBADMSG;
	else {
		b->left = b->left << 4 | (uint64_t)v;
		b->digits++;
	}
	return 0;
}

static void next_chunk(struct http1_body *b)
{
	b->state = HTTP1_SIZE;
	b->left = 0;
	b->digits = 0;
}

/* Trailers are fields like others, and read past where nobody has a use for them. */
static int trailer_char(struct http1_body *b, char c)
{
	bool named = b->state == HTTP1_TRAILER_IN;

	if (++b->trailer > HTTP1_TRAILER_MAX)
		return -EBADMSG;
	if (c == '\r' && b->state != HTTP1_TRAILER_NAME) {
		b->state = named ? HTTP1_TRAILER_LF : HTTP1_LAST_LF;
		return 0;
	}
	if (c == ':' && b->state == HTTP1_TRAILER_NAME) {
		b->state = HTTP1_TRAILER_IN;
		return 0;
	}
	if (named ? !is_text_char((unsigned char)c) : !http1_is_token_char((unsigned char)c))
		return -EBADMSG;
	if (!named)
		b->state = HTTP1_TRAILER_NAME;
	return 0;
}

/* One character of what stands between the data. */
static int frame_char(struct http1_body *b, char c)
{
	switch (b->state) {
	case HTTP1_SIZE:
		return size_char(b, c);
	case HTTP1_SIZE_LF:
		b->state = b->left ? HTTP1_DATA : HTTP1_TRAILER;
		break;
	case HTTP1_DATA_CR:
		b->state = HTTP1_DATA_LF;
		return c == '\r' ? 0 : -EBADMSG;
	case HTTP1_DATA_LF:
		next_chunk(b);
		break;
	case HTTP1_TRAILER:
	case HTTP1_TRAILER_NAME:
	case HTTP1_TRAILER_IN:
		return trailer_char(b, c);
	case HTTP1_TRAILER_LF:
		b->state = HTTP1_TRAILER;
		break;
	case HTTP1_LAST_LF:
		b->state = HTTP1_DONE;
		break;
	case HTTP1_DATA:
	case HTTP1_DONE:
		return -EBADMSG;
	}
	return c == '\n' ? 0 : -EBADMSG;
}

ssize_t http1_body_read(struct http1_body *b, const char *p, size_t n, struct http1_text *data)
{
	size_t at = 0;

	*data = (struct http1_text){ 0 };
	while (at < n && b->state != HTTP1_DONE) {
		if (b->state == HTTP1_DATA)
			return (ssize_t)at + take_data(b, p + at, n - at, data);
		if (b->keep && b->state >= HTTP1_TRAILER && b->kept < HTTP1_TRAILER_MAX)
			b->keep[b->kept++] = p[at];
		if (frame_char(b, p[at++]) < 0)
			return -EBADMSG;
	}
	return (ssize_t)at;
}
