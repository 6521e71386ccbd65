/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/sha256.h - SHA-256 (FIPS 180-4), for digests of our own files; OpenSSL is not linked
 * here.
 *
 * Not for secrets: nothing is wiped, and no promise is made about timing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA256_SIZE = 32, SHA256_HEX = 2 * SHA256_SIZE + 1 /* with the NUL */ };

struct sha256 {
	uint32_t state[8];
	uint64_t length; /* bytes so far */
	unsigned char block[64];
};

void sha256_init(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *p, size_t n);
void sha256_end(struct sha256 *h, unsigned char out[SHA256_SIZE]);
void sha256_hex(const unsigned char digest[SHA256_SIZE], char out[SHA256_HEX]);
void sha256_of(const void *p, size_t n, char hex[SHA256_HEX]); /* all of it in one call */
