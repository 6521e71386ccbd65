/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/md5.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const uint32_t sines[64] = {
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613,
	0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193,
	0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d,
	0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
	0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122,
	0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
	0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244,
	0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
	0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb,
	0xeb86d391
};

static inline uint32_t md5_turn(uint32_t v, unsigned n)
{
	return v << n | v >> (32 - n);
}

static inline uint32_t md5_load(const unsigned char *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* How the state's words are mixed in a round, and which word of the block is added. */
static inline uint32_t mix(unsigned i, uint32_t b, uint32_t c, uint32_t d, unsigned *word)
{
	switch (i / 16) {
	case 0:
		*word = i;
		return (b & c) | (~b & d);
	case 1:
		*word = (5 * i + 1) % 16;
		return (d & b) | (~d & c);
	case 2:
		*word = (3 * i + 5) % 16;
		return b ^ c ^ d;
	default:
		*word = 7 * i % 16;
		return c ^ (b | ~d);
	}
}

static void md5_take(uint32_t state[4], const unsigned char *p)
{
	static const unsigned char turns[4][4] = {
		{ 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 }
	};
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3];

	for (unsigned i = 0; i < 64; i++) {
		unsigned word;
		uint32_t now = a + mix(i, b, c, d, &word) + sines[i];

		now += md5_load(p + 4 * (size_t)word);
		a = d;
		d = c;
		c = b;
		b += md5_turn(now, turns[i / 16][i % 4]);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
}

void md5_of(const void *p, size_t n, char out[MD5_HEX])
{
	uint32_t state[4] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
	const unsigned char *from = p;
	unsigned char last[128] = { 0 };
	size_t left = n % 64, end = left < 56 ? 64 : 128;

	for (size_t i = 0; i + 64 <= n; i += 64)
		md5_take(state, from + i);
	if (left)
		memcpy(last, from + (n - left), left);
	last[left] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		last[end - 8 + i] = (unsigned char)((uint64_t)n * 8 >> 8 * i);
	md5_take(state, last);
	if (end == 128)
		md5_take(state, last + 64);
	for (unsigned i = 0; i < 16; i++)
		(void)snprintf(out + 2 * (size_t)i, 3, "%02x", state[i / 4] >> 8 * (i % 4) & 0xff);
}
