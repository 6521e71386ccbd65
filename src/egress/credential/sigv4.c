/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/credential/sigv4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes/hex.h"
#include "base/bytes/hmac.h"
#include "base/text/cleanup.h"
#include "egress/rules/path.h"

#define ALGORITHM "AWS4-HMAC-SHA256"
#define LAST "aws4_request"
#define PAIRS_MAX 512
#define SKEW_S (15 * 60)
#define TEXT_MAX ((size_t)256 << 10)

/* --- what the client says --- */

static bool text_is(struct egress_text t, const char *word)
{
	return t.n == strlen(word) && memcmp(t.p, word, t.n) == 0;
}

static bool of_letters(struct egress_text t, const char *letters, size_t max)
{
	for (size_t i = 0; i < t.n; i++)
		if (!t.p[i] || !strchr(letters, t.p[i]))
			return false;
	return t.n > 0 && t.n <= max;
}

#define DIGITS "0123456789"
#define SMALL "abcdefghijklmnopqrstuvwxyz"
#define LARGE "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* What stands before the next `sign`, which is dropped; all of it where there is none. */
static struct egress_text cut(struct egress_text *t, char sign)
{
	const char *at = t->n ? memchr(t->p, sign, t->n) : NULL;
	struct egress_text part = egress_text(t->p, at ? (size_t)(at - t->p) : t->n);
	size_t used = part.n + (at != NULL);

	*t = egress_text(t->p + used, t->n - used);
	return part;
}

static bool read_scope(struct egress_text t, struct sigv4_claim *ret)
{
	ret->id = cut(&t, '/');
	ret->date = cut(&t, '/');
	ret->region = cut(&t, '/');
	ret->service = cut(&t, '/');
	return text_is(t, LAST) && of_letters(ret->id, SMALL LARGE DIGITS "-_{}%", 128) &&
	       of_letters(ret->date, DIGITS, 8) && ret->date.n == 8 &&
	       of_letters(ret->region, SMALL DIGITS "-", 48) &&
	       of_letters(ret->service, SMALL LARGE DIGITS "-", 48);
}

static bool has_name(struct egress_text list, struct egress_text name)
{
	while (list.n) {
		struct egress_text one = cut(&list, ';');

		if (one.n == name.n && memcmp(one.p, name.p, one.n) == 0)
			return true;
	}
	return false;
}

/* Names in small letters, each once; Host is one of them, or the request could go elsewhere. */
static bool read_names(struct egress_text t, struct sigv4_claim *ret)
{
	struct egress_text rest = t;
	bool host = false;

	if (!of_letters(t, SMALL DIGITS "-_.;!#$%&'*+^`|~", 4096) || t.p[t.n - 1] == ';')
		return false;
	while (rest.n) {
		struct egress_text one = cut(&rest, ';');

		if (!one.n || has_name(rest, one))
			return false;
		host |= text_is(one, "host");
	}
	ret->signed_fields = t;
	return host;
}

static struct egress_text without_blanks(struct egress_text t)
{
	while (t.n && (t.p[0] == ' ' || t.p[0] == '\t'))
		t = egress_text(t.p + 1, t.n - 1);
	while (t.n && (t.p[t.n - 1] == ' ' || t.p[t.n - 1] == '\t'))
		t.n--;
	return t;
}

static bool read_part(struct egress_text part, unsigned *seen, struct sigv4_claim *ret)
{
	static const char *const names[] = { "Credential", "SignedHeaders", "Signature" };
	struct egress_text value = without_blanks(part), name = cut(&value, '=');
	unsigned i = 0;

	while (i < 3 && !text_is(name, names[i]))
		i++;
	if (i == 3 || *seen >> i & 1)
		return false;
	*seen |= 1U << i;
	return i == 0   ? read_scope(value, ret)
	       : i == 1 ? read_names(value, ret)
			: value.n == SIGV4_DIGITS && of_letters(value, DIGITS "abcdef", 64);
}

enum sigv4_kind sigv4_parse(struct egress_text value, struct sigv4_claim *ret)
{
	struct sigv4_claim c = { 0 };
	struct egress_text scheme;
	unsigned seen = 0;

