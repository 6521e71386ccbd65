/* SPDX-License-Identifier: Apache-2.0 */
/* egress/unpack/unpack_side.h - the worker's side of the unpacker.
 *
 * Every call waits for its answer, as one into a library would. An unpacker that ends, hangs or
 * says what it must not is gone: what was to be read of a body then is unreadable, and the run goes
 * on. One thread. */
#pragma once

#include "base/text/err.h"
#include "egress/unpack/unpack_line.h"

struct unpack_side; /* the line to the process; one a worker */

/* Forks it: before there is anything that it must not know. */
int unpack_start(struct unpack_side **ret, struct err *e);
struct unpack_side *unpack_on(int line); /* somebody else's; takes it. NULL: no memory */
struct unpack_side *unpack_free(struct unpack_side *u);
DEFINE_CLEANUP(unpack, struct unpack_side *, unpack_free)

/* A body on its way through. */
struct unpack_body {
	struct unpack_side *u;
	uint32_t stream;
	struct peel_spent *spent;   /* of the whole body */
	enum unreadable unreadable; /* some of it, and why */
	bool idle;                  /* it is nothing packed: no need to feed it */
};

struct unpack_want {
	enum packed_as codings[PEEL_CODINGS]; /* outermost first */
	unsigned n_codings, depth;
};

/* It may fail by being unreadable at once. -ENOMEM alone is an error. */
int unpacking_new(struct unpack_side *u, const struct unpack_want *w, struct peel_spent *spent,
		  struct unpack_body **ret);
struct unpack_body *unpacking_free(struct unpack_body *s);
DEFINE_CLEANUP(unpacking, struct unpack_body *, unpacking_free)

/* The texts in it, as far as they are out. 0, what `told` returned, or what peel_feed says of a
 * coding that somebody named; -EPIPE: the unpacker is gone, of such a coding. */
typedef int unpacking_told(void *arg, const struct peel_piece *piece, char *p);
int unpacking_feed(struct unpack_body *s, const char *p, size_t n, bool last, unpacking_told *told,
		   void *arg);
