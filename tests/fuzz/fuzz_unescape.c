/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_unescape.c - at every place of any text the decoder says what the plainest one says,
 * which writes out all that could stand there and compares; and with less of the text it says the
 * same, or that it cannot know yet. */
#include "fuzz.h"

#include <stdio.h>

#include "egress/seek/unescape.h"

struct text {
	const char *p;
	size_t n;
};

/* With letters in any case where `caseless`. */
static bool begins(struct text t, const char *with, bool caseless)
{
	size_t n = strlen(with);

	if (n > t.n)
		return false;
	for (size_t i = 0; i < n; i++) {
		char a = t.p[i], b = with[i];

		if (caseless && a >= 'A' && a <= 'Z')
			a = (char)(a + 32);
		if (caseless && b >= 'A' && b <= 'Z')
			b = (char)(b + 32);
		if (a != b)
			return false;
	}
	return true;
}

static size_t utf8(unsigned v, char *p)
{
	unsigned char b[4];
	size_t n = 0;

	if (v < 0x80) {
		b[n++] = (unsigned char)v;
	} else if (v < 0x800) {
		b[n++] = (unsigned char)(192 + v / 64);
		b[n++] = (unsigned char)(128 + v % 64);
	} else if (v < 65536) {
		b[n++] = (unsigned char)(224 + v / 4096);
		b[n++] = (unsigned char)(128 + v / 64 % 64);
		b[n++] = (unsigned char)(128 + v % 64);
	} else {
		b[n++] = (unsigned char)(240 + v / 262144);
		b[n++] = (unsigned char)(128 + v / 4096 % 64);
		b[n++] = (unsigned char)(128 + v / 64 % 64);
		b[n++] = (unsigned char)(128 + v % 64);
	}
	memcpy(p, b, n);
	return n;
}

static bool one(struct unescaped *u, size_t took, unsigned v, bool byte)
{
	memset(u, 0, sizeof(*u));
	u->took = took;
	u->n = 1;
	u->p[0] = (char)v;
	if (!byte)
		u->n = utf8(v, u->p);
	return true;
}

/* The number that so many hexadecimal digits are, in any case; -1: others stand there. */
static long hex(struct text t, size_t from, size_t n)
{
	char s[8] = "";

	if (t.n < from + n)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!strchr("0123456789abcdefABCDEF", t.p[from + i]) || !t.p[from + i])
			return -1;
	memcpy(s, t.p + from, n);
	return strtol(s, NULL, 16);
}

static bool written(struct text t, struct unescaped *u)
{
	long v = begins(t, "%", false) ? hex(t, 1, 2) : -1, low;

	if (v >= 0)
		return one(u, 3, (unsigned)v, true);
	v = begins(t, "\\x", false) ? hex(t, 2, 2) : -1;
	if (v >= 0)
		return one(u, 4, (unsigned)v, true);
	v = begins(t, "\\u", false) ? hex(t, 2, 4) : -1;
	low = v >= 0xd800 && v < 0xdc00 && t.n > 7 && t.p[6] == '\\' && t.p[7] == 'u' ? hex(t, 8, 4)
										      : -1;
	if (low >= 0xdc00 && low < 0xe000)
		return one(u, 12, (unsigned)(65536 + (v - 0xd800) * 1024 + (low - 0xdc00)), false);
	return v >= 0 && one(u, 6, (unsigned)v, false);
}

static bool a_name(struct text t, struct unescaped *u)
{
	static const char *const names[] = {
		"^Hat",   "\nNewLine", "\tTab",   "_UnderBar", "&amp",    "'apos",   "*ast",
		"\\bsol", ":colon",    ",comma",  "@commat",   "$dollar", "=equals", "!excl",
		"`grave", ">gt",       "{lbrace", "[lbrack",   "{lcub",   "_lowbar", "(lpar",
		"[lsqb",  "<lt",       "*midast", "#num",      "%percnt", ".period", "+plus",
		"?quest", "\"quot",    "}rbrace", "]rbrack",   "}rcub",   ")rpar",   "]rsqb",
		";semi",  "/sol",      "|vert",   "|verbar",   "&AMP",    "<LT",     ">GT",
		"\"QUOT",
	};
	char s[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)snprintf(s, sizeof(s), "&%s;", names[i] + 1);
		if (begins(t, s, false))
			return one(u, strlen(s), (unsigned char)names[i][0], true);
	}
	return false;
}

