/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_allow_edit.c - any text is edited by whole lines, or refused.
 *
 * Without the lines that came the new text is the old one (but for a line end at its end), it
 * reads, and a second edit finds the rule there. */
#include "fuzz.h"

#include "base/bytes/yaml.h"
#include "model/files/allow_edit.h"

#define RULE "a.example.org"

static void require_again(const struct buf *text)
{
	CLEANUP(buf) struct buf out = BUF_INIT((size_t)4 << 20);
	struct allow_edit x;
	struct err e = { 0 };

	require(allow_edit("f", text->data, text->len, RULE, &out, &x, &e) == 0 && x.there);
	require(out.len == text->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf) struct buf out = BUF_INIT((size_t)4 << 20), diff = BUF_INIT((size_t)8 << 20);
	const char *text = (const char *)data;
	struct allow_edit x;
	struct err e = { 0 };
	size_t same = 0;

	if (allow_edit("f", text, size, RULE, &out, &x, &e) < 0) {
		require(e.code > 0);
		return 0;
	}
	require(allow_edit_diff("f", buf_str(&out), out.len, &x, &diff, &e) == 0);
	if (x.there) {
		require(out.len == size && !diff.len);
		return 0;
	}
	require(x.lines >= 1 && x.lines <= 3 && diff.len && out.len > size);
	while (same < size && out.data[same] == text[same])
		same++;
	require(memcmp(out.data + out.len - (size - same), text + same, size - same) == 0);
	require_again(&out);
	return 0;
}
