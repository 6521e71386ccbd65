/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/sha1.h"

#include <string.h>

static inline uint32_t sha1_turn(uint32_t v, unsigned n)
{
	return v << n | v >> (32 - n);
}

static inline uint32_t sha1_load(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* What is added in a round, and how the state's words are mixed in it. */
static inline uint32_t mix(unsigned i, uint32_t b, uint32_t c, uint32_t d)
{
	if (i < 20)
		return ((b & c) | (~b & d)) + 0x5a827999;
	if (i < 40)
		return (b ^ c ^ d) + 0x6ed9eba1;
	if (i < 60)
		return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
	return (b ^ c ^ d) + 0xca62c1d6;
}

static void sha1_take(struct sha1 *h, const unsigned char *p)
{
	uint32_t a = h->state[0], b = h->state[1], c = h->state[2], d = h->state[3],
		 e = h->state[4], w[80];

	for (unsigned i = 0; i < 80; i++) {
		uint32_t now;

		if (i < 16)
			w[i] = sha1_load(p + 4 * (size_t)i);
		else
			w[i] = sha1_turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
		now = sha1_turn(a, 5) + mix(i, b, c, d) + e + w[i];
		e = d;
		d = c;
		c = sha1_turn(b, 30);
		b = a;
		a = now;
	}
	h->state[0] += a;
	h->state[1] += b;
	h->state[2] += c;
	h->state[3] += d;
	h->state[4] += e;
}

void sha1_init(struct sha1 *h)
{
	*h = (struct sha1){ .state = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
				       0xc3d2e1f0 } };
}

void sha1_add(struct sha1 *h, const void *p, size_t n)
{
	const unsigned char *from = p;

	while (n) {
		size_t at = h->length % sizeof(h->block), room = sizeof(h->block) - at,
		       some = n < room ? n : room;

		memcpy(h->block + at, from, some);
		h->length += some;
		from += some;
		n -= some;
		if (some == room)
			sha1_take(h, h->block);
	}
}

void sha1_end(struct sha1 *h, unsigned char out[SHA1_SIZE])
{
	static const unsigned char end = 0x80, none[64] = { 0 };
	uint64_t bits = h->length * 8;
	unsigned char size[8];

	for (unsigned i = 0; i < 8; i++)
		size[i] = (unsigned char)(bits >> (56 - 8 * i));
	sha1_add(h, &end, 1);
	sha1_add(h, none, (size_t)((120 - h->length % 64) % 64)); /* up to the last eight bytes */
	sha1_add(h, size, sizeof(size));
	for (unsigned i = 0; i < SHA1_SIZE; i++)
		out[i] = (unsigned char)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}
