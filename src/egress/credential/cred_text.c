/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/cred_text.c - what placeholders look like, and how values are written in their
 * place. */
#include <string.h>
#include <strings.h>

#include "egress/credential/cred_internal.h"

bool cred_same(struct egress_text a, const char *b)
{
	return a.n == strlen(b) && memcmp(a.p, b, a.n) == 0;
}

bool cred_same_nocase(struct egress_text a, const char *b)
{
	return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0;
}

const struct secret *cred_token(const struct cred *c, struct egress_text t)
{
	if ((c->secret->placeholder && cred_same(t, c->secret->placeholder)) ||
	    cred_same(t, c->name) || cred_same_nocase(t, c->escaped))
		return c->secret;
	for (size_t i = 0; i < c->n_learned; i++)
		if (c->learned[i].secret && cred_same(t, c->learned[i].secret->placeholder))
			return c->learned[i].secret;
	return NULL;
}

bool cred_placeholder_at(const struct cred *c, const char *p, size_t n)
{
	if (n < CRED_PLACEHOLDER_LEN)
		return false;
	if (c->secret->placeholder && memcmp(p, c->secret->placeholder, CRED_PLACEHOLDER_LEN) == 0)
		return true;
	for (size_t i = 0; i < c->n_learned; i++)
		if (c->learned[i].secret &&
		    memcmp(p, c->learned[i].secret->placeholder, CRED_PLACEHOLDER_LEN) == 0)
			return true;
	return false;
}

static bool no_memory(struct cred_job *j)
{
	return verdict_deny(j->v, EGRESS_INTERNAL, NULL, "no memory");
}

/* The text of a buffer, kept in the request's arena; the buffer is wiped. */
bool cred_keep(struct cred_job *j, struct buf *b, struct egress_text *ret)
{
	char *copy = b->failed ? NULL : arena_strndup(j->head->arena, buf_str(b), b->len);

	if (copy)
		*ret = egress_text(copy, b->len);
	if (b->data)
		explicit_bzero(b->data, b->len);
	return copy || no_memory(j);
}

static bool unreserved(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~", c));
}

void cred_put_escaped(struct buf *b, const struct secret *s)
{
	for (size_t i = 0; i < s->len; i++)
		if (unreserved(s->value[i]))
			buf_putc(b, s->value[i]);
		else
			buf_printf(b, "%%%02X", (unsigned char)s->value[i]);
}

static const char signs64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void cred_put_base64(struct buf *b, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)(unsigned char)p[i] << 16;

		v |= i + 1 < n ? (unsigned)(unsigned char)p[i + 1] << 8 : 0;
		v |= i + 2 < n ? (unsigned char)p[i + 2] : 0;
		buf_putc(b, signs64[v >> 18]);
		buf_putc(b, signs64[v >> 12 & 63]);
		buf_putc(b, i + 1 < n ? signs64[v >> 6 & 63] : '=');
		buf_putc(b, i + 2 < n ? signs64[v & 63] : '=');
	}
}

void cred_put_basic(struct buf *out, const char *user, const char *password, size_t n)
{
	CLEANUP(buf) struct buf pair = BUF_INIT(CRED_TEXT_MAX);

	buf_puts(&pair, user);
	buf_putc(&pair, ':');
	buf_add(&pair, password, n);
	buf_puts(out, "Basic ");
	cred_put_base64(out, buf_str(&pair), pair.len);
	if (pair.data)
		explicit_bzero(pair.data, pair.len);
}

/* Strict: the alphabet, padding at the end alone. */
bool cred_get_base64(struct egress_text t, struct buf *out)
{
	unsigned bits = 0, have = 0;

	while (t.n && t.p[t.n - 1] == '=')
		t.n--;
	for (size_t i = 0; i < t.n; i++) {
		const char *at = t.p[i] ? strchr(signs64, t.p[i]) : NULL;

		if (!at)
			return false;
		bits = (bits << 6 | (unsigned)(at - signs64)) & 0xffff;
		have += 6;
		if (have >= 8) {
			have -= 8;
			buf_putc(out, (char)(bits >> have));
		}
	}
	return !out->failed;
}

/* How long the token of this credential at p is; 0: none is there. */
size_t cred_name_at(const struct cred *c, const char *p, size_t n)
{
	size_t plain = strlen(c->name), escaped = strlen(c->escaped);

	if (n >= plain && memcmp(p, c->name, plain) == 0)
		return plain;
	return n >= escaped && strncasecmp(p, c->escaped, escaped) == 0 ? escaped : 0;
}

/* "Scheme token" in two; false when it is not of that form. */
bool cred_split_scheme(struct egress_text v, struct egress_text *scheme, struct egress_text *rest)
{
	const char *blank = v.n ? memchr(v.p, ' ', v.n) : NULL;

	if (!blank)
		return false;
	*scheme = egress_text(v.p, (size_t)(blank - v.p));
	while (blank < v.p + v.n && *blank == ' ')
		blank++;
	*rest = egress_text(blank, (size_t)(v.p + v.n - blank));
	return true;
}
