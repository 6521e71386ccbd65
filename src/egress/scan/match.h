/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/match.h - some dozens of literals found in a stream, however it is cut: vectorscan.
 *
 * Literals alone, since that is the fast half of vectorscan: 4 GB/s a core and 2 ms to compile,
 * against 2.5 and 35 for the same shapes as expressions. What follows a literal is looked at by the
 * caller. A matcher belongs to one thread. This is the only file that knows vectorscan. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"

struct literal {
	const char *p;
	size_t n;
	bool caseless;
};

struct matcher;
struct match_stream;

int matcher_new(const struct literal *l, size_t n, struct matcher **ret, struct err *e);
struct matcher *matcher_share(struct matcher *m); /* freed once more often */
struct matcher *matcher_free(struct matcher *m);
DEFINE_CLEANUP(matcher, struct matcher *, matcher_free)

/* The i-th literal ends before byte `end` of the stream. false: stop, enough was seen. */
typedef bool match_fn(void *context, size_t i, uint64_t end);

int match_open(struct matcher *m, struct match_stream **ret, struct err *e);
struct match_stream *match_close(struct match_stream *s); /* takes NULL; returns NULL */
DEFINE_CLEANUP(match_stream, struct match_stream *, match_close)

void match_reset(struct match_stream *s); /* as if it had just been opened */

/* 0, 1 when fn said stop, or -EIO: the matcher failed and nothing may pass. */
int match_feed(struct match_stream *s, const char *p, size_t n, match_fn *fn, void *context);
