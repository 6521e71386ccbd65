/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/redact.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "audit/key.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define INPUT_MAX ((size_t)64 << 10)
#define VALUE_MAX ((size_t)4 << 10) /* how far the end of quotes and braces is looked for */

#define AUTHORIZATION "authorization"

enum chars {
	ALNUM,
	WORD,   /* and _ */
	TOKEN,  /* and _ - */
	DOTTED, /* and _ - . */
	UPPER,  /* upper case and digits */
	HEX,
	BASE64, /* and + / = _ - . */
};

static bool in(enum chars set, char c)
{
	unsigned char u = (unsigned char)c;

	if (set == UPPER)
		return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
	if (set == HEX)
		return isxdigit(u) != 0;
	if (u < 0x80 && isalnum(u))
		return true;
	switch (set) {
	case WORD:
		return c == '_';
	case TOKEN:
		return c == '_' || c == '-';
	case DOTTED:
		return c == '_' || c == '-' || c == '.';
	case BASE64:
		return c && strchr("+/=_-.~", c);
	default:
		return false;
	}
}

/* Tokens that begin with a word of their service's own. The longer prefix stands first. */
#define SHAPE(kind, prefix, set, min)                                                              \
	{                                                                                          \
		kind, prefix, sizeof(prefix) - 1, set, min                                         \
	}
static const struct {
	const char *kind, *prefix;
	unsigned char len;
	enum chars set;
	unsigned char min; /* characters behind the prefix */
} shapes[] = {
	SHAPE("github", "github_pat_", WORD, 20),
	SHAPE("github", "ghp_", ALNUM, 20),
	SHAPE("github", "gho_", ALNUM, 20),
	SHAPE("github", "ghu_", ALNUM, 20),
	SHAPE("github", "ghs_", ALNUM, 20),
	SHAPE("github", "ghr_", ALNUM, 20),
	SHAPE("gitlab", "glpat-", TOKEN, 16),
	SHAPE("slack", "xoxa-", TOKEN, 10),
	SHAPE("slack", "xoxb-", TOKEN, 10),
	SHAPE("slack", "xoxe.", DOTTED, 10),
	SHAPE("slack", "xoxp-", TOKEN, 10),
	SHAPE("slack", "xoxr-", TOKEN, 10),
	SHAPE("slack", "xoxs-", TOKEN, 10),
	SHAPE("slack", "xapp-", TOKEN, 10),
	SHAPE("aws", "AKIA", UPPER, 16),
	SHAPE("aws", "ASIA", UPPER, 16),
	SHAPE("anthropic", "sk-ant-", TOKEN, 16),
	SHAPE("openai", "sk-", TOKEN, 20),
	SHAPE("stripe", "sk_live_", ALNUM, 10),
	SHAPE("stripe", "sk_test_", ALNUM, 10),
	SHAPE("stripe", "pk_live_", ALNUM, 10),
	SHAPE("stripe", "pk_test_", ALNUM, 10),
	SHAPE("stripe", "rk_live_", ALNUM, 10),
	SHAPE("stripe", "rk_test_", ALNUM, 10),
	SHAPE("stripe", "whsec_", ALNUM, 16),
	SHAPE("sendgrid", "SG.", DOTTED, 20),
	SHAPE("twilio", "AC", HEX, 32),
	SHAPE("twilio", "SK", HEX, 32),
	SHAPE("google", "AIza", TOKEN, 30),
	SHAPE("google", "ya29.", DOTTED, 20),
	SHAPE("google", "GOCSPX-", TOKEN, 20),
	SHAPE("npm", "npm_", ALNUM, 30),
	SHAPE("pypi", "pypi-AgEI", TOKEN, 30),
	SHAPE("huggingface", "hf_", ALNUM, 20),
	SHAPE("digitalocean", "dop_v1_", HEX, 32),
	SHAPE("docker", "dckr_pat_", TOKEN, 20),
	SHAPE("vault", "hvs.", DOTTED, 20),
	SHAPE("azure", "AccountKey=", BASE64, 20),
	SHAPE("age", "AGE-SECRET-KEY-1", UPPER, 20),
};

