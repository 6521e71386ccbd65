/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/coding.h - content codings the door can read: gzip and deflate, up to three deep.
 *
 * Streaming and bounded: a stream that swells beyond 1000 times what came in (past the first MiB)
 * is refused. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "egress/rules/host.h"

#define CODING_DEPTH 3

/* The value of Content-Encoding, outermost last, as read by coding_parse. */
struct codings {
	unsigned char v[CODING_DEPTH];
	unsigned n;
};

enum coding { CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE };

/* 0, or -EOPNOTSUPP for a coding the door cannot read and for more than three. NULL text: none. */
int coding_parse(struct egress_text value, struct codings *ret);

struct decoder;
int decoder_new(const struct codings *c, struct decoder **ret, struct err *e);
struct decoder *decoder_free(struct decoder *d);
DEFINE_CLEANUP(decoder, struct decoder *, decoder_free)

typedef int decoder_sink(void *context, char *p, size_t n, struct err *e);

/* Decodes n bytes and calls the sink, any number of times. -EBADMSG: broken; -EFBIG: it swells; or
 * what the sink returned. With `last` the coding must be complete. */
int decoder_feed(struct decoder *d, const char *p, size_t n, bool last, decoder_sink *sink,
		 void *context, struct err *e);
