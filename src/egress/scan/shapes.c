/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/scan/shapes.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/text/cleanup.h"

/* --- classes of bytes --- */

enum {
	UPPER = 1,
	LOWER = 2,
	DIGIT = 4,
	HEX = 8, /* a to f in either case; digits are DIGIT */
	UNDER = 16,
	DASH = 32,
	MORE64 = 64, /* + / = . ~ */
};

#define ALNUM (UPPER | LOWER | DIGIT)
#define WORD (ALNUM | UNDER)
#define TOKEN (WORD | DASH)
#define HEXDIGIT (HEX | DIGIT)
#define TOKEN68 (TOKEN | MORE64)

static unsigned char class_of(char c)
{
	if (c >= '0' && c <= '9')
		return DIGIT;
	if (c >= 'a' && c <= 'z')
		return c <= 'f' ? LOWER | HEX : LOWER;
	if (c >= 'A' && c <= 'Z')
		return c <= 'F' ? UPPER | HEX : UPPER;
	if (c == '_')
		return UNDER;
	if (c == '-')
		return DASH;
	return c && strchr("+/=.~", c) ? MORE64 : 0;
}

static size_t shapes_run(const char *p, size_t n, unsigned char class)
{
	size_t i = 0;

	while (i < n && (class_of(p[i]) & class))
		i++;
	return i;
}

static size_t run_back(const char *p, size_t n, unsigned char class)
{
	size_t i = 0;

	while (i < n && (class_of(p[-1 - (ptrdiff_t)i]) & class))
		i++;
	return i;
}

/* --- fillers and examples --- */

static bool has_text(const char *p, size_t n, const char *text)
{
	return memmem(p, n, text, strlen(text)) != NULL;
}

static unsigned distinct(const char *p, size_t n)
{
	bool seen[256] = { false };
	unsigned count = 0;

	for (size_t i = 0; i < n; i++) {
		count += !seen[(unsigned char)p[i]];
		seen[(unsigned char)p[i]] = true;
	}
	return count;
}

/* "xxxxxxxx", "0000...", "...EXAMPLE": what manuals print. A random token of 16 signs has fewer
 * than five different ones once in ten million million. */
static bool is_filler(const char *p, size_t n)
{
	return distinct(p, n) < 5 || has_text(p, n, "EXAMPLE") || has_text(p, n, "example") ||
	       has_text(p, n, "XXXXXX") || has_text(p, n, "xxxxxx") || has_text(p, n, "your_") ||
	       has_text(p, n, "YOUR_");
}

/* --- the plain check: so many bytes of one class --- */

static bool are_hex(const char *p, size_t n)
{
	while (n && isxdigit((unsigned char)*p))
		p++, n--;
	return !n;
}

/* `%3D`, `\n`, `\u000a` right in front of p. */
static bool behind_escape(const char *p, size_t before)
{
	return (before >= 3 && p[-3] == '%' && are_hex(p - 2, 2)) ||
	       (before >= 2 && p[-2] == '\\' && strchr("nrtbf", p[-1])) ||
	       (before >= 6 && p[-6] == '\\' && p[-5] == 'u' && are_hex(p - 4, 4));
}

bool shape_may_stand(const struct shape *s, const char *p, size_t before)
{
	return s->inside || !before || !(class_of(p[-1]) & WORD) || behind_escape(p, before);
}

/* A token of n signs at `at`. Whether it is a sample is known only when all of it is there, or as
 * much as any check looks at: how a stream is cut must not decide it. */
static enum shape_found shapes_judge(const struct shape_view *v, size_t at, size_t n)
{
	if (at + n == v->after && !v->ends && v->after < SHAPE_AHEAD)
		return SHAPE_MORE;
	return is_filler(v->p + at, n) ? SHAPE_SAMPLE : SHAPE_YES;
}

static enum shape_found some_of(const struct shape_view *v, size_t at, unsigned char class,
				size_t min, struct shape_range *r)
{
	size_t n = at < v->after ? shapes_run(v->p + at, v->after - at, class) : 0;

	if (n < min)
		return at + n >= v->after && !v->ends ? SHAPE_MORE : SHAPE_NO;
	r->ahead = at + n;
	return shapes_judge(v, at, n);
}

