/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/seek/unescape.h"
#include "base/bytes/hex.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define HTML_MOST 12
static_assert(HTML_MOST < UNESCAPE_MOST, "a backslash may stand before it");

/* What is being read. */
struct escape_at {
	const char *p; /* the first byte of the escape */
	size_t n;      /* bytes from there on */
	bool last;
	struct unescaped *ret;
};

static enum unescape_found too_short(const struct escape_at *x)
{
	return x->last ? UNESCAPE_NONE : UNESCAPE_MORE;
}

static enum unescape_found stands_for(const struct escape_at *x, size_t took, char c)
{
	*x->ret = (struct unescaped){ .took = took, .n = 1, .p = { c } };
	return UNESCAPE_ONE;
}

static enum unescape_found left_out(const struct escape_at *x, size_t took)
{
	*x->ret = (struct unescaped){ .took = took };
	return UNESCAPE_ONE;
}

/* A character's number, as UTF-8; half of a pair stays one. */
static enum unescape_found is_number(const struct escape_at *x, size_t took, unsigned v)
{
	char *p = x->ret->p;

	if (v > 0x10ffff)
		return UNESCAPE_NONE;
	x->ret->took = took;
	if (v < 0x80) {
		x->ret->n = 1;
		p[0] = (char)v;
		return UNESCAPE_ONE;
	}
	x->ret->n = v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
	for (size_t i = x->ret->n - 1; i > 0; i--, v >>= 6)
		p[i] = (char)(0x80 | (v & 63));
	p[0] = (char)(v | (0xf00U >> x->ret->n & 0xf0U));
	return UNESCAPE_ONE;
}

/* `count` digits from p[at] on. */
static enum unescape_found hex_digits(const struct escape_at *x, size_t at, size_t count,
				      unsigned *ret)
{
	unsigned v = 0;

	for (size_t i = at; i < at + count; i++) {
		int digit = i < x->n ? hex_nibble(x->p[i]) : -1;

		if (i >= x->n)
			return too_short(x);
		if (digit < 0)
			return UNESCAPE_NONE;
		v = v << 4 | (unsigned)digit;
	}
	*ret = v;
	return UNESCAPE_ONE;
}

/* The sign and two digits. */
static enum unescape_found byte_of(const struct escape_at *x, size_t at)
{
	unsigned v = 0;
	enum unescape_found f = hex_digits(x, at, 2, &v);

	return f == UNESCAPE_ONE ? stands_for(x, at + 2, (char)v) : f;
}

/* \uXXXX; of a pair both. */
static enum unescape_found unit_of(const struct escape_at *x)
{
	unsigned v = 0, low = 0;
	enum unescape_found f = hex_digits(x, 2, 4, &v);

	if (f != UNESCAPE_ONE || v < 0xd800 || v > 0xdbff)
		return f == UNESCAPE_ONE ? is_number(x, 6, v) : f;
	if (x->n < 8 && memcmp(x->p + 6, "\\u", x->n - 6) == 0 && !x->last)
		return UNESCAPE_MORE;
	if (x->n >= 8 && x->p[6] == '\\' && x->p[7] == 'u') {
		f = hex_digits(x, 8, 4, &low);
		if (f == UNESCAPE_MORE)
			return f;
		if (f == UNESCAPE_ONE && low >= 0xdc00 && low <= 0xdfff)
			return is_number(x, 12, 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00));
	}
	return is_number(x, 6, v);
}

