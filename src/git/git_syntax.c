/* SPDX-License-Identifier: Apache-2.0 */
#include "git/git_syntax.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct git_text {
	const char *at, *end;
	char section[GIT_WORD_MAX], sub[GIT_WORD_MAX], key[GIT_WORD_MAX], value[GIT_VALUE_MAX];
};

enum { NO_MORE = -1 };

/* The next byte; a line end of two bytes is one. */
static int next(struct git_text *t)
{
	if (t->at == t->end)
		return NO_MORE;
	if (*t->at == '\r' && t->end - t->at > 1 && t->at[1] == '\n')
		t->at++;
	return *t->at++;
}

static int peek(const struct git_text *t)
{
	const char *p = t->at;

	if (p == t->end)
		return NO_MORE;
	return *p == '\r' && t->end - p > 1 && p[1] == '\n' ? '\n' : *p;
}

static bool blank(int c)
{
	return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

static bool word_byte(int c)
{
	return c != NO_MORE && (isalnum(c) || c == '-');
}

static void skip_line(struct git_text *t)
{
	int c;

	do
		c = next(t);
	while (c != NO_MORE && c != '\n');
}

static int git_syntax_put(char *to, size_t *n, size_t max, int c)
{
	if (*n + 1 >= max || c == '\0')
		return -EINVAL;
	to[(*n)++] = (char)c;
	to[*n] = '\0';
	return 0;
}

/* `"sub"]`, behind the quote. */
static int read_sub(struct git_text *t)
{
	size_t n = 0;
	int c;

	for (t->sub[0] = '\0'; (c = next(t)) != '"';) {
		if (c == '\\')
			c = next(t);
		if (c == NO_MORE || c == '\n' || git_syntax_put(t->sub, &n, sizeof(t->sub), c) < 0)
			return -EINVAL;
	}
	return next(t) == ']' ? 0 : -EINVAL;
}

/* `[section]`, `[section "sub"]` or the old `[section.sub]`, behind the bracket. */
static int read_header(struct git_text *t)
{
	size_t n = 0, m = 0;
	bool dotted = false;
	int c;

	t->section[0] = t->sub[0] = '\0';
	while ((c = next(t)) != ']') {
		if (blank(c)) {
			while (blank(peek(t)))
				(void)next(t);
			return next(t) == '"' && !dotted && n ? read_sub(t) : -EINVAL;
		}
		if (!word_byte(c) && c != '.')
			return -EINVAL;
		if (c == '.' && !dotted)
			dotted = true;
		else if (git_syntax_put(dotted ? t->sub : t->section, dotted ? &m : &n,
					GIT_WORD_MAX, tolower(c)) < 0)
			return -EINVAL;
	}
	return n ? 0 : -EINVAL;
}

static int escaped(int c)
{
	switch (c) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'b':
		return '\b';
	case '"':
	case '\\':
		return c;
	default:
		return NO_MORE;
	}
}

/* What stands behind `=`, up to the end of its line; blanks at both ends do not count. */
static int read_value(struct git_text *t)
{
	size_t n = 0, kept = 0;
	bool quoted = false;
	int c;

	t->value[0] = '\0';
	while ((c = next(t)) != '\n' && c != NO_MORE) {
		bool literal = quoted;

		if (!quoted && (c == '#' || c == ';')) {
			skip_line(t);
			break;
		}
		if (c == '"') {
			quoted = !quoted;
			continue;
		}
		if (c == '\\') {
			c = next(t);
			if (c == '\n')
				continue;
			c = escaped(c);
			literal = true;
		}
		if (!literal && blank(c) && !n)
			continue;
		if (c == NO_MORE || git_syntax_put(t->value, &n, sizeof(t->value), c) < 0)
			return -EINVAL;
		if (literal || !blank(c))
			kept = n;
	}
	t->value[kept] = '\0';
	return quoted ? -EINVAL : 0;
}

static int read_setting(struct git_text *t, struct git_setting *s)
{
	size_t n = 0;
	int c;

	t->key[0] = '\0';
	if (!t->section[0] || peek(t) == NO_MORE || !isalpha(peek(t)))
		return -EINVAL;
	while (word_byte(peek(t)))
		if (git_syntax_put(t->key, &n, sizeof(t->key), tolower(next(t))) < 0)
			return -EINVAL;
	while (blank(peek(t)))
		(void)next(t);
	*s = (struct git_setting){ .section = t->section, .sub = t->sub, .key = t->key };
	c = peek(t);
	if (c == NO_MORE || c == '\n' || c == '#' || c == ';') {
		skip_line(t);
		return 0;
	}
	if (next(t) != '=' || read_value(t) < 0)
		return -EINVAL;
	s->value = t->value;
	return 0;
}

int git_syntax_read(const char *text, size_t n,
		    int (*found)(void *arg, const struct git_setting *s), void *arg)
{
	struct git_text t = { .at = text, .end = text + n };
	struct git_setting s;
	int r = 0;

	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		t.at += 3;
	while (r == 0) {
		int c = peek(&t);

		if (c == NO_MORE)
			return 0;
		if (c == '\n' || blank(c)) {
			(void)next(&t);
		} else if (c == '#' || c == ';') {
			skip_line(&t);
		} else if (c == '[') {
			(void)next(&t);
			r = read_header(&t);
		} else {
			r = read_setting(&t, &s);
			if (r == 0)
				r = found(arg, &s);
		}
	}
	return r;
}
