/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/sha1.h - SHA-1 (FIPS 180-4), which Java's key stores end with; good for nothing else.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA1_SIZE = 20 };

struct sha1 {
	uint32_t state[5];
	uint64_t length; /* bytes so far */
	unsigned char block[64];
};

void sha1_init(struct sha1 *h);
void sha1_add(struct sha1 *h, const void *p, size_t n);
void sha1_end(struct sha1 *h, unsigned char out[SHA1_SIZE]);
