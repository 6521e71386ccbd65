/* SPDX-License-Identifier: Apache-2.0 */
/* base/text/buf.h - a growing byte buffer with a maximum.
 *
 * Appending past the maximum, or without memory, sets `failed` and drops the bytes: writers append
 * freely and look once at the end. The text is always NUL-terminated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/cleanup.h"

struct buf {
	char *data; /* NULL while empty */
	size_t len, cap, max;
	bool failed;
};

#define BUF_INIT(limit)                                                                            \
	{                                                                                          \
		.max = (limit)                                                                     \
	}

void buf_done(struct buf *b);
static inline void cleanup_buf(struct buf *b)
{
	buf_done(b);
}

void buf_add(struct buf *b, const void *p, size_t n);
void buf_puts(struct buf *b, const char *s);
/* One word of sh, byte for byte; buf_put_word without quotes where nothing in it means something to
 * a shell. */
void buf_put_quoted(struct buf *b, const char *text);
void buf_put_word(struct buf *b, const char *text);
void buf_putc(struct buf *b, char c);
/* Decimal digits, with zeros in front up to `width`; much cheaper than buf_printf. */
void buf_putu(struct buf *b, uint64_t v, unsigned width);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* All of a file, from its beginning, wherever the descriptor stands; 0 or -errno, -E2BIG where it
 * is more than fits. */
int buf_read_file(struct buf *b, int fd);
const char *buf_str(const struct buf *b); /* "" while empty; borrowed until the next append */
char *buf_take(struct buf *b);            /* caller frees; NULL if the buffer failed */
