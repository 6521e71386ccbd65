/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/scan/secret.h"

#include <assert.h>
#include <string.h>

#include "base/text/buf.h"

static const char std[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int secret_add(struct arena *a, struct variants *l, const struct variant *v, struct err *e)
{
	struct variant *slot;

	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].n == v->n && memcmp(l->v[i].p, v->p, v->n) == 0)
			return 0;
	slot = ARENA_PUSH(a, l->v, l->n);
	if (!slot)
		return err_nomem(e);
	*slot = *v;
	if (v->n > l->longest)
		l->longest = v->n;
	return 0;
}

/* Where the secret begins `skip` bytes into a group of three: the characters that depend on it
 * alone. The first and the last may share their bits with a neighbour and are left out. */
static char *base64_core(struct arena *a, const struct secret *s, unsigned skip, size_t *len)
{
	size_t first_bit = 0, last_bit = s->len * 8, n = 0;
	/* Bits of the secret that stand before the first whole character. */
	size_t lead = (6 - skip * 8 % 6) % 6;
	char *out;

	first_bit = lead;
	if (last_bit < first_bit + 6)
		return NULL;
	out = arena_alloc(a, (last_bit - first_bit) / 6 + 1);
	for (size_t bit = first_bit; out && bit + 6 <= last_bit; bit += 6) {
		size_t at = bit / 8, shift = bit % 8;
		unsigned pair = (unsigned)(unsigned char)s->value[at] << 8;

		if (at + 1 < s->len)
			pair |= (unsigned char)s->value[at + 1];
		out[n++] = std[(pair >> (10 - shift)) & 63];
	}
	*len = n;
	return out;
}

static int add_base64(struct arena *a, const struct secret *s, struct variants *l, struct err *e)
{
	for (unsigned skip = 0; skip < 3; skip++) {
		size_t n = 0;
		char *p = base64_core(a, s, skip, &n), *url;

		if (!p || !(url = arena_strndup(a, p, n)))
			return err_nomem(e);
		for (size_t i = 0; i < n; i++)
			url[i] = (char)(p[i] == '+' ? '-' : p[i] == '/' ? '_' : p[i]);
		if (secret_add(a, l, &(struct variant){ .form = SECRET_BASE64, .p = p, .n = n },
			       e) < 0 ||
		    secret_add(a, l,
			       &(struct variant){ .form = SECRET_BASE64_URL, .p = url, .n = n },
			       e) < 0)
			return -e->code;
	}
	return 0;
}

static bool unreserved(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~", c));
}

typedef void escape_fn(struct buf *out, char c);

static void hex_all(struct buf *out, char c)
{
	buf_printf(out, "%02x", (unsigned char)c);
}

static void percent_all(struct buf *out, char c)
{
	buf_printf(out, "%%%02x", (unsigned char)c);
}

static void percent_some(struct buf *out, char c)
{
	if (unreserved(c))
		buf_putc(out, c);
	else
		buf_printf(out, "%%%02X", (unsigned char)c);
}

/* What forms make of a blank. */
static void percent_form(struct buf *out, char c)
{
	if (c == ' ')
		buf_putc(out, '+');
	else
		percent_some(out, c);
}

