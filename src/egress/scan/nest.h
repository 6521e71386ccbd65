/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/nest.h - is there a secret in what a body holds packed?
 *
 * Recognised by content: at the start of a body, of a part of a multipart one, of a run of base64
 * in a text, and of whatever is unpacked. Every text that comes out is scanned; nothing is
 * rewritten. One judge a body, one thread. */
#pragma once

#include "egress/scan/scan.h"
#include "egress/unpack/unpack_side.h"

struct nest;

struct nest_want {
	struct scanner *scanner;
	struct unpack_side *unpack;
	/* SCAN_OUT: shapes and values; SCAN_IN: values, which are stopped here. */
	enum scan_direction direction;
};

int nest_new(const struct nest_want *w, struct nest **ret, struct err *e);
struct nest *nest_free(struct nest *n);
DEFINE_CLEANUP(nest, struct nest *, nest_free)

/* The body as it is, which somebody else scans. false: *v says what was found. */
bool nest_feed(struct nest *n, const char *p, size_t len, bool last, struct egress_verdict *v);
/* A text that was unpacked elsewhere. */
bool nest_piece(struct nest *n, const struct peel_piece *piece, char *p, struct egress_verdict *v);
/* For scan_packed: runs of base64 in the body's own text. */
bool nest_run(void *nest, const char *p, size_t len, bool ends, struct egress_verdict *v);

/* What was found meanwhile, once nothing of the above is at work. */
bool nest_settle(struct nest *n, struct egress_verdict *v);

bool nest_packed(const struct nest *n); /* something was */
enum unreadable nest_unreadable(const struct nest *n);
