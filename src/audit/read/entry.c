/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/read/entry.h"

#include <errno.h>
#include <string.h>

#include "audit/read/times.h"
#include "base/bytes/hex.h"
#include "base/text/str.h"

/* --- values --- */

static bool entry_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return entry_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Behind a backslash at p; its length with what it takes, 0 when there is no such escape. */
static size_t escape_len(const char *p, const char *end)
{
	if (p >= end)
		return 0;
	if (strchr("\"\\/bfnrt", *p) && *p)
		return 1;
	if (*p != 'u' || end - p < 5)
		return 0;
	for (int i = 1; i < 5; i++)
		if (!is_hex(p[i]))
			return 0;
	return 5;
}

/* Behind the opening quote; returns the closing one, or NULL. */
static const char *string_end(const char *p, const char *end)
{
	while (p < end) {
		unsigned char c = (unsigned char)*p;
		size_t n = 1;

		if (c == '"')
			return p;
		if (c < 0x20)
			return NULL;
		if (c == '\\') {
			n = escape_len(p + 1, end);
			p++;
		} else if (c >= 0x80) {
			n = utf8_len(p, (size_t)(end - p));
		}
		if (!n)
			return NULL;
		p += n;
	}
	return NULL;
}

static const char *digits(const char *p, const char *end)
{
	const char *from = p;

	while (p < end && entry_is_digit(*p))
		p++;
	return p > from ? p : NULL;
}

static const char *number_end(const char *p, const char *end)
{
	if (p < end && *p == '-')
		p++;
	p = p < end && *p == '0' ? p + 1 : digits(p, end);
	if (p && p < end && *p == '.')
		p = digits(p + 1, end);
	if (p && p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		p = digits(p, end);
	}
	return p;
}

static const char *word_end(const char *p, const char *end, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(end - p) >= n && memcmp(p, word, n) == 0 ? p + n : NULL;
}

static const char *value_end(const char *p, const char *end, enum pair_kind *kind, unsigned depth);

/* An array or object at p, of any content; the byte behind it, or NULL. */
static const char *nested_end(const char *p, const char *end, unsigned depth)
{
	char close = *p == '{' ? '}' : ']';
	enum pair_kind kind;

	if (!depth)
		return NULL;
	p++;
	if (p < end && *p == close)
		return p + 1;
	for (;;) {
		if (close == '}') {
			if (p >= end || *p != '"' || !(p = string_end(p + 1, end)))
				return NULL;
			p++;
			if (p >= end || *p++ != ':')
				return NULL;
		}
		p = value_end(p, end, &kind, depth - 1);
		if (!p || p >= end)
			return NULL;
		if (*p == close)
			return p + 1;
		if (*p++ != ',')
			return NULL;
	}
}

static const char *value_end(const char *p, const char *end, enum pair_kind *kind, unsigned depth)
{
	if (p >= end)
		return NULL;
	switch (*p) {
	case '"':
		*kind = PAIR_STRING;
		p = string_end(p + 1, end);
		return p ? p + 1 : NULL;
	case '{':
	case '[':
		*kind = PAIR_NESTED;
		return nested_end(p, end, depth);
	case 't':
	case 'f':
		*kind = PAIR_BOOL;
		return word_end(p, end, *p == 't' ? "true" : "false");
	case 'n':
		*kind = PAIR_NULL;
		return word_end(p, end, "null");
	default:
		*kind = PAIR_NUMBER;
		return number_end(p, end);
	}
}

/* --- pairs --- */

void pairs_init(struct pairs *it, const char *p, size_t n)
{
	*it = (struct pairs){ .at = p, .end = p + n };
}

int pairs_next(struct pairs *it, struct pair *ret)
{
	const char *p = it->at, *end = it->end, *stop;

	if (p >= end)
		return -EINVAL;
	if (*p == '}' && it->begun)
		return p + 1 == end ? 0 : -EINVAL;
	if (*p != (it->begun ? ',' : '{'))
		return -EINVAL;
	p++;
	if (!it->begun && p + 1 == end && *p == '}')
		return 0;
	it->begun = true;
	if (p >= end || *p != '"' || !(stop = string_end(p + 1, end)))
		return -EINVAL;
	ret->key = (struct slice){ p + 1, (size_t)(stop - p - 1) };
	p = stop + 1;
	if (p >= end || *p++ != ':')
		return -EINVAL;
	stop = value_end(p, end, &ret->kind, ENTRY_DEPTH_MAX);
	if (!stop)
		return -EINVAL;
	ret->value = (struct slice){ p, (size_t)(stop - p) };
	if (ret->kind == PAIR_STRING)
		ret->value = (struct slice){ p + 1, (size_t)(stop - p - 2) };
	it->at = stop;
	return 1;
}

