/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/sha256_block.h - the ways to hash whole blocks, for sha256.c and its test. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef void sha256_block_fn(uint32_t state[8], const unsigned char *p, size_t blocks);

extern const uint32_t sha256_k[64];

void sha256_blocks_portable(uint32_t state[8], const unsigned char *p, size_t blocks);

/* What this processor has instructions for; NULL: it has none. */
sha256_block_fn *sha256_blocks_hardware(void);
