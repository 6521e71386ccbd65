/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/clean.h"

#include <stdint.h>

#include "base/text/str.h"

/* Marks of direction, joiners, separators, tags and the byte order mark: they show nothing, and
 * make what is shown a lie. */
static bool hides(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = { { 0x00ad, 0x00ad }, { 0x061c, 0x061c }, { 0x180e, 0x180e },
		       { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f },
		       { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe0fff } };

	for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

bool clean_shows(const char *p, size_t n)
{
	uint32_t c = utf8_code(p, n);

	return c >= 0x20 && !(c >= 0x7f && c < 0xa0) && !hides(c);
}

/* How many bytes at p can be passed on in one piece: printable ASCII. */
static size_t clean_plain(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && (unsigned char)p[i] >= 0x20 && (unsigned char)p[i] < 0x7f)
		i++;
	return i;
}

static void put_escape(struct buf *b, uint32_t c)
{
	if (c < 0x10000)
		buf_printf(b, "\\u%04x", c);
	else
		buf_printf(b, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
			   0xdc00 + ((c - 0x10000) & 0x3ff));
}

/* Puts what stands for a character that may not be shown; len is 0 where it is none. */
typedef void bad_fn(struct buf *b, const char *p, size_t len);

static void put_cleaned(struct buf *b, const char *p, size_t n, bad_fn *bad)
{
	for (size_t len; n; p += len, n -= len) {
		len = clean_plain(p, n);
		if (len) {
			buf_add(b, p, len);
			continue;
		}
		len = utf8_len(p, n);
		if (len && clean_shows(p, len))
			buf_add(b, p, len);
		else
			bad(b, p, len);
		len = len ? len : 1;
	}
}

static void bad_as_mark(struct buf *b, const char *p UNUSED, size_t len UNUSED)
{
	buf_putc(b, '?');
}

static void bad_as_escape(struct buf *b, const char *p, size_t len)
{
	put_escape(b, len ? utf8_code(p, len) : 0xfffd);
}

void clean_put(struct buf *b, const char *p, size_t n)
{
	put_cleaned(b, p, n, bad_as_mark);
}

void clean_put_json(struct buf *b, const char *p, size_t n)
{
	put_cleaned(b, p, n, bad_as_escape);
}
