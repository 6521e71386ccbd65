/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek/seek.h - the forms of known secrets in a stream, faster than any matcher of many
 * literals.
 *
 * Secrets are long, so not every byte needs a look: with forms of m bytes and more, six bytes at
 * every (m - 5)th place decide which ones could be near. What a look costs depends on the text
 * alone, unless at least the last SECRET_SHOWS characters of a value stand in it at once, in one of
 * its forms. One owner, no lock; nothing is remembered from one call to the next: the caller keeps
 * the bytes that came before. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/rules/host.h"
#include "egress/seek/secret.h"

struct seek;

/* Allocated in the arena; the needles are borrowed. */
int seek_new(struct arena *a, const struct needles *n, struct seek **ret, struct err *e);

struct seek_text {
	int64_t at;                /* offset of data in its stream */
	struct egress_text before; /* what stands in front of it, as far as a needle could begin */
	const char *data;
	size_t n;
	bool caseless; /* A and a are one, in every form */
};

/* A needle ends `end` bytes into data. false: stop. */
typedef bool seek_fn(void *context, const struct needle *n, ptrdiff_t end);

/* Names every needle that ends in data. false when fn said stop. */
bool seek_feed(struct seek *s, const struct seek_text *t, seek_fn *fn, void *context);

/* Names those that end behind `from` and up to `to` in data. */
bool seek_part(struct seek *s, const struct seek_text *t, ptrdiff_t from, ptrdiff_t to, seek_fn *fn,
	       void *context);

/* Entries and bytes that were compared so far, for a test that it depends on no secret. */
uint64_t seek_work(const struct seek *s);
