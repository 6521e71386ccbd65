/* SPDX-License-Identifier: Apache-2.0 */
/* egress/unpack/coding.h - content codings the door can read, up to three deep.
 *
 * The unpacker undoes them; what swells beyond 1,100 times what came in (past the first 8 MiB) is
 * refused. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "egress/rules/host.h"
#include "egress/unpack/unpack_side.h"

#define CODING_DEPTH PEEL_CODINGS

/* The value of Content-Encoding, outermost last, as read by coding_parse. */
struct codings {
	unsigned char v[CODING_DEPTH]; /* enum packed_as */
	unsigned n;
};

/* 0, or -EOPNOTSUPP for a coding the door cannot read and for more than three. NULL text: none. */
int coding_parse(struct egress_text value, struct codings *ret);

struct decoder;
int decoder_new(struct unpack_side *u, const struct codings *c, struct decoder **ret,
		struct err *e);
struct decoder *decoder_free(struct decoder *d);
DEFINE_CLEANUP(decoder, struct decoder *, decoder_free)

typedef int decoder_sink(void *context, char *p, size_t n, struct err *e);

/* Decodes n bytes and calls the sink, any number of times. -EBADMSG: broken; -EFBIG: it swells;
 * -EPIPE: nobody reads it; or what the sink returned. With `last` the coding must be complete. */
int decoder_feed(struct decoder *d, const char *p, size_t n, bool last, decoder_sink *sink,
		 void *context, struct err *e);

/* What the decoded text is packed in is unpacked as well, and told here. */
typedef int decoder_deeper(void *context, const struct peel_piece *piece, char *p, struct err *e);
void decoder_tell(struct decoder *d, decoder_deeper *fn, void *context);
bool decoder_decodes(const struct decoder *d);               /* false: the body has no coding */
enum unreadable decoder_unreadable(const struct decoder *d); /* of that */
