/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ .max = b->max };
}

static bool reserve(struct buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 1024;
	char *p;

	if (b->failed || n > b->max - b->len) {
		b->failed = true;
		return false;
	}
	if (b->len + n + 1 <= b->cap)
		return true;
	while (cap < b->len + n + 1)
		cap *= 2;
	p = realloc(b->data, cap);
	if (!p) {
		b->failed = true;
		return false;
	}
	b->data = p;
	b->cap = cap;
	return true;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	if (!reserve(b, n))
		return;
	if (n)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_putu(struct buf *b, uint64_t v, unsigned width)
{
	char text[20];
	size_t at = sizeof(text);

	do {
		text[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v || (sizeof(text) - at < width && at));
	buf_add(b, text + at, sizeof(text) - at);
}

void buf_put_quoted(struct buf *b, const char *text)
{
	buf_putc(b, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			buf_puts(b, "'\\''");
		else
			buf_putc(b, *text);
	}
	buf_putc(b, '\'');
}

void buf_put_word(struct buf *b, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./:=@%+,-";

	if (*text && !text[strspn(text, plain)])
		buf_puts(b, text);
	else
		buf_put_quoted(b, text);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !reserve(b, (size_t)n)) {
		b->failed = true;
		return;
	}
	va_start(ap, fmt);
	(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

int buf_read_file(struct buf *b, int fd)
{
	char data[16384];
	off_t at = 0;
	ssize_t n;

	while (!b->failed && (n = pread(fd, data, sizeof(data), at)) != 0) {
		if (n < 0)
			return -errno;
		buf_add(b, data, (size_t)n);
		at += n;
	}
	return b->failed ? -E2BIG : 0;
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
	char *p = b->failed ? NULL : b->data;

	if (!b->failed && !p)
		p = calloc(1, 1);
	if (b->failed)
		free(b->data);
	*b = (struct buf){ .max = b->max };
	return p;
}