static enum shape_found shapes_plain(const struct shape *s, const struct shape_view *v,
				     struct shape_range *r)
{
	size_t lit = strlen(s->literal);
	enum shape_found f = some_of(v, lit, s->class, s->min, r);

	if (!s->exact || f == SHAPE_NO || f == SHAPE_MORE)
		return f;
	if (r->ahead > lit + s->min)
		return SHAPE_NO;
	return r->ahead == v->after && !v->ends ? SHAPE_MORE : f;
}

/* Which of the words stands at p; -1: none, -2: it may be one when more has come. */
static int which(const struct shape_view *v, size_t at, const char *const *words)
{
	size_t left = v->after - at;
	bool open = false;

	for (int i = 0; words[i]; i++) {
		size_t n = strlen(words[i]);

		if (strncmp(v->p + at, words[i], n < left ? n : left) != 0)
			continue;
		if (n <= left)
			return i;
		open = true;
	}
	return open && !v->ends ? -2 : -1;
}

static bool comes_before(const struct shape_view *v, const char *word)
{
	size_t n = strlen(word);

	return v->before >= n && memcmp(v->p - n, word, n) == 0 &&
	       (v->before == n || !(class_of(v->p[-1 - (ptrdiff_t)n]) & WORD));
}

/* --- checks of their own --- */

/* Keys of several houses begin with "sk-". */
static enum shape_found sk(const struct shape *s, const struct shape_view *v, struct shape_range *r)
{
	static const char *const words[] = { "ant-oat", "ant-ort",  "ant-",   "or-v1-",
					     "proj-",   "svcacct-", "admin-", NULL };
	static const enum leak_kind kinds[] = { LEAK_ANTHROPIC_OAUTH, LEAK_ANTHROPIC_OAUTH,
						LEAK_ANTHROPIC,       LEAK_OPENROUTER,
						LEAK_OPENAI,          LEAK_OPENAI,
						LEAK_OPENAI };
	int i = which(v, 3, words);
	size_t at;

	if (i == -2)
		return SHAPE_MORE;
	if (i < 0)
		return some_of(v, 3, ALNUM, s->min, r);
	at = 3 + strlen(words[i]);
	/* "ant-" fits as soon as "ant-oat" may still come */
	if (i == 2 && v->after < at + 3 && !v->ends)
		return SHAPE_MORE;
	r->kind = kinds[i];
	return i == 3 ? some_of(v, at, HEXDIGIT, 32, r) : some_of(v, at, TOKEN, s->min, r);
}

/* xoxb- and its sisters */
static enum shape_found slack(const struct shape *s, const struct shape_view *v,
			      struct shape_range *r)
{
	static const char *const words[] = { "a-", "b-", "e-", "o-", "p-", "r-", "s-", NULL };
	int i = which(v, 3, words);

	return i == -2 ? SHAPE_MORE : i < 0 ? SHAPE_NO : some_of(v, 5, s->class, s->min, r);
}

static enum shape_found shopify(const struct shape *s, const struct shape_view *v,
				struct shape_range *r)
{
	static const char *const words[] = { "at_", "ca_", "pa_", "ss_", NULL };
	int i = which(v, 3, words);

	return i == -2 ? SHAPE_MORE : i < 0 ? SHAPE_NO : some_of(v, 6, s->class, s->min, r);
}

/* sk_live_, rk_test_ */
static enum shape_found stripe(const struct shape *s, const struct shape_view *v,
			       struct shape_range *r)
{
	if (!comes_before(v, "sk") && !comes_before(v, "rk"))
		return SHAPE_NO;
	r->back = 2;
	return some_of(v, strlen(s->literal), s->class, s->min, r);
}

