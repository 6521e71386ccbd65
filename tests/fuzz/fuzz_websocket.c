/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_websocket.c - frames of a server: however they are cut, the same is read of them. */
#include "fuzz.h"

#include "base/text/buf.h"
#include "kube/api/websocket.h"

/* What was read, as text; false: refused. */
static bool read_all(const uint8_t *data, size_t size, size_t step, struct buf *out)
{
	struct ws_reader r = { 0 };

	for (size_t at = 0; at < size;) {
		size_t show = size - at < step ? size - at : step;
		struct ws_piece piece;
		ssize_t n = ws_read(&r, (const char *)data + at, show, &piece);

		if (n < 0)
			return false;
		require(n > 0 && (size_t)n <= show && r.held <= WS_CONTROL_MAX);
		at += (size_t)n;
		if (piece.kind != WS_NOTHING && piece.kind != WS_DATA)
			buf_printf(out, "[%d %u %zu]", piece.kind, piece.code, piece.n);
		if (piece.begins)
			buf_putc(out, '<');
		if (piece.n)
			buf_add(out, piece.p, piece.n);
		if (piece.ends)
			buf_putc(out, '>');
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = BUF_INIT((size_t)16 << 20), cut = BUF_INIT((size_t)16 << 20);
	bool good = read_all(data, size, size ? size : 1, &whole);

	require(read_all(data, size, 1, &cut) == good);
	require(whole.len == cut.len &&
		(!whole.len || memcmp(whole.data, cut.data, whole.len) == 0));
	buf_done(&whole);
	buf_done(&cut);
	return 0;
}
