/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_coding.c - a body that a server says is compressed: however it is cut, the same text
 * comes out, or none, and it cannot swell without bound.
 *
 * The first line is the value of Content-Encoding, the rest is the body; its first byte says where
 * that is cut. */
#include <errno.h>

#include "fuzz.h"

#include "base/text/buf.h"
#include "egress/unpack/coding.h"

#define OUT_MAX ((size_t)64 << 20)

struct decoded {
	struct buf *out;
	unsigned depth;
};

static int keep(void *context, const struct peel_piece *piece)
{
	const struct decoded *d = context;

	if (piece->depth == d->depth)
		buf_add(d->out, piece->p, piece->n);
	return d->out->failed ? -ECANCELED : 0;
}

/* As egress/unpack/coding.c asks the unpacker for it. */
static int decode(const struct codings *c, const char *p, size_t n, size_t cut, struct buf *out)
{
	struct codec_pool memory = { .most = (size_t)64 << 20 };
	struct peel_want w = { .n_codings = c->n, .memory = &memory };
	struct decoded d = { out, c->n };
	struct peel_spent spent = { 0 };
	struct peel *e;
	int r;

	for (unsigned i = 0; i < c->n; i++)
		w.codings[i] = (enum packed_as)c->v[c->n - 1 - i];
	require((e = peel_new(&w)) != NULL);
	r = peel_feed(e, p, cut, false, &spent, keep, &d);
	if (r == 0)
		r = peel_feed(e, p + cut, n - cut, true, &spent, keep, &d);
	require(r == 0 || r == -EBADMSG || r == -EFBIG || r == -ENOMEM || r == -ECANCELED);
	(void)peel_free(e);
	require(memory.used == 0);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *end = size ? memchr(text, '\n', size) : NULL;
	struct buf whole = BUF_INIT(OUT_MAX), parts = BUF_INIT(OUT_MAX);
	struct codings c = { 0 };
	size_t head = end ? (size_t)(end - text) : size, n;
	int r;

	if (coding_parse(egress_text(text, head), &c) < 0 || !end || !c.n)
		return 0;
	require(c.n <= CODING_DEPTH);
	text = end + 1;
	n = size - head - 1;
	r = decode(&c, text, n, 0, &whole);
	require(decode(&c, text, n, n ? (uint8_t)text[0] % (n + 1) : 0, &parts) == r);
	require(r < 0 || (whole.len == parts.len &&
			  (!whole.len || memcmp(whole.data, parts.data, whole.len) == 0)));
	buf_done(&whole);
	buf_done(&parts);
	return 0;
}