static bool a_number(struct text t, struct unescaped *u)
{
	bool sixteen = begins(t, "&#x", true);
	size_t from = sixteen ? 3 : 2, to = from;
	unsigned long long v = 0;
	char s[16] = "";

	if (!begins(t, "&#", false))
		return false;
	while (to < t.n && to < 12 &&
	       strchr(sixteen ? "0123456789abcdefABCDEF" : "0123456789", t.p[to]) && t.p[to])
		to++;
	if (to == from || to >= 12 || to >= t.n || t.p[to] != ';')
		return false;
	memcpy(s, t.p + from, to - from);
	v = strtoull(s, NULL, sixteen ? 16 : 10);
	return v > 0 && v <= 0x10ffff && one(u, to + 1, (unsigned)v, false);
}

/* %41 and &amp; behind a backslash, which is left alone then. */
static bool is_escape_itself(struct text t)
{
	struct unescaped u;

	return (t.p[0] == '%' && hex(t, 1, 2) >= 0) || a_name(t, &u) || a_number(t, &u);
}

static bool a_sign(struct text t, struct unescaped *u)
{
	static const char *const short_ones[] = { "\\n", "\\r", "\\t", "\\b", "\\f" };
	char s[3] = "\\?";

	for (size_t i = 0; i < 5; i++)
		if (begins(t, short_ones[i], false))
			return one(u, 2, (unsigned)"\n\r\t\b\f"[i], true);
	for (const char *c = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"; *c; c++) {
		s[1] = *c;
		if (begins(t, s, false))
			return !is_escape_itself((struct text){ t.p + 1, t.n - 1 }) &&
			       one(u, 2, (unsigned char)*c, true);
	}
	return false;
}

static bool left_out(struct unescaped *u, size_t took)
{
	memset(u, 0, sizeof(*u));
	u->took = took;
	return true;
}

static bool base64(char c)
{
	return c && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_", c);
}

static bool a_line_end(const char *p, size_t at, size_t n, struct unescaped *u)
{
	struct text t = { p + at, n - at };
	size_t took = begins(t, "\r\n", false) ? 2 : begins(t, "\n", false) ? 1 : 0, run = 0;

	while (run < 16 && run < at && base64(p[at - 1 - run]))
		run++;
	return took && run == 16 && at + took < n && base64(p[at + took]) && left_out(u, took);
}

static bool a_nul(const char *p, size_t at, size_t n, struct unescaped *u)
{
	bool before = at > 1 && !p[at - 2] && p[at - 1],
	     behind = at + 2 < n && (unsigned char)p[at + 1] > 32 && !p[at + 2];

	return !p[at] && (before || behind) && left_out(u, 1);
}

static bool plainly(enum unescape_kind k, const char *p, size_t at, size_t n, struct unescaped *u)
{
	struct text t = { p + at, n - at };
	long v;

	if (k == UNESCAPE_LINES)
		return a_line_end(p, at, n, u);
	if (k == UNESCAPE_SIGNS)
		return a_nul(p, at, n, u) || written(t, u) || a_sign(t, u) || a_name(t, u) ||
		       a_number(t, u);
	if (begins(t, "=\n", false) || begins(t, "=\r\n", false))
		return left_out(u, t.p[1] == '\n' ? 2 : 3);
	v = begins(t, "=", false) ? hex(t, 1, 2) : -1;
	return v >= 0 && one(u, 3, (unsigned)v, true);
}

static void check(enum unescape_kind k, const char *p, size_t at, size_t n)
{
	struct unescaped want = { 0 }, got = { 0 }, early = { 0 };
	bool is = plainly(k, p, at, n, &want);
	enum unescape_found f = unescape_one(k, p, at, n, true, &got);

	require(f == (is ? UNESCAPE_ONE : UNESCAPE_NONE));
	if (is)
		require(got.took == want.took && got.n == want.n &&
			memcmp(got.p, want.p, want.n) == 0 && got.took <= UNESCAPE_MOST);
	require(f == UNESCAPE_NONE || unescape_begins(k, p[at]));
	for (size_t less = at + 1; less <= n && less <= at + UNESCAPE_MOST + 2; less++) {
		enum unescape_found g = unescape_one(k, p, at, less, false, &early);

		require(g == UNESCAPE_MORE || g == f);
		require(g != UNESCAPE_MORE || less < at + UNESCAPE_MOST);
		require(g != UNESCAPE_ONE || (early.took == got.took && early.n == got.n &&
					      memcmp(early.p, got.p, got.n) == 0));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 4096)
		return 0;
	for (size_t at = 0; at < size; at++)
		for (int k = 0; k < UNESCAPE_KINDS; k++)
			check((enum unescape_kind)k, (const char *)data, at, size);
	return 0;
}