	value = without_blanks(value);
	scheme = cut(&value, ' ');
	if (scheme.n < 4 || strncasecmp(scheme.p, "AWS4", 4) != 0)
		return SIGV4_NONE;
	if (scheme.n > 10 && strncasecmp(scheme.p, "AWS4-ECDSA", 10) == 0)
		return SIGV4_ASYMMETRIC;
	if (!text_is(scheme, ALGORITHM))
		return SIGV4_BROKEN;
	while (value.n)
		if (!read_part(cut(&value, ','), &seen, &c))
			return SIGV4_BROKEN;
	if (seen != 7)
		return SIGV4_BROKEN;
	*ret = c;
	return SIGV4_CLAIM;
}

enum sigv4_payload sigv4_payload_of(struct egress_text value)
{
	if (!value.n)
		return SIGV4_ABSENT;
	if (value.n == SIGV4_DIGITS && of_letters(value, DIGITS "abcdef", 64))
		return SIGV4_HASHED;
	if (text_is(value, "UNSIGNED-PAYLOAD") ||
	    text_is(value, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"))
		return SIGV4_HASHED;
	return value.n > 10 && memcmp(value.p, "STREAMING-", 10) == 0 ? SIGV4_CHUNKED
								      : SIGV4_UNKNOWN;
}

static int number_at(const char *p, size_t n)
{
	int v = 0;

	for (size_t i = 0; i < n; i++)
		v = v * 10 + (p[i] - '0');
	return v;
}

bool sigv4_date(struct egress_text date, struct egress_text day, int64_t now)
{
	const char *p = date.p;
	struct tm t = { 0 };
	int64_t at;

	if (date.n != 16 || p[8] != 'T' || p[15] != 'Z' || memcmp(p, day.p, 8) != 0)
		return false;
	for (int i = 0; i < 15; i++)
		if (i != 8 && (p[i] < '0' || p[i] > '9'))
			return false;
	t.tm_year = number_at(p, 4) - 1900;
	t.tm_mon = number_at(p + 4, 2) - 1;
	t.tm_mday = number_at(p + 6, 2);
	t.tm_hour = number_at(p + 9, 2);
	t.tm_min = number_at(p + 11, 2);
	t.tm_sec = number_at(p + 13, 2);
	at = timegm(&t);
	return !now || (at > now - SKEW_S && at < now + SKEW_S);
}

/* --- the canonical request --- */

static bool is_unreserved(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

/* Every byte but those that need it not; `decode`: an escape is the byte that it stands for. */
static void escape(struct buf *out, struct egress_text t, const char *also, bool decode)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < t.n; i++) {
		unsigned char c = (unsigned char)t.p[i];

		if (decode && c == '%' && t.n - i > 2 && hex_nibble(t.p[i + 1]) >= 0 &&
		    hex_nibble(t.p[i + 2]) >= 0) {
			c = (unsigned char)(hex_nibble(t.p[i + 1]) * 16 + hex_nibble(t.p[i + 2]));
			i += 2;
		}
		if (is_unreserved((char)c) || (c == '/' && *also == '/')) {
			buf_putc(out, (char)c);
		} else {
			buf_putc(out, '%');
			buf_putc(out, digits[c >> 4]);
			buf_putc(out, digits[c & 15]);
		}
	}
}

/* Without empty parts and dots. */
static void put_plain_path(struct buf *out, struct egress_text path)
{
	struct egress_text rest = path;
	bool slash = path.n && path.p[path.n - 1] == '/';

	while (rest.n) {
		struct egress_text part = cut(&rest, '/');

		if (text_is(part, "..")) {
			const char *at = out->len ? memrchr(out->data, '/', out->len) : NULL;

			out->len = at ? (size_t)(at - out->data) : 0;
		} else if (part.n && !text_is(part, ".")) {
			buf_putc(out, '/');
			buf_add(out, part.p, part.n);
		}
	}
	if (slash || !out->len)
		buf_putc(out, '/');
}

/* S3's names of objects are what they are; elsewhere the path is made plain and escaped twice. */
static void put_path(struct buf *out, struct egress_text path, bool s3)
{
	CLEANUP(buf) struct buf plain = BUF_INIT(TEXT_MAX);

	if (s3) {
		escape(out, path, "/", true);
		return;
	}
	put_plain_path(&plain, path);
	escape(out, egress_text(buf_str(&plain), plain.len), "/", false);
	out->failed |= plain.failed;
}

struct sigv4_pair {
	const char *text; /* name, '=', value, escaped */
	size_t name, n;
};

static int by_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int d = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return d ? d : (a_len > b_len) - (a_len < b_len);
}

