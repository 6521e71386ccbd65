/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/shared/left_out.h"

#include <string.h>

#define DIGITS_MAX 10

static bool as_it_is(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
	       (c && strchr("/-_.~+@=,:", c));
}

void left_out_put(struct buf *b, uint64_t count, const char *names, size_t n)
{
	size_t len;

	buf_putu(b, count, 1);
	for (; n && (len = strnlen(names, n)) < n; names += len + 1, n -= len + 1) {
		buf_putc(b, ' ');
		for (size_t i = 0; i < len; i++)
			if (as_it_is(names[i]))
				buf_putc(b, names[i]);
			else
				buf_printf(b, "%%%02X", (unsigned)(unsigned char)names[i]);
	}
}

static int left_out_hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One character of a name; how many bytes it took, 0: it is none. */
static size_t left_out_take(const char *p, size_t n, struct buf *names)
{
	if (as_it_is(*p)) {
		buf_putc(names, *p);
		return 1;
	}
	/* A NUL is the end of a name, and never in one. */
	if (*p != '%' || n < 3 || left_out_hex(p[1]) < 0 || left_out_hex(p[2]) < 0 ||
	    !(left_out_hex(p[1]) | left_out_hex(p[2])))
		return 0;
	buf_putc(names, (char)(left_out_hex(p[1]) << 4 | left_out_hex(p[2])));
	return 3;
}

uint64_t left_out_read(const char *p, size_t n, struct buf *names)
{
	uint64_t count = 0;
	size_t i = 0, took = 1;

	for (; i < n && i < DIGITS_MAX && p[i] >= '0' && p[i] <= '9'; i++)
		count = count * 10 + (uint64_t)(p[i] - '0');
	if (i < n && p[i] != ' ')
		return 0;
	while (names && i < n && took) {
		for (i++; i < n && p[i] != ' ' && took; i += took)
			took = left_out_take(p + i, n - i, names);
		buf_putc(names, '\0');
	}
	return count;
}
