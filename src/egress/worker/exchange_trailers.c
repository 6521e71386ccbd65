/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange_trailers.c - fields behind a body, in either direction: they go through
 * what those before it go through, and none of them is about framing, routes or logins. */
#include <string.h>

#include "base/text/cleanup.h"
#include "egress/worker/exchange_internal.h"
#include "wire/http1_internal.h"

/* What a server could take for a part of the head is left out: that was judged without it. */
static bool may_trail(const struct http1_field *f)
{
	switch (f->is) {
	case HTTP1_NAME_AUTHORIZATION:
	case HTTP1_NAME_COOKIE:
	case HTTP1_NAME_SET_COOKIE:
	case HTTP1_NAME_CONTENT_TYPE:
	case HTTP1_NAME_CONTENT_ENCODING:
	case HTTP1_NAME_RANGE:
	case HTTP1_NAME_IF_RANGE:
		return false;
	default:
		return exchange_passes(f);
	}
}

/* The next line that may pass; false: there is none. */
static bool next_trailer(struct http1_text *lines, struct http1_field *f)
{
	const char *at = lines->p, *end = lines->n ? at + lines->n : at;
	struct http1_text line;

	while (at < end && http1_take_line(&at, end, &line)) {
		*lines = (struct http1_text){ at, (size_t)(end - at) };
		if (http1_field_line(line, f) && may_trail(f))
			return true;
	}
	return false;
}

static void add_trailer(struct buf *b, struct egress_text name, struct egress_text value)
{
	buf_add(b, name.p, name.n);
	buf_puts(b, ": ");
	buf_add(b, value.p, value.n);
	buf_puts(b, "\r\n");
}

bool exchange_trailers_up(struct exchange *x, struct http1_text lines, struct buf *out,
			  struct egress_verdict *v)
{
	CLEANUP(arena) struct arena *arena = arena_new(HEAD_ROOM);
	struct egress_head h = { .arena = arena,
				 .method = egress_text("", 0),
				 .target = egress_text("/", 1) };
	struct http1_field f;

	if (!arena)
		return verdict_deny(v, EGRESS_INTERNAL, NULL, "no memory");
	while (next_trailer(&lines, &f))
		if (h.n_fields < HEAD_FIELDS_MAX &&
		    (!x->narrow ||
		     egress_field_passes(x->k->rules, &x->t.v.host, exchange_text(f.name))))
			h.fields[h.n_fields++] = (struct egress_field){ exchange_text(f.name),
									exchange_text(f.value) };
	if (x->k->scanner && !scan_head(x->k->scanner, SCAN_OUT, &h, v))
		return false;
	for (size_t i = 0; i < h.n_fields; i++)
		add_trailer(out, h.fields[i].name, h.fields[i].value);
	return rate_sent(x->k->rate, out->len, v);
}

void exchange_trailers_down(struct exchange *x, struct http1_text lines, struct buf *out)
{
	struct http1_field f;

	while (next_trailer(&lines, &f)) {
		exchange_scrubbed(x, out, f.name);
		buf_puts(out, ": ");
		exchange_scrubbed(x, out, f.value);
		buf_puts(out, "\r\n");
	}
	if (out->len && !out->failed)
		look_at(x, out->data, out->len, false);
}