/* Names behind which a value is a secret, whatever it looks like: NAME=VALUE, NAME: VALUE. Messages
 * go on behind those in the second table. */
static const char *const names[] = {
	"password",   "passwd",      "passphrase",  "pwd",         "secret",
	"api_key",    "api-key",     "apikey",      "access_key",  "access-key",
	"secret_key", "private_key", "private-key", AUTHORIZATION,
};
static const char *const spoken[] = { "token", "credential" };

static size_t span(const char *p, size_t n, enum chars set)
{
	size_t i = 0;

	while (i < n && in(set, p[i]))
		i++;
	return i;
}

static size_t match_prefix(const char *p, size_t n, const char **kind)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		size_t len = shapes[i].len, rest;

		if (p[0] != shapes[i].prefix[0] || n < len || memcmp(p, shapes[i].prefix, len) != 0)
			continue;
		rest = span(p + len, n - len, shapes[i].set);
		if (rest >= shapes[i].min) {
			*kind = shapes[i].kind;
			return len + rest;
		}
	}
	return 0;
}

/* "123456789:AA..." of Telegram, "xxx.yyy.zzz" of Discord and of JSON web tokens. */
static size_t match_parts(const char *p, size_t n, const char **kind)
{
	size_t a = span(p, n, TOKEN), b, c, digits = 0;

	while (digits < a && p[digits] >= '0' && p[digits] <= '9')
		digits++;
	if (digits == a && a >= 8 && a <= 10 && a < n && p[a] == ':' &&
	    span(p + a + 1, n - a - 1, TOKEN) >= 30) {
		*kind = "telegram";
		return a + 1 + span(p + a + 1, n - a - 1, TOKEN);
	}
	if (a < 17 || a >= n || p[a] != '.')
		return 0;
	b = span(p + a + 1, n - a - 1, TOKEN);
	if (a + 1 + b >= n || p[a + 1 + b] != '.')
		return 0;
	c = span(p + a + b + 2, n - a - b - 2, TOKEN);
	if (str_starts(p, "eyJ") && b >= 4)
		*kind = "jwt";
	else if (a >= 23 && a <= 28 && b >= 6 && b <= 7 && c >= 27)
		*kind = "discord";
	else
		return 0;
	return a + b + c + 2;
}

static size_t match_pem(const char *p, size_t n, const char **kind)
{
	static const char begin[] = "-----BEGIN ";
	const char *end;

	if (n < sizeof(begin) || memcmp(p, begin, sizeof(begin) - 1) != 0)
		return 0;
	end = memmem(p, n, "PRIVATE KEY", 11);
	if (!end)
		return 0;
	*kind = "private-key";
	end = memmem(p, n, "-----END ", 9);
	if (!end)
		return n;
	end = memmem(end + 9, n - (size_t)(end + 9 - p), "-----", 5);
	return end ? (size_t)(end - p) + 5 : n;
}

/* The shape that the secret at p has, and its length; NULL: none. p begins a word. */
static const char *redact_match(const char *p, size_t n, size_t *len)
{
	const char *kind = NULL;

	*len = match_prefix(p, n, &kind);
	if (!*len)
		*len = match_parts(p, n, &kind);
	if (!*len)
		*len = match_pem(p, n, &kind);
	return *len ? kind : NULL;
}

static bool ends_with_one_of(const char *text, const char *end, const char *const *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t m = strlen(all[i]);

		if ((size_t)(end - text) >= m && strncasecmp(end - m, all[i], m) == 0)
			return true;
	}
	return false;
}

/* "TOKEN: the variable is not set": a word that sentences begin with, and another one. */
static bool is_sentence(const char *p, size_t n)
{
	static const char *const begins[] = { "a",  "an",  "cannot", "does", "for", "has",  "is",
					      "no", "not", "of",     "that", "the", "this", "was" };

	for (size_t i = 0; i < ARRAY_LEN(begins); i++) {
		size_t m = strlen(begins[i]);

		if (n > m + 1 && memcmp(p, begins[i], m) == 0 && p[m] == ' ' && p[m + 1] >= 'a' &&
		    p[m + 1] <= 'z')
			return true;
	}
	return false;
}