static enum shape_found digitalocean(const struct shape *s, const struct shape_view *v,
				     struct shape_range *r)
{
	if (!comes_before(v, "dop") && !comes_before(v, "doo") && !comes_before(v, "dor"))
		return SHAPE_NO;
	r->back = 3;
	return some_of(v, strlen(s->literal), s->class, s->min, r);
}

/* SG. 22 . 43 */
static enum shape_found sendgrid(const struct shape *s UNUSED, const struct shape_view *v,
				 struct shape_range *r)
{
	size_t left = v->after - 3, a = shapes_run(v->p + 3, left, TOKEN), b;

	if (a > 22 || (a < left && (a != 22 || v->p[25] != '.')))
		return SHAPE_NO;
	if (a == left)
		return v->ends ? SHAPE_NO : SHAPE_MORE;
	b = shapes_run(v->p + 26, v->after - 26, TOKEN);
	if (b < 43)
		return 26 + b == v->after && !v->ends ? SHAPE_MORE : SHAPE_NO;
	r->ahead = 26 + b;
	return shapes_judge(v, 26, b);
}

/* 8 to 10 digits, ":AA", 33 more */
static enum shape_found telegram(const struct shape *s, const struct shape_view *v,
				 struct shape_range *r)
{
	size_t digits = run_back(v->p, v->before < 12 ? v->before : 12, DIGIT);
	size_t n = shapes_run(v->p + 2, v->after - 2, s->class);

	if (digits < 8 || digits > 10 ||
	    (digits < v->before && (class_of(v->p[-1 - (ptrdiff_t)digits]) & WORD)))
		return SHAPE_NO;
	if (2 + n == v->after && n <= 34 && !v->ends)
		return SHAPE_MORE;
	/* Times and ratios have a colon too; a key has many different signs. */
	if (n != 34 || distinct(v->p + 2, n) < 10)
		return SHAPE_NO;
	r->back = digits;
	r->ahead = 2 + n;
	return SHAPE_YES;
}

/* A marker alone is a line of some program's source; a key has data behind it. Line ends may be
 * written as escapes. */
static enum shape_found pem(const struct shape *s, const struct shape_view *v,
			    struct shape_range *r)
{
	static const char *const words[] = {
		"PRIVATE KEY-----",           "RSA PRIVATE KEY-----",
		"ENCRYPTED PRIVATE KEY-----", "OPENSSH PRIVATE KEY-----",
		"EC PRIVATE KEY-----",        "DSA PRIVATE KEY-----",
		"PGP PRIVATE KEY BLOCK-----", NULL
	};
	static const char *const headers[] = { "Proc-Type:", "Version:", "Comment:", "Charset:" };
	int i = which(v, strlen(s->literal), words);
	size_t at, start;

	if (i < 0)
		return i == -2 ? SHAPE_MORE : SHAPE_NO;
	r->kind = i < 3 ? LEAK_PEM : i < 6 ? LEAK_SSH_KEY : LEAK_PGP;
	start = at = strlen(s->literal) + strlen(words[i]);
	while (at < v->after && at < start + 16) {
		char c = v->p[at];

		if (c == '\r' || c == '\n' || c == ' ' || c == '\t')
			at++;
		else if (c == '\\' && at + 1 < v->after && strchr("rnt", v->p[at + 1]))
			at += 2;
		else if (c == '\\' && at + 1 == v->after && !v->ends)
			return SHAPE_MORE;
		else
			break;
	}
	for (size_t k = 0; k < ARRAY_LEN(headers); k++)
		if (v->after - at >= 8 && strncmp(v->p + at, headers[k], 8) == 0) {
			r->ahead = at;
			return SHAPE_YES;
		}
	return some_of(v, at, ALNUM | MORE64, 24, r);
}

static int value64(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '-' || c == '+' ? 62 : c == '_' || c == '/' ? 63 : -1;
}

static size_t decode64(const char *p, size_t n, char *out, size_t max)
{
	unsigned bits = 0, have = 0;
	size_t len = 0;

	for (size_t i = 0; i < n && value64(p[i]) >= 0 && len < max; i++) {
		bits = (bits << 6 | (unsigned)value64(p[i])) & 0xffff;
		have += 6;
		if (have >= 8) {
			have -= 8;
			out[len++] = (char)(bits >> have);
		}
	}
	return len;
}

