/* SPDX-License-Identifier: Apache-2.0 */
/* unit/jsoncheck.h - is a text one JSON value and nothing else? Strict RFC 8259, with valid UTF-8.
 *
 * Written without brig's own functions, so that it cannot share their mistakes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct jsoncheck {
	const unsigned char *at, *end;
	unsigned depth;
};

static inline bool jc_value(struct jsoncheck *c);

static inline void jc_blank(struct jsoncheck *c)
{
	while (c->at < c->end && *c->at && strchr(" \t\r\n", *c->at))
		c->at++;
}

static inline bool jc_take(struct jsoncheck *c, unsigned char byte)
{
	if (c->at == c->end || *c->at != byte)
		return false;
	c->at++;
	return true;
}

static inline bool jc_word(struct jsoncheck *c, const char *word)
{
	for (; *word; word++)
		if (!jc_take(c, (unsigned char)*word))
			return false;
	return true;
}

static inline size_t jc_digits(struct jsoncheck *c)
{
	const unsigned char *from = c->at;

	while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
		c->at++;
	return (size_t)(c->at - from);
}

static inline bool jc_number(struct jsoncheck *c)
{
	(void)jc_take(c, '-');
	if (!jc_take(c, '0') && !jc_digits(c))
		return false;
	if (jc_take(c, '.') && !jc_digits(c))
		return false;
	if (!jc_take(c, 'e') && !jc_take(c, 'E'))
		return true;
	if (!jc_take(c, '+'))
		(void)jc_take(c, '-');
	return jc_digits(c) > 0;
}

/* One character of more than one byte: decoded, then judged by its number. */
static inline bool jc_wide(struct jsoncheck *c)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char lead = *c->at;
	size_t len = lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
	unsigned code = len ? lead & (0xffU >> (len + 1)) : 0;

	if (!len || (size_t)(c->end - c->at) < len)
		return false;
	for (size_t i = 1; i < len; i++) {
		if (c->at[i] >> 6 != 2)
			return false;
		code = code << 6 | (c->at[i] & 0x3fU);
	}
	c->at += len;
	return code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}

static inline bool jc_escape(struct jsoncheck *c)
{
	if (c->at == c->end || !*c->at || !strchr("\"\\/bfnrtu", *c->at))
		return false;
	if (*c->at++ != 'u')
		return true;
	for (int i = 0; i < 4; i++, c->at++)
		if (c->at == c->end || !*c->at || !strchr("0123456789abcdefABCDEF", *c->at))
			return false;
	return true;
}

static inline bool jc_string(struct jsoncheck *c)
{
	if (!jc_take(c, '"'))
		return false;
	while (c->at < c->end && *c->at != '"') {
		if (*c->at < 0x20)
			return false;
		if (*c->at >= 0x80) {
			if (!jc_wide(c))
				return false;
		} else if (*c->at++ == '\\' && !jc_escape(c)) {
			return false;
		}
	}
	return jc_take(c, '"');
}

static inline bool jc_members(struct jsoncheck *c, unsigned char close, bool keys)
{
	jc_blank(c);
	if (jc_take(c, close))
		return true;
	do {
		jc_blank(c);
		if (keys) {
			if (!jc_string(c))
				return false;
			jc_blank(c);
			if (!jc_take(c, ':'))
				return false;
		}
		if (!jc_value(c))
			return false;
	} while (jc_take(c, ','));
	return jc_take(c, close);
}

static inline bool jc_value(struct jsoncheck *c)
{
	bool good = false;

	jc_blank(c);
	if (c->at == c->end || ++c->depth > 200)
		return false;
	switch (*c->at) {
	case '{':
	case '[':
		good = *c->at++ == '{' ? jc_members(c, '}', true) : jc_members(c, ']', false);
		break;
	case '"':
		good = jc_string(c);
		break;
	case 't':
		good = jc_word(c, "true");
		break;
	case 'f':
		good = jc_word(c, "false");
		break;
	case 'n':
		good = jc_word(c, "null");
		break;
	default:
		good = jc_number(c);
	}
	c->depth--;
	jc_blank(c);
	return good;
}

static inline bool json_is_valid(const char *text, size_t n)
{
	struct jsoncheck c = { .at = (const unsigned char *)text };

	c.end = c.at + n;
	return jc_value(&c) && c.at == c.end;
}
