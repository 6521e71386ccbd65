/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_textdiff.c - the differ: whatever the two texts are, what it says puts the second in
 * place of the first, and its counts are those of its lines. */
#include "fuzz.h"

#include "workspace/textdiff.h"

/* Applies what the differ wrote; dies where it does not fit. */
static void put_back(struct textdiff_side a, struct textdiff_side b, const struct buf *hunks)
{
	const char *h = buf_str(hunks), *end = h + hunks->len, *x = a.data, *y = b.data;
	struct buf made = BUF_INIT((size_t)8 << 20);

	while (h < end) {
		const char *eol = memchr(h, '\n', (size_t)(end - h));
		size_t n = eol ? (size_t)(eol - h) : (size_t)(end - h);

		require(eol != NULL);
		if (*h == '@') {
			unsigned long line = strtoul(h + 4, NULL, 10), count = 1, at = 0;
			const char *comma = memchr(h, ',', n), *plus = memchr(h, '+', n);

			if (comma && comma < plus)
				count = strtoul(comma + 1, NULL, 10);
			/* Lines between two hunks are equal. */
			for (const char *p = a.data; p < x; p++)
				at += *p == '\n';
			for (; at + (count > 0) < line; at++) {
				const char *to = memchr(x, '\n', (size_t)(a.data + a.len - x));

				require(to != NULL);
				buf_add(&made, x, (size_t)(to - x) + 1);
				x = to + 1;
			}
		} else if (*h != '\\') {
			bool last = eol + 1 < end && eol[1] == '\\';
			size_t len = n - 1 + !last;

			if (*h != '+') {
				require(len <= (size_t)(a.data + a.len - x) &&
					memcmp(x, h + 1, len) == 0);
				x += len;
			}
			if (*h != '-')
				buf_add(&made, h + 1, len);
		}
		h = eol + 1;
	}
	buf_add(&made, x, (size_t)(a.data + a.len - x));
	require(!made.failed && made.len == b.len && (!b.len || memcmp(made.data, y, b.len) == 0));
	buf_done(&made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const char *cut = size ? memchr(text, 0, size) : NULL;
	size_t first = cut ? (size_t)(cut - text) : size / 2, from = first + (cut != NULL);
	struct textdiff_side a = { text, first }, b = { text + from, size - from };
	struct buf hunks = BUF_INIT((size_t)8 << 20);
	struct textdiff_count count, again;
	int r;

	if (!size)
		return 0;
	r = textdiff(a, b, &hunks, &count);
	require(r == textdiff(a, b, NULL, &again));
	require(count.added == again.added && count.removed == again.removed);
	if (r == TEXTDIFF_TEXT)
		put_back(a, b, &hunks);
	buf_done(&hunks);
	return 0;
}