static void json_some(struct buf *out, char c)
{
	if (c == '"' || c == '\\')
		buf_printf(out, "\\%c", c);
	else if (c == '\n' || c == '\r' || c == '\t')
		buf_printf(out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
	else if ((unsigned char)c < 0x20)
		buf_printf(out, "\\u%04x", c);
	else
		buf_putc(out, c);
}

/* As some writers do, and PHP by default. */
static void json_slash(struct buf *out, char c)
{
	if (c == '/')
		buf_puts(out, "\\/");
	else
		json_some(out, c);
}

static void json_all(struct buf *out, char c)
{
	buf_printf(out, "\\u%04x", (unsigned char)c);
}

static const char *html_name(char c)
{
	return c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : NULL;
}

static void html_put(struct buf *out, char c, const char *escape)
{
	if (escape)
		buf_puts(out, escape);
	else
		buf_putc(out, c);
}

/* Python, and most that use hexadecimal numbers. */
static void html_hex(struct buf *out, char c)
{
	html_put(out, c, c == '"' ? "&quot;" : c == '\'' ? "&#x27;" : html_name(c));
}

/* PHP, Ruby, Java. */
static void html_decimal(struct buf *out, char c)
{
	html_put(out, c, c == '"' ? "&quot;" : c == '\'' ? "&#39;" : html_name(c));
}

static void html_go(struct buf *out, char c)
{
	html_put(out, c,
		 c == '"'    ? "&#34;"
		 : c == '\'' ? "&#39;"
		 : c == '+'  ? "&#43;"
			     : html_name(c));
}

/* As OWASP has it. */
static void html_slash(struct buf *out, char c)
{
	if (c == '/')
		buf_puts(out, "&#x2F;");
	else
		html_hex(out, c);
}

static void html_mustache(struct buf *out, char c)
{
	html_put(out, c,
		 c == '"'    ? "&quot;"
		 : c == '\'' ? "&#39;"
		 : c == '/'  ? "&#x2F;"
		 : c == '`'  ? "&#x60;"
		 : c == '='  ? "&#x3D;"
			     : html_name(c));
}

static bool alnum(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static void html_all_hex(struct buf *out, char c)
{
	buf_printf(out, "&#x%02x;", (unsigned char)c);
}

static void html_all_decimal(struct buf *out, char c)
{
	buf_printf(out, "&#%d;", (unsigned char)c);
}

static void html_signs_hex(struct buf *out, char c)
{
	if (alnum(c))
		buf_putc(out, c);
	else
		html_all_hex(out, c);
}

static void html_signs_decimal(struct buf *out, char c)
{
	if (alnum(c))
		buf_putc(out, c);
	else
		html_all_decimal(out, c);
}

static const struct {
	escape_fn *escape;
	enum secret_form form;
	bool caseless;
} escapes[] = {
	{ hex_all, SECRET_HEX, true },         { percent_all, SECRET_PERCENT, true },
	{ percent_some, SECRET_URL, false },   { percent_form, SECRET_URL, false },
	{ json_some, SECRET_JSON, false },     { json_slash, SECRET_JSON, false },
	{ json_all, SECRET_UNICODE, true },    { html_hex, SECRET_HTML, false },
	{ html_decimal, SECRET_HTML, false },  { html_go, SECRET_HTML, false },
	{ html_slash, SECRET_HTML, false },    { html_mustache, SECRET_HTML, false },
	{ html_signs_hex, SECRET_HTML, true }, { html_signs_decimal, SECRET_HTML, false },
	{ html_all_hex, SECRET_HTML, true },   { html_all_decimal, SECRET_HTML, false },
};

/* begins[i]: where in the form the i-th character's bytes begin. */
static bool is_wide(const size_t *begins, size_t len, size_t n)
{
	return n > SECRET_NARROW && begins[len - SECRET_SHOWS] < n - SECRET_NARROW;
}

static int add_escaped(struct arena *a, const struct secret *s, struct variants *l, struct err *e)
{
	static_assert(SECRET_MIN >= SECRET_SHOWS, "no value has fewer characters");
	for (size_t i = 0; i < sizeof(escapes) / sizeof(*escapes); i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(SECRET_MAX * SECRET_GROWS + 1);
		struct variant v = { .form = escapes[i].form, .caseless = escapes[i].caseless };
		size_t begins[SECRET_MAX];

		for (size_t c = 0; c < s->len; c++) {
			begins[c] = b.len;
			escapes[i].escape(&b, s->value[c]);
		}
		v.n = b.len;
		v.wide = is_wide(begins, s->len, b.len);
		v.p = b.failed ? NULL : arena_strndup(a, buf_str(&b), b.len);
		if (!v.p)
			return err_nomem(e);
		if (secret_add(a, l, &v, e) < 0)
			return -e->code;
		explicit_bzero(b.data, b.len);
	}
	return 0;
}

/* All the texts to look for; allocated in the arena, which then holds secrets: wipe it. */
static int secret_variants(struct arena *a, const struct secret *s, struct variants *ret,
			   struct err *e)
{
	struct variants l = { 0 };
	char *raw;

	if (s->len < SECRET_MIN || s->len > SECRET_MAX)
		return err_set(e, ERR_CONFIG, EINVAL,
			       "the value of '%.60s' has %zu bytes, not %d to %d", s->name, s->len,
			       SECRET_MIN, SECRET_MAX);
	raw = arena_strndup(a, s->value, s->len);
	if (!raw)
		return err_nomem(e);
	if (secret_add(a, &l, &(struct variant){ .form = SECRET_RAW, .p = raw, .n = s->len }, e) <
		    0 ||
	    add_base64(a, s, &l, e) < 0 || add_escaped(a, s, &l, e) < 0)
		return -e->code;
	*ret = l;
	return 0;
}

int needles_new(struct arena *a, const struct secret *secrets, size_t n, struct needles *ret,
		struct err *e)
{
	struct needles all = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct variants l = { 0 };

		if (secret_variants(a, &secrets[i], &l, e) < 0)
			return -e->code;
		for (size_t k = 0; k < l.n; k++) {
			struct needle *slot = ARENA_PUSH(a, all.v, all.n);

			if (!slot)
				return err_nomem(e);
			*slot = (struct needle){ .secret = i, .v = l.v[k] };
		}
		if (l.longest > all.longest)
			all.longest = l.longest;
	}
	*ret = all;
	return 0;
}

/* Every byte is looked at, whatever those before it are. */
bool needle_is(const struct needle *n, const char *p, bool caseless)
{
	unsigned char differs = 0;

	for (size_t i = 0; i < n->v.n; i++) {
		unsigned char a = (unsigned char)p[i], b = (unsigned char)n->v.p[i], low = a | 0x20;
		unsigned char letter = (unsigned char)((low >= 'a') & (low <= 'z'));

		differs |= (a ^ b) & ~(0x20 & -(letter & (n->v.caseless | caseless)));
	}
	return !differs;
}