/* The literal is ".eyJ", where the payload begins; the header in front must be JSON with "alg". */
static enum shape_found jwt(const struct shape *s UNUSED, const struct shape_view *v,
			    struct shape_range *r)
{
	size_t head = run_back(v->p, v->before < SHAPE_BACK ? v->before : SHAPE_BACK, TOKEN);
	size_t n = shapes_run(v->p + 4, v->after - 4, TOKEN);
	char json[SHAPE_BACK];
	size_t len;

	if (n < 10)
		return 4 + n == v->after && !v->ends ? SHAPE_MORE : SHAPE_NO;
	r->back = head;
	r->ahead = 4 + n;
	if (head == v->before && head && !v->begins)
		return SHAPE_YES; /* its beginning is out of sight, so it is no sample of anything
				   */
	len = decode64(v->p - head, head, json, sizeof(json));
	return len > 8 && json[0] == '{' && has_text(json, len, "\"alg\"") ? SHAPE_YES : SHAPE_NO;
}

static bool shapes_is_ours(const char *p, size_t n)
{
	return n >= 5 && memcmp(p, "brig-", 5) == 0;
}

static size_t blanks(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && i < 8 && (p[i] == ' ' || p[i] == '\t'))
		i++;
	return i;
}

/* "Bearer" and 20 or more signs; the placeholders of this run are no secret. */
static enum shape_found bearer(const struct shape *s, const struct shape_view *v,
			       struct shape_range *r)
{
	size_t lit = strlen(s->literal), gap = blanks(v->p + lit, v->after - lit);
	const char *token = v->p + lit + gap;
	size_t left = v->after - lit - gap, n = shapes_run(token, left, TOKEN68);

	if (!gap)
		return lit == v->after && !v->ends ? SHAPE_MORE : SHAPE_NO;
	if (n < 20)
		return n == left && !v->ends ? SHAPE_MORE : SHAPE_NO;
	if (shapes_is_ours(token, n))
		return SHAPE_NO;
	r->ahead = lit + gap + n;
	return shapes_judge(v, lit + gap, n);
}

static size_t quote(const char *p, size_t n)
{
	return n && (*p == '"' || *p == '\'') ? 1 : n > 1 && *p == '\\' && p[1] == '"' ? 2 : 0;
}

/* authorization: Basic ..., as a line of a text or a member of an object */
static enum shape_found authorization(const struct shape *s, const struct shape_view *v,
				      struct shape_range *r)
{
	static const char *const schemes[] = { "basic", "bearer", "token", "digest" };
	size_t at = strlen(s->literal), n = v->after;

	at += quote(v->p + at, n - at);
	at += blanks(v->p + at, n - at);
	if (at < n && v->p[at] != ':' && v->p[at] != '=')
		return SHAPE_NO;
	at += at < n;
	at += blanks(v->p + at, n - at);
	at += quote(v->p + at, n - at);
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		size_t word = strlen(schemes[i]), gap, len;

		if (n - at <= word)
			return v->ends ? SHAPE_NO : SHAPE_MORE;
		if (strncasecmp(v->p + at, schemes[i], word) != 0)
			continue;
		gap = blanks(v->p + at + word, n - at - word);
		at += word + gap;
		len = shapes_run(v->p + at, n - at, TOKEN68);
		if (!gap || shapes_is_ours(v->p + at, len))
			return SHAPE_NO;
		/* Decided where "bearer" is, so that both are found in the same bytes. */
		if (len < 20 && at + len == n && !v->ends)
			return SHAPE_MORE;
		/* Manuals of OAuth have short ones, and one pair of user and secret. */
		if (len < (i ? 16U : 8U))
			return SHAPE_NO;
		r->ahead = at + len;
		r->skip = at;
		return has_text(v->p + at, len, "czZCaGRSa3F0Mz") ? SHAPE_SAMPLE : SHAPE_YES;
	}
	return SHAPE_NO;
}

