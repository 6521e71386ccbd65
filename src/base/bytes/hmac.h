/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/hmac.h - HMAC-SHA256 (RFC 2104) with the key's two blocks hashed once. */
#pragma once

#include <stdbool.h>

#include "base/bytes/sha256.h"

struct hmac_key {
	struct sha256 inner, outer; /* each after its block */
};

struct hmac {
	struct sha256 h;
	const struct hmac_key *k; /* borrowed */
};

void hmac_key_init(struct hmac_key *k, const void *key, size_t n);
void hmac_sha256(const struct hmac_key *k, const void *p, size_t n, unsigned char out[SHA256_SIZE]);
/* The same in pieces. */
void hmac_begin(struct hmac *m, const struct hmac_key *k);
void hmac_add(struct hmac *m, const void *p, size_t n);
void hmac_end(struct hmac *m, unsigned char out[SHA256_SIZE]);

/* Compares without telling by its time where two differ. */
bool hmac_equal(const unsigned char a[SHA256_SIZE], const unsigned char b[SHA256_SIZE]);
