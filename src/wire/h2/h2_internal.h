/* SPDX-License-Identifier: Apache-2.0 */
/* wire/h2/h2_internal.h - the parts of h2.h, for one another: heads between the form of HTTP/1 and
 * fields. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "wire/h2/h2.h"

enum { H2_FIELDS_MAX = HTTP1_FIELDS_MAX + 8 };

/* ---- a head that comes ---- */

void h2_head_start(struct h2_stream *s);
/* false: it cannot be one of HTTP/1, or is too long. */
bool h2_head_field(struct h2_stream *s, struct http1_text name, struct http1_text value);
/* It is whole: to the others, as HTTP/1 writes it. false: no memory, or too much of it. */
bool h2_head_end(struct h2_stream *s, bool request, bool last);

/* ---- fields that go ---- */

struct h2_fields {
	nghttp2_nv v[H2_FIELDS_MAX];
	size_t n, used;
	char names[16384]; /* in small letters */
	char status[HTTP1_DIGITS];
	bool lost; /* there was no room for one */
};

/* The rest of it is only what was put. */
static inline void h2_fields_init(struct h2_fields *f)
{
	f->n = f->used = 0;
	f->lost = false;
}

void h2_fields_status(struct h2_fields *f, int status);
void h2_fields_of(struct h2_fields *f, struct http1_text lines);
bool h2_fields_of_request(struct h2_fields *f, struct http1_text head);