/* "OPENAI_API_KEY: not set": what shells and programs say of a variable, whole. No value is one of
 * these, and none can go on behind it. */
static bool is_complaint(const char *p, size_t n)
{
	static const char *const words[] = {
		"not set",        "is not set",       "the variable is not set",
		"unset variable", "unbound variable", "parameter not set",
		"not found",      "is not defined",   "parameter null or not set",
		"is required",    "is missing",       "must be set",
		"is unset",       "is empty",         "environment variable not set",
		"not defined",    "variable not set", "environment variable is not set",
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		size_t m = strlen(words[i]);

		if (n < m || strncasecmp(p, words[i], m) != 0)
			continue;
		if (n > m && p[m] && strchr(".,;:!)\"'", p[m]))
			return n == m + 1 || p[m + 1] == ' ' || p[m + 1] == '\n';
		return n == m || p[m] == '\n' || p[m] == '\r';
	}
	return false;
}

/* "credentials: {TOKEN: {host: example.org}", as messages say it; the name ends at end. */
static bool is_entry(const char *text, const char *end, const char *p, size_t n)
{
	static const char before[] = "credentials: {", behind[] = "{host: ";
	size_t b = sizeof(before) - 1;

	while (end > text && in(WORD, end[-1]))
		end--;
	return (size_t)(end - text) >= b && memcmp(end - b, before, b) == 0 &&
	       n >= sizeof(behind) && memcmp(p, behind, sizeof(behind) - 1) == 0;
}

/* Up to the quote that ends it; 0: none does. */
static size_t quoted_length(const char *p, size_t n, char quote)
{
	size_t len = 0;

	while (len < n && p[len] != quote)
		len += p[len] == '\\' ? 2 : 1;
	return len < n ? len : 0;
}

/* A map or a list with all that is in it; 0: it has no end. */
static size_t nested_length(const char *p, size_t n)
{
	size_t depth = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '"')
			i += 1 + quoted_length(p + i + 1, n - i - 1, '"');
		else if (p[i] == '{' || p[i] == '[')
			depth++;
		else if ((p[i] == '}' || p[i] == ']') && --depth == 0)
			return i + 1;
	}
	return 0;
}

static size_t word_length(const char *p, size_t n)
{
	size_t len = 0;

	while (len < n && (unsigned char)p[len] > ' ' && !strchr("\"'&;,", p[len]))
		len++;
	return len;
}

/* What follows without a blank belongs to it. */
static size_t value_length(const char *p, size_t n)
{
	bool quoted = p[-1] == '"' || p[-1] == '\'', nested = *p == '{' || *p == '[';
	size_t most = n < VALUE_MAX ? n : VALUE_MAX, len = 0;

	if (quoted)
		len = quoted_length(p, most, p[-1]);
	else if (nested)
		len = nested_length(p, most);
	if (!len && (quoted || nested) && n > VALUE_MAX)
		len = VALUE_MAX;
	return len + word_length(p + len, n - len);
}

static const char *skip_back(const char *text, const char *end)
{
	while (end > text && strchr(" \t\"'\\", end[-1]) && end[-1])
		end--;
	return end;
}

/* The value behind a name in front of p, if p stands behind "NAME=", "NAME: " or "NAME\": \"". */
static size_t match_value(const char *text, const char *p, size_t n)
{
	static const char *const login[] = { AUTHORIZATION };
	const char *end = skip_back(text, p);
	bool open, fixed;
	size_t len;

	if (end == text || (end[-1] != '=' && end[-1] != ':'))
		return 0;
	open = *--end == ':' && p - end == 2 && p[-1] == ' ';
	end = skip_back(text, end);
	fixed = ends_with_one_of(text, end, names, ARRAY_LEN(names));
	if (!fixed && !ends_with_one_of(text, end, spoken, ARRAY_LEN(spoken)))
		return 0;
	if (open &&
	    (is_complaint(p, n) || is_entry(text, end, p, n) || (!fixed && is_sentence(p, n))))
		return 0;
	len = value_length(p, n);
	if (len && len + 1 < n && p[len] == ' ' && ends_with_one_of(text, end, login, 1))
		len += 1 + word_length(p + len + 1, n - len - 1); /* behind "Digest " */
	return len;
}

