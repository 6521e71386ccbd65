/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_websocket.c - frames of a server, then of a client: however they are
 * cut, the same is read of them; and what is written of them is read as the same. */
#include "fuzz.h"

#include "base/text/buf.h"
#include "wire/websocket.h"

/* What was read, as text; false: refused. */
static bool read_all(const uint8_t *data, size_t size, bool masked, size_t step, struct buf *out)
{
	struct ws_reader r = { .masked = masked };
	char *copy = text_of(data, size); /* it is unmasked in place */
	bool good = true;

	for (size_t at = 0; good && at < size;) {
		size_t show = size - at < step ? size - at : step;
		struct ws_piece piece;
		ssize_t n = ws_read(&r, copy + at, show, &piece);

		good = n >= 0;
		if (!good)
			break;
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
	free(copy);
	return good;
}

static void both(const uint8_t *data, size_t size, bool masked)
{
	struct buf whole = BUF_INIT((size_t)16 << 20), cut = BUF_INIT((size_t)16 << 20);
	bool good = read_all(data, size, masked, size ? size : 1, &whole);

	require(read_all(data, size, masked, 1, &cut) == good);
	require(whole.len == cut.len &&
		(!whole.len || memcmp(whole.data, cut.data, whole.len) == 0));
	buf_done(&whole);
	buf_done(&cut);
}

static void written(const uint8_t *data, size_t size)
{
	static const unsigned char mask[4] = { 1, 0x80, 0, 7 };

	for (int i = 0; i < 2; i++) {
		struct buf b = BUF_INIT((size_t)16 << 20), out = BUF_INIT((size_t)16 << 20);

		ws_put_frame(&b, WS_BINARY, true, data, size, i ? mask : NULL);
		require(read_all((const uint8_t *)b.data, b.len, i, b.len, &out));
		require(out.len == size + 2 && memcmp(out.data + 1, data, size) == 0);
		buf_done(&b);
		buf_done(&out);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	both(data, size, false);
	both(data, size, true);
	if (size)
		written(data, size);
	return 0;
}
