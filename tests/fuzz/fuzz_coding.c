/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_coding.c - a body that a server says is compressed: however it is cut, the same text
 * comes out, or none, and it cannot swell without bound.
 *
 * The first line is the value of Content-Encoding, the rest is the body; its first byte says where
 * that is cut. */
#include <errno.h>

#include "fuzz.h"

#include "base/text/buf.h"
#include "egress/scan/coding.h"

#define OUT_MAX ((size_t)64 << 20)

static int keep(void *context, char *p, size_t n, struct err *e)
{
	struct buf *out = context;

	(void)e;
	buf_add(out, p, n);
	return out->failed ? -EFBIG : 0;
}

static int decode(const struct codings *c, const char *p, size_t n, size_t cut, struct buf *out)
{
	CLEANUP(decoder) struct decoder *d = NULL;
	struct err e = { 0 };
	int r;

	require(decoder_new(c, &d, &e) == 0);
	r = decoder_feed(d, p, cut, false, keep, out, &e);
	if (r == 0)
		r = decoder_feed(d, p + cut, n - cut, true, keep, out, &e);
	require(r <= 0 && (r == 0 || r == -EBADMSG || r == -EFBIG));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *end = size ? memchr(text, '\n', size) : NULL;
	struct buf whole = BUF_INIT(OUT_MAX), parts = BUF_INIT(OUT_MAX);
	struct codings c = { 0 };
	size_t head = end ? (size_t)(end - text) : size, n;
	int r;

	if (coding_parse(egress_text(text, head), &c) < 0 || !end)
		return 0;
	require(c.n <= CODING_DEPTH);
	text = end + 1;
	n = size - head - 1;
	r = decode(&c, text, n, 0, &whole);
	require(decode(&c, text, n, n ? (uint8_t)text[0] % (n + 1) : 0, &parts) == r);
	require(r < 0 || (whole.len == parts.len &&
			  (!whole.len || memcmp(whole.data, parts.data, whole.len) == 0)));
	require(c.n || r < 0 || whole.len == n);
	buf_done(&whole);
	buf_done(&parts);
	return 0;
}
