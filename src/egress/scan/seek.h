/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/seek.h - the forms of known secrets in a stream, faster than any matcher of many literals.
 *
 * Secrets are long, so not every byte needs a look: with forms of m bytes and more, twelve bytes at
 * every (m - 11)th place decide whether one can be near. What a look costs does not depend on the
 * secrets. Pure and without state: the caller keeps the bytes that came before. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/rules/host.h"
#include "egress/scan/secret.h"

struct seek;

/* Allocated in the arena; the needles are borrowed. */
int seek_new(struct arena *a, const struct needles *n, struct seek **ret, struct err *e);

/* A needle ends `end` bytes into data. false: stop. */
typedef bool seek_fn(void *context, const struct needle *n, ptrdiff_t end);

/* Names every needle that ends in data, which begins at offset `at` of the stream. `before` are the
 * bytes in front of it: what a needle that ends here could begin with must be among them. false
 * when fn said stop. */
bool seek_feed(const struct seek *s, int64_t at, struct egress_text before, const char *data,
	       size_t n, seek_fn *fn, void *context);
