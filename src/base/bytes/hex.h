/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/hex.h - bytes as lower-case digits; upper case is refused, so that there is one
 * spelling. What others write may have either case: hex_nibble.
 */
#pragma once

#include <errno.h>
#include <stddef.h>

static inline void hex_encode(const unsigned char *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[p[i] >> 4];
		out[2 * i + 1] = digits[p[i] & 15];
	}
}

static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A digit in either case, as escapes have them; -1: it is none. */
static inline int hex_nibble(char c)
{
	return hex_digit(c >= 'A' && c <= 'F' ? (char)(c | 0x20) : c);
}

/* Reads 2 * n digits; 0 or -EINVAL. */
static inline int hex_decode(const char *text, unsigned char *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		out[i] = (unsigned char)(high << 4 | low);
	}
	return 0;
}