/* .../T.../B.../secret */
static enum shape_found slack_hook(const struct shape *s, const struct shape_view *v,
				   struct shape_range *r)
{
	size_t at = strlen(s->literal), n = shapes_run(v->p + at, v->after - at, ALNUM | MORE64);

	if (n < 40)
		return at + n == v->after && !v->ends ? SHAPE_MORE : SHAPE_NO;
	r->ahead = at + n;
	return shapes_judge(v, at + 20, n - 20);
}

static enum shape_found discord_hook(const struct shape *s, const struct shape_view *v,
				     struct shape_range *r)
{
	size_t at = strlen(s->literal), id = shapes_run(v->p + at, v->after - at, DIGIT);

	if (!comes_before(v, "discord.com") && !comes_before(v, "discordapp.com"))
		return SHAPE_NO;
	if (at + id == v->after)
		return v->ends || id > 20 ? SHAPE_NO : SHAPE_MORE;
	if (id < 17 || id > 20 || v->p[at + id] != '/')
		return SHAPE_NO;
	at += id + 1;
	return some_of(v, at, TOKEN, 60, r);
}

/* aws_secret_access_key = 40 signs, as a setting, a variable or a member of an object */
static enum shape_found aws_secret(const struct shape *s, const struct shape_view *v,
				   struct shape_range *r)
{
	size_t at = strlen(s->literal), n = v->after, len;

	at += quote(v->p + at, n - at);
	at += blanks(v->p + at, n - at);
	if (at < n && v->p[at] != ':' && v->p[at] != '=')
		return SHAPE_NO;
	at += at < n;
	at += blanks(v->p + at, n - at);
	at += quote(v->p + at, n - at);
	len = shapes_run(v->p + at, n - at, s->class);
	while (len && strchr("-_.~=", v->p[at + len - 1]))
		len--;
	if (at + len == n && len <= 40 && !v->ends)
		return SHAPE_MORE;
	if (len != 40 || distinct(v->p + at, len) < 16)
		return SHAPE_NO;
	r->ahead = at + len;
	r->skip = at;
	return is_filler(v->p + at, len) ? SHAPE_SAMPLE : SHAPE_YES;
}

/* --- the table ---
 *
 * At most 48 literals, of three bytes and more: so many the fast half of the matcher takes.
 * Twilio's keys, which have no third byte, are found by scan_behind.c. */