/* "Bearer XYZ" and "Basic XYZ": p is at XYZ. */
static size_t match_scheme(const char *text, const char *p, size_t n)
{
	static const char *const schemes[] = { "bearer ", "basic " };
	size_t len;

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		size_t m = strlen(schemes[i]);

		if ((size_t)(p - text) < m || strncasecmp(p - m, schemes[i], m) != 0)
			continue;
		len = span(p, n, BASE64);
		return len >= 8 ? len : 0;
	}
	return 0;
}

/* USER:PASSWORD@ behind "://": p is at the password. */
static size_t match_userinfo(const char *text, const char *p, size_t n)
{
	const char *at = p;
	size_t len = 0;

	if (at == text || at[-1] != ':')
		return 0;
	for (at--; at > text && (unsigned char)at[-1] > ' ' && !strchr("/@?#", at[-1]);)
		at--;
	if (at - text < 3 || memcmp(at - 3, "://", 3) != 0)
		return 0;
	while (len < n && (unsigned char)p[len] > ' ' && !strchr("/?#", p[len])) {
		if (p[len] == '@')
			return len;
		len++;
	}
	return 0;
}

/* Everything behind the '?' of an address: p is behind it. */
static size_t match_query(const char *text, const char *p, size_t n)
{
	const char *at = p;
	size_t len = 0;

	if (at == text || at[-1] != '?')
		return 0;
	for (at--; at > text && (unsigned char)at[-1] > ' ' && at[-1] != '"';)
		at--;
	if (*at != '/' && !memmem(at, (size_t)(p - at), "://", 3))
		return 0;
	while (len < n && (unsigned char)p[len] > ' ' && p[len] != '"' && p[len] != '\'')
		len++;
	return len;
}

static const char *match_context(const char *text, const char *p, size_t n, size_t *len)
{
	static const struct {
		const char *kind;
		size_t (*match)(const char *text, const char *p, size_t n);
	} contexts[] = {
		{ "query", match_query },
		{ "password", match_userinfo },
		{ "token", match_scheme },
		{ "value", match_value },
	};

	for (size_t i = 0; i < ARRAY_LEN(contexts); i++) {
		*len = contexts[i].match(text, p, n);
		if (*len)
			return contexts[i].kind;
	}
	return NULL;
}

static size_t redact_put(char *out, size_t at, size_t room, const char *p, size_t n)
{
	if (at >= room)
		return at;
	if (n > room - at)
		n = room - at;
	memcpy(out + at, p, n);
	return at + n;
}

static bool word_begins(const char *text, const char *p)
{
	return p == text || !in(WORD, p[-1]);
}

size_t redact(const struct audit_key *k, const char *text, size_t n, char *out, size_t room)
{
	size_t at = 0;

	if (n > INPUT_MAX)
		n = INPUT_MAX;
	for (const char *p = text, *end = text + n; p < end && at < room;) {
		const char *kind = NULL;
		char mark[64], print[FINGERPRINT_SIZE];
		size_t len = 0;

		if (word_begins(text, p)) {
			const char *around = NULL;
			size_t more = 0;

			kind = redact_match(p, (size_t)(end - p), &len);
			if (p > text)
				around = match_context(text, p, (size_t)(end - p), &more);
			if (more > len) {
				kind = around;
				len = more;
			}
		}
		if (!kind) { /* to where the next word may begin */
			const char *from = p++;

			while (p < end && !word_begins(text, p))
				p++;
			at = redact_put(out, at, room, from, (size_t)(p - from));
			continue;
		}
		key_fingerprint(k, p, len, print);
		at = redact_put(
			out, at, room, mark,
			(size_t)snprintf(mark, sizeof(mark), "[redacted:%s:%s]", kind, print));
		p += len;
	}
	return utf8_cut(out, at);
}