static int by_name(const void *x, const void *y)
{
	const struct sigv4_pair *a = x, *b = y;
	int d = by_bytes(a->text, a->name, b->text, b->name);

	return d ? d
		 : by_bytes(a->text + a->name, a->n - a->name, b->text + b->name, b->n - b->name);
}

static bool put_query(struct buf *out, struct egress_text query)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TEXT_MAX);
	struct sigv4_pair pairs[PAIRS_MAX];
	size_t n = 0;

	while (query.n) {
		struct egress_text value = cut(&query, '&'), name;

		if (!value.n)
			continue;
		if (n == PAIRS_MAX)
			return false;
		name = cut(&value, '=');
		pairs[n].n = text.len; /* where it begins, as long as the text may move */
		escape(&text, name, "", true);
		pairs[n].name = text.len - pairs[n].n;
		buf_putc(&text, '=');
		escape(&text, value, "", true);
		n++;
	}
	for (size_t i = 0; i < n; i++) {
		size_t from = pairs[i].n, to = i + 1 < n ? pairs[i + 1].n : text.len;

		pairs[i].text = buf_str(&text) + from;
		pairs[i].n = to - from;
	}
	if (n)
		qsort(pairs, n, sizeof(*pairs), by_name);
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(out, '&');
		buf_add(out, pairs[i].text, pairs[i].n);
	}
	return !text.failed;
}

/* --- its fields --- */

struct signed_field {
	char name[128]; /* in small letters */
	struct egress_text value;
};

static int by_field(const void *x, const void *y)
{
	return strcmp(((const struct signed_field *)x)->name,
		      ((const struct signed_field *)y)->name);
}

static bool take_field(const struct sigv4_request *q, const struct egress_field *f,
		       struct signed_field *ret)
{
	if (!f->name.n || f->name.n >= sizeof(ret->name))
		return false;
	for (size_t i = 0; i < f->name.n; i++)
		ret->name[i] = (char)(f->name.p[i] >= 'A' && f->name.p[i] <= 'Z' ? f->name.p[i] | 32
										 : f->name.p[i]);
	ret->name[f->name.n] = '\0';
	ret->value = f->value;
	if (strcmp(ret->name, "authorization") == 0 || strcmp(ret->name, "host") == 0)
		return false;
	return strncmp(ret->name, "x-amz-", 6) == 0 ||
	       has_name(q->claim->signed_fields, egress_text(ret->name, f->name.n));
}

/* Runs of blanks are one. */
static void put_value(struct buf *out, struct egress_text v)
{
	v = without_blanks(v);
	for (size_t i = 0; i < v.n; i++) {
		bool blank = v.p[i] == ' ' || v.p[i] == '\t';

		if (!blank)
			buf_putc(out, v.p[i]);
		else if (v.p[i - 1] != ' ' && v.p[i - 1] != '\t')
			buf_putc(out, ' ');
	}
}

static const char *put_fields(const struct sigv4_request *q, struct buf *out, struct buf *list,
			      struct egress_text *name)
{
	struct signed_field v[HEAD_FIELDS_MAX + 1];
	size_t n = 1;

