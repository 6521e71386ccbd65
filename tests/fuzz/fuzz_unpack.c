/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_unpack.c - a body that is packed in whatever its bytes say: however it is cut, the same
 * texts come out and the same is said of it, and what it makes and takes is bounded.
 *
 * The first byte says where it is cut. */
#include <errno.h>

#include "fuzz.h"

#include "base/text/buf.h"
#include "egress/unpack/peel.h"

#define OUT_MAX ((size_t)64 << 20)
#define MEMORY ((size_t)64 << 20)

struct unpacked {
	struct buf texts[PEEL_DEPTH + 1];
	bool open[PEEL_DEPTH + 1];
};

static int keep(void *context, const struct peel_piece *piece)
{
	struct unpacked *u = context;

	require(piece->depth >= 1 && piece->depth <= PEEL_DEPTH);
	require(piece->begins != u->open[piece->depth]);
	require(piece->n || piece->ends);
	u->open[piece->depth] = !piece->ends;
	buf_add(&u->texts[piece->depth], piece->p, piece->n);
	if (piece->ends)
		buf_putc(&u->texts[piece->depth], '|');
	return u->texts[piece->depth].failed ? -ECANCELED : 0;
}

static enum unreadable read_all(const char *p, size_t n, size_t cut, struct unpacked *u, int *r)
{
	struct codec_pool memory = { .most = MEMORY };
	struct peel_want w = { .memory = &memory };
	struct peel_spent spent = { 0 };
	struct peel *e = peel_new(&w);
	enum unreadable why;

	require(e != NULL);
	for (unsigned i = 1; i <= PEEL_DEPTH; i++)
		u->texts[i] = (struct buf)BUF_INIT(OUT_MAX);
	*r = peel_feed(e, p, cut, false, &spent, keep, u);
	if (*r == 0)
		*r = peel_feed(e, p + cut, n - cut, true, &spent, keep, u);
	require(*r == 0 || *r == -ECANCELED);
	for (unsigned i = 1; *r == 0 && i <= PEEL_DEPTH; i++)
		require(!u->open[i]);
	why = peel_unreadable(e);
	require(spent.out <= (uint64_t)8 << 20 || spent.out / 1200 <= spent.in);
	(void)peel_free(e);
	require(memory.used == 0);
	return why;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct unpacked whole = { 0 }, parts = { 0 };
	enum unreadable a, b;
	int r, s;

	if (!size)
		return 0;
	size--;
	text++;
	a = read_all(text, size, 0, &whole, &r);
	b = read_all(text, size, data[0] % (size + 1), &parts, &s);
	/* What was told until a bound was met depends on the pieces. */
	if (!a && !b) {
		require(r == s);
		for (unsigned i = 1; i <= PEEL_DEPTH; i++)
			require(whole.texts[i].len == parts.texts[i].len &&
				(!whole.texts[i].len ||
				 memcmp(whole.texts[i].data, parts.texts[i].data,
					whole.texts[i].len) == 0));
	}
	for (unsigned i = 1; i <= PEEL_DEPTH; i++) {
		buf_done(&whole.texts[i]);
		buf_done(&parts.texts[i]);
	}
	return 0;
}
