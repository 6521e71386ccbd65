/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/sha256.h"

#include <stdatomic.h>
#include <string.h>

#include "base/bytes/hex.h"
#include "base/bytes/sha256_block.h"

const uint32_t sha256_k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotate(uint32_t v, unsigned by)
{
	return v >> by | v << (32 - by);
}

static uint32_t sha256_load(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> (24 - 8 * i));
}

static void expand(uint32_t w[64], const unsigned char *block)
{
	for (int i = 0; i < 16; i++)
		w[i] = sha256_load(block + 4 * (size_t)i);
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
		       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

static void compress(uint32_t state[8], const unsigned char *block)
{
	uint32_t w[64], v[8];

	expand(w, block);
	memcpy(v, state, sizeof(v));
	for (int i = 0; i < 64; i++) {
		uint32_t e = v[4], a = v[0];
		uint32_t one = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
			       ((e & v[5]) ^ (~e & v[6])) + sha256_k[i] + w[i];
		uint32_t two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
			       ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += one;
		v[0] = one + two;
	}
	for (int i = 0; i < 8; i++)
		state[i] += v[i];
}

void sha256_blocks_portable(uint32_t state[8], const unsigned char *p, size_t blocks)
{
	for (; blocks; blocks--, p += 64)
		compress(state, p);
}

/* Chosen at the first use and kept: asking the processor can cost more than hashing. Threads that
 * choose at once choose the same. */
static sha256_block_fn *chosen(void)
{
	static _Atomic(sha256_block_fn *) kept;
	sha256_block_fn *fn = atomic_load_explicit(&kept, memory_order_relaxed);

	if (fn)
		return fn;
	fn = sha256_blocks_hardware();
	if (!fn)
		fn = sha256_blocks_portable;
	atomic_store_explicit(&kept, fn, memory_order_relaxed);
	return fn;
}

void sha256_init(struct sha256 *h)
{
	static const uint32_t first[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	memcpy(h->state, first, sizeof(first));
	h->length = 0;
}

void sha256_add(struct sha256 *h, const void *p, size_t n)
{
	const unsigned char *in = p;
	size_t have = h->length % sizeof(h->block), whole;
	sha256_block_fn *blocks = chosen();

	h->length += n;
	if (have) {
		size_t room = sizeof(h->block) - have, take = n < room ? n : room;

		memcpy(h->block + have, in, take);
		in += take;
		n -= take;
		if (have + take < sizeof(h->block))
			return;
		blocks(h->state, h->block, 1);
	}
	whole = n / sizeof(h->block);
	blocks(h->state, in, whole);
	memcpy(h->block, in + whole * sizeof(h->block), n % sizeof(h->block));
}

void sha256_end(struct sha256 *h, unsigned char out[SHA256_SIZE])
{
	static const unsigned char pad[64] = { 0x80 };
	uint64_t bits = h->length * 8;
	size_t have = h->length % sizeof(h->block);
	unsigned char length[8];

	store(length, (uint32_t)(bits >> 32));
	store(length + 4, (uint32_t)bits);
	sha256_add(h, pad, (have < 56 ? 56 : 120) - have);
	sha256_add(h, length, sizeof(length));
	for (size_t i = 0; i < 8; i++)
		store(out + 4 * i, h->state[i]);
}

void sha256_hex(const unsigned char digest[SHA256_SIZE], char out[SHA256_HEX])
{
	hex_encode(digest, SHA256_SIZE, out);
	out[2 * SHA256_SIZE] = '\0';
}

void sha256_of(const void *p, size_t n, char hex[SHA256_HEX])
{
	unsigned char digest[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, p, n);
	sha256_end(&h, digest);
	sha256_hex(digest, hex);
}
