/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/scan/coding.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "egress/rules/request_head.h"

/* zlib's best case is 1032 to 1; more than that in all means codings within codings. */
#define SWELL_RATIO 1100
#define SWELL_FREE ((uint64_t)8 << 20)
#define OUT_CHUNK 16384

enum stage_state { STAGE_NEW, STAGE_RUNNING, STAGE_BETWEEN, STAGE_DONE };

struct stage {
	enum coding coding;
	enum stage_state state;
	bool open; /* z is */
	z_stream z;
	char first; /* of deflate: the byte that shows, with the next, which of two forms it is */
	bool has_first;
};

struct decoder {
	struct stage stages[CODING_DEPTH];
	unsigned n;
	uint64_t in, out;
	uint64_t call_in, call_out; /* of the call at hand */
	decoder_sink *sink;
	void *context;
	char chunk[CODING_DEPTH][OUT_CHUNK];
};

/* --- names --- */

static int coding_by_name(struct egress_text t)
{
	static const struct {
		const char *name;
		enum coding coding;
	} names[] = {
		{ "identity", CODING_IDENTITY },
		{ "gzip", CODING_GZIP },
		{ "x-gzip", CODING_GZIP },
		{ "deflate", CODING_DEFLATE },
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
		if (coding != CODING_IDENTITY) {
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

int decoder_new(const struct codings *c, struct decoder **ret, struct err *e)
{
	CLEANUP(decoder) struct decoder *d = calloc(1, sizeof(*d));

	if (!d)
		return err_nomem(e);
	/* Applied first to last, so undone last to first. */
	for (unsigned i = 0; c && i < c->n; i++)
		d->stages[i].coding = (enum coding)c->v[c->n - 1 - i];
	d->n = c ? c->n : 0;
	*ret = TAKE_PTR(d);
	return 0;
}

struct decoder *decoder_free(struct decoder *d)
{
	for (unsigned i = 0; d && i < d->n; i++)
		if (d->stages[i].open)
			(void)inflateEnd(&d->stages[i].z);
	free(d);
	return NULL;
}

static int coding_broken(struct err *e)
{
	return err_set(e, ERR_INTERNAL, EBADMSG, "a body whose content coding is broken");
}

static int open_stage(struct stage *s, int window, struct err *e)
{
	if (inflateInit2(&s->z, window) != Z_OK)
		return err_nomem(e);
	s->open = true;
	s->state = STAGE_RUNNING;
	return 0;
}

static int feed_stage(struct decoder *d, unsigned i, const char *p, size_t n, struct err *e);

static int coding_give(struct decoder *d, unsigned i, char *p, size_t n, struct err *e)
{
	if (!n)
		return 0;
	if (i + 1 < d->n)
		return feed_stage(d, i + 1, p, n, e);
	d->out += n;
	d->call_out += n;
	if ((d->out > SWELL_FREE && d->out / SWELL_RATIO > d->in) ||
	    (d->call_out > SWELL_FREE && d->call_out / SWELL_RATIO > d->call_in))
		return err_set(e, ERR_INTERNAL, EFBIG, "a body that swells beyond measure");
	return d->sink(d->context, p, n, e);
}

static int inflate_all(struct decoder *d, unsigned i, const char *p, size_t n, struct err *e)
{
	struct stage *s = &d->stages[i];

	s->z.next_in = (Bytef *)(uintptr_t)p;
	s->z.avail_in = (uInt)n;
	for (;;) {
		int r, given;

		s->z.next_out = (Bytef *)d->chunk[i];
		s->z.avail_out = OUT_CHUNK;
		r = inflate(&s->z, Z_NO_FLUSH);
		if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
			return coding_broken(e);
		given = coding_give(d, i, d->chunk[i], OUT_CHUNK - s->z.avail_out, e);
		if (given < 0)
			return given;
		if (r == Z_STREAM_END) {
			s->state = s->coding == CODING_GZIP ? STAGE_BETWEEN : STAGE_DONE;
			if (!s->z.avail_in)
				return 0;
			/* gzip may have further members; deflate has nothing more to say */
			if (s->state == STAGE_DONE || inflateReset(&s->z) != Z_OK)
				return coding_broken(e);
			s->state = STAGE_RUNNING;
		} else if (s->z.avail_out) {
			return 0;
		}
	}
}

/* "deflate" is zlib's format by the book and bare deflate in practice: the first two bytes tell. */
static int start_deflate(struct decoder *d, unsigned i, const char **p, size_t *n, struct err *e)
{
	struct stage *s = &d->stages[i];
	unsigned a, b;
	int window;

	if (!s->has_first) {
		s->first = **p;
		s->has_first = true;
		(*p)++;
		(*n)--;
	}
	if (!*n)
		return 0;
	a = (unsigned char)s->first;
	b = (unsigned char)**p;
	window = (a & 15) == 8 && (a * 256 + b) % 31 == 0 ? 15 : -15;
	if (open_stage(s, window, e) < 0)
		return -e->code;
	return inflate_all(d, i, &s->first, 1, e);
}

static int feed_stage(struct decoder *d, unsigned i, const char *p, size_t n, struct err *e)
{
	struct stage *s = &d->stages[i];
	int r = 0;

	if (n && s->state == STAGE_DONE)
		return coding_broken(e);
	if (n && s->state == STAGE_BETWEEN) {
		if (inflateReset(&s->z) != Z_OK)
			return coding_broken(e);
		s->state = STAGE_RUNNING;
	}
	if (n && s->state == STAGE_NEW)
		r = s->coding == CODING_GZIP ? open_stage(s, 15 + 16, e)
					     : start_deflate(d, i, &p, &n, e);
	return r < 0 || !n ? r : inflate_all(d, i, p, n, e);
}

int decoder_feed(struct decoder *d, const char *p, size_t n, bool last, decoder_sink *sink,
		 void *context, struct err *e)
{
	d->sink = sink;
	d->context = context;
	d->in += n;
	d->call_in = n;
	d->call_out = 0;
	while (n) {
		/* zlib counts in 32 bits */
		size_t take = n > (1U << 30) ? 1U << 30 : n;
		int r = d->n ? feed_stage(d, 0, p, take, e)
			     : sink(context, (char *)(uintptr_t)p, take, e);

		if (r < 0)
			return r;
		p += take;
		n -= take;
	}
	for (unsigned i = 0; last && i < d->n; i++)
		/* No byte at all is an empty body, whatever the head said. */
		if (d->in && d->stages[i].state != STAGE_BETWEEN &&
		    d->stages[i].state != STAGE_DONE)
			return coding_broken(e);
	return 0;
}
