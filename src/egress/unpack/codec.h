/* SPDX-License-Identifier: Apache-2.0 */
/* egress/unpack/codec.h - one stream of one way of packing, undone by its library.
 *
 * What a library allocates is counted in a pool, and refused beyond what the pool has. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "egress/unpack/packing.h"

struct codec_pool {
	size_t used, most;
	struct codec_pool *of; /* counted there as well; NULL: nowhere */
};

struct codec;

struct codec_io {
	const char *in;
	size_t in_n;
	char *out;
	size_t room, out_n; /* for this much; written now */
};

enum { CODEC_GOES, CODEC_ENDS };

/* NULL: no memory. */
struct codec *codec_new(enum packed_as k, struct codec_pool *pool);
struct codec *codec_free(struct codec *c);

/* Takes from io->in and writes to io->out. CODEC_GOES: again with more room if all was filled, else
 * with more input; CODEC_ENDS: what is left of the input is behind its end; -EBADMSG; -ENOMEM. */
int codec_step(struct codec *c, struct codec_io *io);
