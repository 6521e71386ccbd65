/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/base64.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void base64_put_in(struct buf *b, const char *alphabet, const void *p, size_t n)
{
	const unsigned char *from = p;

	for (size_t i = 0; i < n; i += 3) {
		size_t have = n - i < 3 ? n - i : 3;
		uint32_t v = (uint32_t)from[i] << 16;

		v |= have > 1 ? (uint32_t)from[i + 1] << 8 : 0;
		v |= have > 2 ? (uint32_t)from[i + 2] : 0;
		for (size_t k = 0; k < 4; k++)
			buf_putc(b, k <= have ? alphabet[v >> (18 - 6 * k) & 63] : '=');
	}
}

void base64_url(struct buf *b, const void *p, size_t n)
{
	base64_put_in(b, url, p, n);
}

void base64_put(struct buf *b, const void *p, size_t n)
{
	base64_put_in(b, plain, p, n);
}

ssize_t base64_read(const char *text, size_t n, char *out, size_t room)
{
	size_t pad = 0, done = 0;

	if (n % 4)
		return -EBADMSG;
	while (pad < 2 && pad < n && text[n - 1 - pad] == '=')
		pad++;
	if (n / 4 * 3 - pad > room)
		return -E2BIG;
	for (size_t i = 0; i < n; i += 4) {
		size_t bytes = i + 4 == n ? 3 - pad : 3;
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++) {
			char c = k <= bytes ? text[i + k] : 'A';
			const char *at = c ? strchr(plain, c) : NULL;

			if (!at)
				return -EBADMSG;
			v = v << 6 | (uint32_t)(at - plain);
		}
		if (bytes < 3 && v & (bytes == 1 ? 0xffffU : 0xffU))
			return -EBADMSG; /* the same text in other words */
		for (size_t k = 0; k < bytes; k++)
			out[done++] = (char)(v >> (16 - 8 * k));
	}
	return (ssize_t)done;
}