bool slice_eq(struct slice s, const char *text)
{
	return s.p && s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

/* --- records --- */

static int read_seq(const struct pair *p, uint64_t *ret)
{
	uint64_t v = 0;

	if (p->kind != PAIR_NUMBER || p->value.n > 18)
		return -EINVAL;
	for (size_t i = 0; i < p->value.n; i++) {
		if (!entry_is_digit(p->value.p[i]))
			return -EINVAL;
		v = v * 10 + (uint64_t)(p->value.p[i] - '0');
	}
	*ret = v;
	return 0;
}

#define KNOWN(name, member)                                                                        \
	{                                                                                          \
		name, sizeof(name) - 1, offsetof(struct entry, member)                             \
	}

static void entry_keep(struct entry *en, const struct pair *p)
{
	static const struct {
		const char *key;
		size_t n, offset;
	} known[] = { KNOWN("time", when),   KNOWN("type", type),
		      KNOWN("run", run),     KNOWN("policy", policy),
		      KNOWN("rule", rule),   KNOWN("principal", principal),
		      KNOWN("agent", agent), KNOWN("outcome", outcome),
		      KNOWN("host", host),   KNOWN("mac", mac) };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (p->key.n == known[i].n && memcmp(p->key.p, known[i].key, known[i].n) == 0) {
			*(struct slice *)((char *)en + known[i].offset) = p->value;
			return;
		}
}

int entry_read(const char *line, size_t n, struct entry *ret)
{
	struct pairs it;
	struct pair p;
	bool numbered = false;
	int r;

	*ret = (struct entry){ .line = line, .len = n };
	if (n > ENTRY_LINE_MAX)
		return -EINVAL;
	pairs_init(&it, line, n);
	while ((r = pairs_next(&it, &p)) > 0) {
		if (slice_eq(p.key, "seq")) {
			if (numbered || read_seq(&p, &ret->seq) < 0)
				return -EINVAL;
			numbered = true;
		} else if (p.kind == PAIR_STRING) {
			entry_keep(ret, &p);
		}
	}
	if (r < 0 || !numbered || !ret->type.n || !ret->when.n)
		return -EINVAL;
	return time_parse(ret->when.p, ret->when.n, &ret->time);
}

bool entry_get(const struct entry *en, const char *key, struct pair *ret)
{
	struct pairs it;

	pairs_init(&it, en->line, en->len);
	while (pairs_next(&it, ret) > 0)
		if (slice_eq(ret->key, key))
			return true;
	return false;
}

/* --- escapes --- */

static unsigned hex4(const char *p)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++)
		v = v * 16 + (unsigned)hex_nibble(p[i]);
	return v;
}

static size_t put_utf8(char out[4], uint32_t c)
{
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	size_t n = c < 0x80 ? 1 : 2;

	if (c >= 0x800)
		n = c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(lead[n] | c);
	return n;
}

/* \uXXXX at *p (behind the u), which may be the first half of two; moves *p over it. */
static size_t decode_unicode(const char **p, const char *end, char out[4])
{
	uint32_t c = hex4(*p), low;
	const char *at = *p;

	*p += 4;
	if (c >= 0xd800 && c < 0xdc00 && end - at >= 10 && at[4] == '\\' && at[5] == 'u') {
		low = hex4(at + 6);
		if (low >= 0xdc00 && low < 0xe000) {
			*p += 6;
			return put_utf8(out, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
		}
	}
	return put_utf8(out, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
}

/* The next piece of the text that a string means: bytes up to an escape, or what one escape stands
 * for (in `room`). Returns its length, moves *p; 0 at the end. */
static size_t next_piece(const char **p, const char *end, char room[4], const char **ret)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = *p, *back, *which;

	if (at >= end)
		return 0;
	*ret = at;
	back = memchr(at, '\\', (size_t)(end - at));
	if (back != at) {
		*p = back ? back : end;
		return (size_t)(*p - at);
	}
	*ret = room;
	*p = at + 2;
	if (at[1] == 'u')
		return decode_unicode(p, end, room);
	which = strchr(from, at[1]);
	room[0] = which ? to[which - from] : '?';
	return 1;
}

void slice_decode(struct slice s, struct buf *b)
{
	const char *p = s.p, *end = s.p ? s.p + s.n : NULL, *piece;
	char room[4];

	for (size_t n; (n = next_piece(&p, end, room, &piece));)
		buf_add(b, piece, n);
}

bool slice_means(struct slice s, const char *text)
{
	const char *p = s.p, *end = s.p ? s.p + s.n : NULL, *piece;
	size_t left = strlen(text);
	char room[4];

	for (size_t n; (n = next_piece(&p, end, room, &piece)); text += n, left -= n)
		if (n > left || memcmp(piece, text, n) != 0)
			return false;
	return s.p && !left;
}