	v[0] = (struct signed_field){ "host", q->host };
	for (size_t i = 0; i < q->head->n_fields; i++)
		n += take_field(q, &q->head->fields[i], &v[n]);
	qsort(v, n, sizeof(*v), by_field);
	for (size_t i = 0; i < n; i++) {
		if (i && strcmp(v[i].name, v[i - 1].name) == 0) {
			for (size_t k = 0; k < q->head->n_fields; k++)
				if (egress_text_is(q->head->fields[k].name, v[i].name))
					*name = q->head->fields[k].name;
			return "stands twice and is signed";
		}
		buf_puts(out, v[i].name);
		buf_putc(out, ':');
		put_value(out, v[i].value);
		buf_putc(out, '\n');
		if (i)
			buf_putc(list, ';');
		buf_puts(list, v[i].name);
	}
	buf_putc(out, '\n');
	buf_add(out, buf_str(list), list->len);
	buf_putc(out, '\n');
	return NULL;
}

/* --- signing --- */

static void hmac_step(const unsigned char key[SHA256_SIZE], const char *text, size_t n,
		      unsigned char out[SHA256_SIZE])
{
	struct hmac_key k;

	hmac_key_init(&k, key, SHA256_SIZE);
	hmac_sha256(&k, text, n, out);
	explicit_bzero(&k, sizeof(k));
}

static bool derive_key(struct sigv4 *s, const struct sigv4_claim *c, const char *secret, size_t n)
{
	CLEANUP(buf) struct buf first = BUF_INIT(n + 8);
	struct hmac_key k;

	buf_puts(&first, "AWS4");
	buf_add(&first, secret, n);
	if (first.failed)
		return false;
	hmac_key_init(&k, first.data, first.len);
	hmac_sha256(&k, c->date.p, c->date.n, s->key);
	explicit_bzero(first.data, first.len);
	explicit_bzero(&k, sizeof(k));
	hmac_step(s->key, c->region.p, c->region.n, s->key);
	hmac_step(s->key, c->service.p, c->service.n, s->key);
	hmac_step(s->key, LAST, strlen(LAST), s->key);
	return true;
}

const char *sigv4_begin(struct sigv4 *s, const struct sigv4_request *q, const char *secret,
			size_t secret_len, struct buf *list, struct egress_text *name)
{
	CLEANUP(buf) struct buf b = BUF_INIT(TEXT_MAX);
	struct egress_text target = q->head->target, path = path_of_target(target), query = { 0 };
	const struct sigv4_claim *c = q->claim;
	const char *why;

	if (path.n < target.n)
		query = egress_text(target.p + path.n + 1, target.n - path.n - 1);
	buf_add(&b, q->head->method.p, q->head->method.n);
	buf_putc(&b, '\n');
	put_path(&b, path, c->service.n >= 2 && memcmp(c->service.p, "s3", 2) == 0);
	buf_putc(&b, '\n');
	*name = egress_text("query", 5);
	if (!put_query(&b, query))
		return "has too many parameters to be signed";
	buf_putc(&b, '\n');
	why = put_fields(q, &b, list, name);
	if (why)
		return why;
	*name = egress_text("request", 7);
	if (b.failed || list->failed || !derive_key(s, c, secret, secret_len))
		return "is too long to be signed";
	sha256_init(&s->canonical);
	sha256_add(&s->canonical, b.data, b.len);
	memcpy(s->date, q->date.p, 16);
	s->date[16] = '\0';
	(void)snprintf(s->scope, sizeof(s->scope), "%.*s/%.*s/%.*s/" LAST, (int)c->date.n,
		       c->date.p, (int)c->region.n, c->region.p, (int)c->service.n, c->service.p);
	return NULL;
}

void sigv4_finish(struct sigv4 *s, const char *payload, char signature[SIGV4_DIGITS + 1])
{
	unsigned char digest[SHA256_SIZE];
	char hex[SHA256_HEX],
		text[sizeof(ALGORITHM) + sizeof(s->date) + sizeof(s->scope) + SHA256_HEX];
	int n;

	sha256_add(&s->canonical, payload, strlen(payload));
	sha256_end(&s->canonical, digest);
	sha256_hex(digest, hex);
	n = snprintf(text, sizeof(text), ALGORITHM "\n%s\n%s\n%s", s->date, s->scope, hex);
	hmac_step(s->key, text, (size_t)n, digest);
	sha256_hex(digest, signature);
	explicit_bzero(s->key, sizeof(s->key));
}