static bool is_sign(char c)
{
	return (c > 0x20 && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') ||
	       (c > 'z' && c < 0x7f);
}

/* --- HTML --- */

static const struct {
	const char *name;
	char c;
} html_names[] = {
	{ "Hat", '^' },    { "NewLine", '\n' }, { "Tab", '\t' },   { "UnderBar", '_' },
	{ "amp", '&' },    { "apos", '\'' },    { "ast", '*' },    { "bsol", '\\' },
	{ "colon", ':' },  { "comma", ',' },    { "commat", '@' }, { "dollar", '$' },
	{ "equals", '=' }, { "excl", '!' },     { "grave", '`' },  { "gt", '>' },
	{ "lbrace", '{' }, { "lbrack", '[' },   { "lcub", '{' },   { "lowbar", '_' },
	{ "lpar", '(' },   { "lsqb", '[' },     { "lt", '<' },     { "midast", '*' },
	{ "num", '#' },    { "percnt", '%' },   { "period", '.' }, { "plus", '+' },
	{ "quest", '?' },  { "quot", '"' },     { "rbrace", '}' }, { "rbrack", ']' },
	{ "rcub", '}' },   { "rpar", ')' },     { "rsqb", ']' },   { "semi", ';' },
	{ "sol", '/' },    { "vert", '|' },     { "verbar", '|' }, { "AMP", '&' },
	{ "LT", '<' },     { "GT", '>' },       { "QUOT", '"' },
};

static bool is_letter(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static enum unescape_found html_name(const struct escape_at *x)
{
	size_t n = 1;

	while (n < x->n && n < HTML_MOST && is_letter(x->p[n]))
		n++;
	if (n == HTML_MOST)
		return UNESCAPE_NONE;
	if (n == x->n)
		return too_short(x);
	for (size_t i = 0; x->p[n] == ';' && i < sizeof(html_names) / sizeof(*html_names); i++)
		if (strlen(html_names[i].name) == n - 1 &&
		    memcmp(x->p + 1, html_names[i].name, n - 1) == 0)
			return stands_for(x, n + 1, html_names[i].c);
	return UNESCAPE_NONE;
}

/* &#N; or &#xN;, leading zeros and all. */
static enum unescape_found html_number(const struct escape_at *x)
{
	size_t at = 2;
	unsigned v = 0, base = 10;

	if (x->n < 3)
		return too_short(x);
	if ((x->p[2] | 0x20) == 'x') {
		base = 16;
		at = 3;
	}
	for (; at < HTML_MOST; at++) {
		int digit = at < x->n ? hex_nibble(x->p[at]) : -1;

		if (at >= x->n)
			return too_short(x);
		if (x->p[at] == ';')
			return v ? is_number(x, at + 1, v) : UNESCAPE_NONE;
		if (digit < 0 || (unsigned)digit >= base)
			return UNESCAPE_NONE;
		v = v > 0x10ffff ? v : v * base + (unsigned)digit;
	}
	return UNESCAPE_NONE;
}

static enum unescape_found ampersand(const struct escape_at *x)
{
	if (x->n < 2)
		return too_short(x);
	return x->p[1] == '#' ? html_number(x) : html_name(x);
}

/* --- a backslash --- */

/* Before what is an escape without it a backslash is the value's own. */
static enum unescape_found escaped_sign(const struct escape_at *x)
{
	struct unescaped other;
	struct escape_at rest = { .p = x->p + 1, .n = x->n - 1, .last = x->last, .ret = &other };
	enum unescape_found f = *rest.p == '%'   ? byte_of(&rest, 1)
				: *rest.p == '&' ? ampersand(&rest)
						 : UNESCAPE_NONE;

	return f == UNESCAPE_NONE  ? stands_for(x, 2, *rest.p)
	       : f == UNESCAPE_ONE ? UNESCAPE_NONE
				   : UNESCAPE_MORE;
}

static enum unescape_found backslash(const struct escape_at *x)
{
	static const char letters[] = "nrtbf", means[] = "\n\r\t\b\f";
	const char *found;

	if (x->n < 2)
		return too_short(x);
	if (x->p[1] == 'u')
		return unit_of(x);
	if (x->p[1] == 'x')
		return byte_of(x, 2);
	if (is_sign(x->p[1]))
		return escaped_sign(x);
	found = x->p[1] ? strchr(letters, x->p[1]) : NULL;
	return found ? stands_for(x, 2, means[found - letters]) : UNESCAPE_NONE;
}

/* --- mail, UTF-16, base64 --- */

static enum unescape_found quoted(const struct escape_at *x)
{
	if (x->n < 2)
		return too_short(x);
	if (x->p[1] == '\n')
		return left_out(x, 2);
	if (x->p[1] != '\r')
		return byte_of(x, 1);
	if (x->n < 3)
		return too_short(x);
	return x->p[2] == '\n' ? left_out(x, 3) : UNESCAPE_NONE;
}

/* Every second byte is one. */
static enum unescape_found nul(const struct escape_at *x, size_t before)
{
	if (before >= 2 && !x->p[-2] && x->p[-1])
		return left_out(x, 1);
	if (x->n < 2)
		return too_short(x);
	if ((unsigned char)x->p[1] <= 0x20)
		return UNESCAPE_NONE;
	if (x->n < 3)
		return too_short(x);
	return x->p[2] ? UNESCAPE_NONE : left_out(x, 1);
}

static const unsigned char base64_signs[256] = {
	['A' ... 'Z'] = 1, ['a' ... 'z'] = 1, ['0' ... '9'] = 1, ['+'] = 1,
	['/'] = 1,         ['-'] = 1,         ['_'] = 1,
};

static inline unsigned is_base64(char c)
{
	return base64_signs[(unsigned char)c];
}

/* Signed: one instruction compares, and what is beyond ASCII is less than every sign. */
typedef signed char bytes16 __attribute__((vector_size(16)));

static_assert(UNESCAPE_BACK == sizeof(bytes16), "all of them at once");

static bool all_base64(const char *p)
{
	uint64_t half[2];
	bytes16 x, low, is;

	memcpy(&x, p, sizeof(x));
	low = x | 0x20;
	is = (bytes16)((low >= 'a') & (low <= 'z')) | (bytes16)((x >= '0') & (x <= '9')) |
	     (bytes16)(x == '+') | (bytes16)(x == '/') | (bytes16)(x == '-') | (bytes16)(x == '_');
	memcpy(half, &is, sizeof(half));
	return (half[0] & half[1]) == UINT64_MAX;
}

static enum unescape_found line_end(const struct escape_at *x, size_t before)
{
	size_t n = *x->p == '\r' ? 2 : 1;

	if (before < UNESCAPE_BACK || !is_base64(x->p[-1]) || !all_base64(x->p - UNESCAPE_BACK))
		return UNESCAPE_NONE;
	if (x->n >= n && x->p[n - 1] != '\n')
		return UNESCAPE_NONE;
	if (x->n <= n)
		return too_short(x);
	return is_base64(x->p[n]) ? left_out(x, n) : UNESCAPE_NONE;
}

bool unescape_begins(enum unescape_kind k, char c)
{
	return k == UNESCAPE_SIGNS    ? c == '%' || c == '\\' || c == '&' || !c
	       : k == UNESCAPE_QUOTED ? c == '='
				      : c == '\n' || c == '\r';
}

enum unescape_found unescape_one(enum unescape_kind k, const char *p, size_t at, size_t n,
				 bool last, struct unescaped *ret)
{
	struct escape_at x = { .p = p + at, .n = n - at, .last = last, .ret = ret };

	if (k == UNESCAPE_LINES)
		return at < n && (p[at] == '\n' || p[at] == '\r') ? line_end(&x, at)
								  : UNESCAPE_NONE;
	if (at >= n || !unescape_begins(k, p[at]))
		return UNESCAPE_NONE;
	switch (p[at]) {
	case '%':
		return byte_of(&x, 1);
	case '\\':
		return backslash(&x);
	case '&':
		return ampersand(&x);
	case '=':
		return quoted(&x);
	case '\0':
		return nul(&x, at);
	default:
		return UNESCAPE_NONE;
	}
}