/* clang-format off */
const struct shape shapes[] = {
	{ LEAK_OPENAI, "sk-", .class = TOKEN, .min = 20, .check = sk },
	{ LEAK_GROQ, "gsk_", .class = ALNUM, .min = 20 },
	{ LEAK_AWS, "AKIA", .class = UPPER | DIGIT, .min = 16, .exact = true },
	{ LEAK_AWS, "ASIA", .class = UPPER | DIGIT, .min = 16, .exact = true },
	{ LEAK_AWS, "secret_access_key", .caseless = true, .class = ALNUM | MORE64, .inside = true, .check = aws_secret },
	{ LEAK_AWS, "secretaccesskey", .caseless = true, .class = ALNUM | MORE64, .inside = true, .check = aws_secret },
	{ LEAK_GITHUB, "ghp_", .class = ALNUM, .min = 16 },
	{ LEAK_GITHUB, "gho_", .class = ALNUM, .min = 16 },
	{ LEAK_GITHUB, "ghu_", .class = ALNUM, .min = 16 },
	{ LEAK_GITHUB, "ghs_", .class = ALNUM, .min = 16 },
	{ LEAK_GITHUB, "ghr_", .class = ALNUM, .min = 16 },
	{ LEAK_GITHUB_PAT, "github_pat_", .class = WORD, .min = 22 },
	{ LEAK_STRIPE, "_live_", .class = ALNUM, .min = 16, .inside = true, .check = stripe },
	{ LEAK_STRIPE_TEST, "_test_", .class = ALNUM, .min = 16, .inside = true, .check = stripe },
	{ LEAK_NEARAI, "sess_", .class = ALNUM, .min = 32 },
	{ LEAK_GOOGLE, "AIza", .class = TOKEN, .min = 35 },
	{ LEAK_SLACK, "xox", .class = ALNUM | DASH, .min = 10, .check = slack },
	{ LEAK_SLACK, "xapp-", .class = ALNUM | DASH, .min = 20 },
	{ LEAK_SENDGRID, "SG.", .class = TOKEN, .check = sendgrid },
	{ LEAK_TELEGRAM, ":AA", .class = TOKEN, .inside = true, .check = telegram },
	{ LEAK_PEM, "-----BEGIN ", .class = ALNUM | MORE64, .inside = true, .check = pem },
	{ LEAK_PLACEHOLDER, "icsbx_", .class = ALNUM, .min = 16 },
	{ LEAK_PLACEHOLDER, "brig-", .class = LOWER | DIGIT, .min = 32, .exact = true },
	{ LEAK_JWT, ".eyJ", .class = TOKEN | MORE64, .inside = true, .check = jwt },
	{ LEAK_BEARER, "bearer", .caseless = true, .class = TOKEN68, .check = bearer },
	{ LEAK_AUTHORIZATION, "authorization", .caseless = true, .class = TOKEN68, .check = authorization },
	{ LEAK_GITLAB, "glpat-", .class = TOKEN, .min = 20 },
	{ LEAK_GITLAB, "gldt-", .class = TOKEN, .min = 20 },
	{ LEAK_GITLAB, "glrt-", .class = TOKEN, .min = 20 },
	{ LEAK_GITLAB, "glptt-", .class = TOKEN, .min = 20 },
	{ LEAK_GITLAB, "glcbt-", .class = TOKEN, .min = 20 },
	{ LEAK_GITLAB, "gloas-", .class = TOKEN, .min = 20 },
	{ LEAK_NPM, "npm_", .class = ALNUM, .min = 36 },
	{ LEAK_PYPI, "pypi-AgEI", .class = TOKEN, .min = 50 },
	{ LEAK_HUGGINGFACE, "hf_", .class = ALNUM, .min = 30 },
	{ LEAK_SLACK_HOOK, "hooks.slack.com/services/", .class = ALNUM | MORE64, .check = slack_hook },
	{ LEAK_DISCORD_HOOK, "/api/webhooks/", .class = TOKEN, .inside = true, .check = discord_hook },
	{ LEAK_DIGITALOCEAN, "_v1_", .class = HEXDIGIT, .min = 40, .inside = true, .check = digitalocean },
	{ LEAK_SHOPIFY, "shp", .class = HEXDIGIT, .min = 32, .check = shopify },
	{ LEAK_AGE, "AGE-SECRET-KEY-1", .class = UPPER | DIGIT, .min = 50 },
	{ LEAK_GOOGLE_OAUTH, "ya29.", .class = TOKEN, .min = 20 },
	{ LEAK_GOOGLE_OAUTH, "GOCSPX-", .class = TOKEN, .min = 28 },
	{ LEAK_AZURE, "AccountKey=", .class = ALNUM | MORE64, .min = 88, .inside = true },
	{ LEAK_VAULT, "hvs.", .class = TOKEN, .min = 24 },
	{ LEAK_VAULT, "hvb.", .class = TOKEN, .min = 24 },
};
/* clang-format on */
const size_t shapes_count = ARRAY_LEN(shapes);
static_assert(ARRAY_LEN(shapes) <= 48, "see above");

enum shape_found shape_check(const struct shape *s, const struct shape_view *v,
			     struct shape_range *r)
{
	if (!shape_may_stand(s, v->p, v->before))
		return SHAPE_NO;
	return s->check ? s->check(s, v, r) : shapes_plain(s, v, r);
}

bool shape_continues(const struct shape *s, char c)
{
	return (class_of(c) & s->class) != 0;
}

bool shape_is_block(enum leak_kind kind)
{
	return kind == LEAK_PEM || kind == LEAK_SSH_KEY || kind == LEAK_PGP;
}
