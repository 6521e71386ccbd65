/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/fetch.h - bundles of registries: brig-registry speaks with those, and is not
 * believed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/err.h"
#include "image/ref.h"

#define BUNDLE_ARTIFACT "application/vnd.brig.bundle.v1"
#define BUNDLE_LAYER "application/vnd.initrunner.role.v1.tar+gzip"
#define BUNDLE_SIGNATURE "application/vnd.brig.bundle.signature.v1"

struct fetch_want {
	struct ref ref;
	bool plain;    /* HTTP without TLS */
	bool progress; /* on stderr, a terminal */
	uint64_t timeout_ms;
};

/* Memory files; -1: there is none. */
struct sealed {
	int archive, signature;
	char reference[REF_DIGEST_MAX]; /* digest of the registry's manifest */
};

#define SEALED_NONE                                                                                \
	{                                                                                          \
		.archive = -1, .signature = -1                                                     \
	}
void sealed_done(struct sealed *c);
static inline void cleanup_sealed(struct sealed *c)
{
	sealed_done(c);
}

/* What comes back has the digests that the registry's manifest says, which has the one of the
 * reference. */
int fetch_pull(const struct fetch_want *w, struct sealed *ret, struct err *e);
/* Fills `reference`. */
int fetch_push(const struct fetch_want *w, struct sealed *c, struct err *e);

/* All of a file that may be a pipe, sealed in memory; at most so much. */
int sealed_make(int from, uint64_t most, const char *name, int *ret, struct err *e);
/* Its digest, with "sha256:", and its size. */
int sealed_digest(int fd, char out[REF_DIGEST_MAX], uint64_t *size, struct err *e);
