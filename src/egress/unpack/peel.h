/* SPDX-License-Identifier: Apache-2.0 */
/* egress/unpack/peel.h - one body, unpacked as it comes: what it is packed in, what that holds,
 * and so on, bounded.
 *
 * Told is every text that came out of a library; what an archive holds as it is stands in a text
 * that was told already. Runs in the unpacker alone. */
#pragma once

#include <stdint.h>

#include "base/text/cleanup.h"
#include "egress/unpack/codec.h"

enum { PEEL_CODINGS = 3, PEEL_DEPTH = 4 };

/* Of one body, however many parts of it are unpacked. */
struct peel_spent {
	uint64_t in, out, us; /* bytes read, bytes told, time of the processor */
};

/* The text at this depth, which counts from 1: begins, goes on, is over. */
struct peel_piece {
	unsigned depth;
	bool begins, ends;
	enum content_class is; /* as it begins */
	const char *p;
	size_t n;
};

/* -errno stops everything. */
typedef int peel_told(void *arg, const struct peel_piece *piece);

struct peel_want {
	enum packed_as codings[PEEL_CODINGS]; /* outermost first: somebody says so */
	unsigned n_codings;
	unsigned depth; /* around the body already */
	struct codec_pool *memory;
};

struct peel;
struct peel *peel_new(const struct peel_want *w);
struct peel *peel_free(struct peel *e);
DEFINE_CLEANUP(peel, struct peel *, peel_free)

/* -EBADMSG: a coding that was said is broken; -EFBIG: it swells; -ENOMEM: it wants too much memory;
 * what was not said and cannot be read is no error. Or what `told` returned. */
int peel_feed(struct peel *e, const char *p, size_t n, bool last, struct peel_spent *spent,
	      peel_told *told, void *arg);
enum unreadable peel_unreadable(const struct peel *e);
bool peel_idle(const struct peel *e); /* nothing of what may come is read */
