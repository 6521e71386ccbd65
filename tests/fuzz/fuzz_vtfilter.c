/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_vtfilter.c - what the terminal filter lets out, judged by a second reader of its own.
 *
 * The first input byte chooses how the rest is cut into calls. Whatever the input: the output is
 * the same as in one piece, no longer than the input but for what undoes it, holds only whole
 * characters and sequences of the safe set after every call, leaves no colour on and no cursor
 * hidden, and passes a second time unchanged. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"
#include "sandbox/streams/vtfilter.h"

#define INPUT_MAX ((size_t)1 << 20)
#define UNDO_MAX 10 /* colours off, cursor on */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* Length of the harmless sequence that begins with the ESC at p, or 0. */
static size_t safe_sequence(const char *p, size_t n)
{
	size_t i = 2 + (n > 2 ? strspn(p + 2, "0123456789;:") : 0);

	if (n < 3 || p[1] != '[')
		return 0;
	if (n >= 6 && (memcmp(p + 2, "?25h", 4) == 0 || memcmp(p + 2, "?25l", 4) == 0))
		return 6;
	return i < n && p[i] && strchr("mKJABCDEFGH", p[i]) ? i + 1 : 0;
}

/* Length of the harmless character or control at p, or 0. */
static size_t safe_character(const char *p, size_t n)
{
	size_t len = utf8_len(p, n);
	unsigned char c = (unsigned char)p[0], d = len > 1 ? (unsigned char)p[1] : 0,
		      e = len > 2 ? (unsigned char)p[2] : 0;

	if (len == 1 && c < 0x20)
		return c && strchr("\n\r\t\b\a\f", c) ? 1 : 0;
	if (len == 1 && c == 0x7f)
		return 0;
	if (c == 0xc2 && d < 0xa0)
		return 0;
	if (c == 0xe2 && d == 0x80 && e >= 0xaa && e <= 0xae)
		return 0;
	if (c == 0xe2 && d == 0x81 && e >= 0xa6 && e <= 0xa9)
		return 0;
	return len;
}

/* p[n] is NUL. */
static void require_safe(const char *p, size_t n)
{
	while (n) {
		size_t len = *p == 0x1b ? safe_sequence(p, n) : safe_character(p, n);

		require(len > 0);
		p += len;
		n -= len;
	}
}

/* The last colour is none, and the last word about the cursor is that it shows. */
static void require_settled(const char *p, size_t n)
{
	bool painted = false, hidden = false;

	for (size_t len = 0; n; p += len, n -= len) {
		len = *p == 0x1b ? safe_sequence(p, n) : safe_character(p, n);
		require(len > 0);
		if (*p == 0x1b && p[len - 1] == 'm')
			painted = strspn(p + 2, "0;:") != len - 3;
		if (*p == 0x1b && len == 6 && p[2] == '?')
			hidden = p[5] == 'l';
	}
	require(!painted && !hidden);
}

/* Filters in calls of at most `step` bytes, each into a buffer of exactly the promised size. */
static size_t filter_in_steps(const char *in, size_t n, size_t step, char *out)
{
	struct vtfilter f;
	size_t done = 0;
	char rest[VTFILTER_SLACK + 1];

	vtfilter_init(&f);
	for (size_t at = 0, len; at < n; at += len) {
		char *piece = malloc(step + VTFILTER_SLACK + 1);
		size_t got;

		require(piece != NULL);
		len = n - at < step ? n - at : step;
		got = vtfilter_run(&f, in + at, len, piece);
		require(got <= len + VTFILTER_SLACK && done + got <= at + len);
		piece[got] = '\0';
		require_safe(piece, got);
		memcpy(out + done, piece, got);
		done += got;
		free(piece);
	}
	n = vtfilter_flush(&f, rest);
	require(n <= VTFILTER_SLACK);
	memcpy(out + done, rest, n);
	return done + n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *in = (const char *)data + 1;
	size_t step, n, m;
	char *whole, *cut;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	step = (size_t)data[0] % 32 + 1;
	whole = malloc(size + 2 * VTFILTER_SLACK);
	cut = malloc(size + 2 * VTFILTER_SLACK);
	require(whole && cut);
	n = filter_in_steps(in, size - 1, size - 1, whole);
	m = filter_in_steps(in, size - 1, step, cut);
	require(n <= size - 1 + UNDO_MAX && n == m && memcmp(whole, cut, n) == 0);
	whole[n] = '\0';
	require_settled(whole, n);
	m = n ? filter_in_steps(whole, n, step, cut) : 0;
	require(n == m && memcmp(whole, cut, n) == 0);
	free(whole);
	free(cut);
	return 0;
}
