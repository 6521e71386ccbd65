/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/unpack/coding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "egress/rules/request_head.h"

struct decoder {
	struct unpack_body *packed; /* NULL: the body has no coding */
	struct peel_spent spent;
	unsigned depth; /* of what the body says */

	/* of the call at hand */
	decoder_sink *sink;
	void *context;
	struct err *e;

	decoder_deeper *deeper;
	void *deeper_context;
};

/* --- names --- */

static int coding_by_name(struct egress_text t)
{
	static const struct {
		const char *name;
		enum packed_as coding;
	} names[] = {
		{ "identity", PACKING_NONE }, { "gzip", PACKING_GZIP },
		{ "x-gzip", PACKING_GZIP },   { "deflate", PACKING_DEFLATE },
		{ "br", PACKING_BROTLI },     { "zstd", PACKING_ZSTD },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (egress_text_is(t, names[i].name))
			return (int)names[i].coding;
	return -EOPNOTSUPP;
}

static struct egress_text trim(const char *p, size_t n)
{
	while (n && (*p == ' ' || *p == '\t')) {
		p++;
		n--;
	}
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	return egress_text(p, n);
}

int coding_parse(struct egress_text value, struct codings *ret)
{
	struct codings c = { 0 };
	const char *p = value.p, *end = value.p ? value.p + value.n : NULL;

	while (p && p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
		int coding = coding_by_name(trim(p, (size_t)(stop - p)));

		if (coding < 0)
			return coding;
		if (coding != (int)PACKING_NONE) {
			if (c.n == CODING_DEPTH)
				return -EOPNOTSUPP;
			c.v[c.n++] = (unsigned char)coding;
		}
		p = stop + 1;
	}
	*ret = c;
	return 0;
}

/* --- decoding --- */

int decoder_new(struct unpack_side *u, const struct codings *c, struct decoder **ret, struct err *e)
{
	CLEANUP(decoder) struct decoder *d = calloc(1, sizeof(*d));
	struct unpack_want w = { .n_codings = c ? c->n : 0 };

	if (!d)
		return err_nomem(e);
	/* Applied first to last, so undone last to first. */
	for (unsigned i = 0; i < w.n_codings; i++)
		w.codings[i] = (enum packed_as)c->v[c->n - 1 - i];
	d->depth = w.n_codings;
	if (w.n_codings && unpacking_new(u, &w, &d->spent, &d->packed) < 0)
		return err_nomem(e);
	*ret = TAKE_PTR(d);
	return 0;
}

struct decoder *decoder_free(struct decoder *d)
{
	if (d)
		(void)unpacking_free(d->packed);
	free(d);
	return NULL;
}

void decoder_tell(struct decoder *d, decoder_deeper *fn, void *context)
{
	d->deeper = fn;
	d->deeper_context = context;
}

bool decoder_decodes(const struct decoder *d)
{
	return d->packed;
}

enum unreadable decoder_unreadable(const struct decoder *d)
{
	return d->packed ? d->packed->unreadable : UNREADABLE_NOT;
}

static int decoder_told(void *arg, const struct peel_piece *piece, char *p)
{
	struct decoder *d = arg;

	if (piece->depth == d->depth)
		return piece->n ? d->sink(d->context, p, piece->n, d->e) : 0;
	return d->deeper ? d->deeper(d->deeper_context, piece, p, d->e) : 0;
}

static int decoder_failed(int r, struct err *e)
{
	if (r == -EBADMSG)
		return err_set(e, ERR_INTERNAL, EBADMSG, "a body whose content coding is broken");
	if (r == -EFBIG)
		return err_set(e, ERR_INTERNAL, EFBIG, "a body that swells beyond measure");
	if (r == -ENOMEM)
		return err_set(e, ERR_INTERNAL, EFBIG, "a body that takes too much memory to read");
	return err_set(e, ERR_INTERNAL, EPIPE, "nothing reads this body: the unpacker has ended");
}

int decoder_feed(struct decoder *d, const char *p, size_t n, bool last, decoder_sink *sink,
		 void *context, struct err *e)
{
	int r;

	if (!d->packed)
		return n ? sink(context, (char *)(uintptr_t)p, n, e) : 0;
	d->sink = sink;
	d->context = context;
	d->e = e;
	e->code = 0;
	r = unpacking_feed(d->packed, p, n, last, decoder_told, d);
	/* What the sink returned is its own, with its own words. */
	return r == 0 || e->code || r == -EPERM || r == -ECANCELED ? r : decoder_failed(r, e);
}
