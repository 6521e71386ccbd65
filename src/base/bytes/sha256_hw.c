/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/sha256_hw.c - SHA-256 by the processor's own instructions, where it has them.
 *
 * Nothing here is chosen when compiling: one binary runs on processors with and without. */
#include "base/bytes/sha256_block.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <sys/auxv.h>

#ifndef HWCAP_SHA2
#define HWCAP_SHA2 (1UL << 6)
#endif

/* In assembler, because clang 14 offers the intrinsics only to files compiled for such processors
 * alone. */
#define SHA2 ".arch_extension sha2\n\t"

static inline uint32x4_t hash_abcd(uint32x4_t abcd, uint32x4_t efgh, uint32x4_t wk)
{
	__asm__(SHA2 "sha256h %q0, %q1, %2.4s" : "+w"(abcd) : "w"(efgh), "w"(wk));
	return abcd;
}

static inline uint32x4_t hash_efgh(uint32x4_t efgh, uint32x4_t abcd, uint32x4_t wk)
{
	__asm__(SHA2 "sha256h2 %q0, %q1, %2.4s" : "+w"(efgh) : "w"(abcd), "w"(wk));
	return efgh;
}

/* The next four words of the schedule from the last sixteen. */
static inline uint32x4_t schedule(uint32x4_t w0, uint32x4_t w1, uint32x4_t w2, uint32x4_t w3)
{
	__asm__(SHA2 "sha256su0 %0.4s, %1.4s" : "+w"(w0) : "w"(w1));
	__asm__(SHA2 "sha256su1 %0.4s, %1.4s, %2.4s" : "+w"(w0) : "w"(w2), "w"(w3));
	return w0;
}

static inline uint32x4_t load4(const unsigned char *p)
{
	return vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p)));
}

static void blocks_arm(uint32_t state[8], const unsigned char *p, size_t blocks)
{
	uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);

	for (; blocks; blocks--, p += 64) {
		uint32x4_t w[4] = { load4(p), load4(p + 16), load4(p + 32), load4(p + 48) };
		const uint32x4_t abcd_was = abcd, efgh_was = efgh;

#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			uint32x4_t wk = vaddq_u32(w[i & 3], vld1q_u32(&sha256_k[4 * (size_t)i]));
			uint32x4_t before = abcd;

			if (i < 12)
				w[i & 3] = schedule(w[i & 3], w[(i + 1) & 3], w[(i + 2) & 3],
						    w[(i + 3) & 3]);
			abcd = hash_abcd(abcd, efgh, wk);
			efgh = hash_efgh(efgh, before, wk);
		}
		abcd = vaddq_u32(abcd, abcd_was);
		efgh = vaddq_u32(efgh, efgh_was);
	}
	vst1q_u32(state, abcd);
	vst1q_u32(state + 4, efgh);
}

sha256_block_fn *sha256_blocks_hardware(void)
{
	return getauxval(AT_HWCAP) & HWCAP_SHA2 ? blocks_arm : NULL;
}

#elif defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>

#define SHA_NI __attribute__((target("sha,sse4.1,ssse3")))

SHA_NI static inline __m128i load4(const unsigned char *p)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);

	return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), swap);
}

/* The next four words of the schedule from the last sixteen. */
SHA_NI static inline __m128i schedule(__m128i w0, __m128i w1, __m128i w2, __m128i w3)
{
	__m128i t = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));

	return _mm_sha256msg2_epu32(t, w3);
}

SHA_NI static inline void four_rounds(__m128i *abef, __m128i *cdgh, __m128i wk)
{
	*cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, wk);
	*abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(wk, 0x0e));
}

SHA_NI static void one_block(__m128i *abef, __m128i *cdgh, const unsigned char *p)
{
	__m128i w[4] = { load4(p), load4(p + 16), load4(p + 32), load4(p + 48) };
	const __m128i abef_was = *abef, cdgh_was = *cdgh;

	for (int i = 0; i < 16; i++) {
		const void *k = &sha256_k[4 * (size_t)i];

		four_rounds(abef, cdgh,
			    _mm_add_epi32(w[i & 3], _mm_loadu_si128((const __m128i *)k)));
		if (i < 12)
			w[i & 3] =
				schedule(w[i & 3], w[(i + 1) & 3], w[(i + 2) & 3], w[(i + 3) & 3]);
	}
	*abef = _mm_add_epi32(*abef, abef_was);
	*cdgh = _mm_add_epi32(*cdgh, cdgh_was);
}

SHA_NI static void blocks_x86(uint32_t state[8], const unsigned char *p, size_t blocks)
{
	/* The instructions want a b e f and c d g h, highest first. */
	__m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)state);
	__m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
	__m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
	__m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

	for (; blocks; blocks--, p += 64)
		one_block(&abef, &cdgh, p);
	abef = _mm_shuffle_epi32(abef, 0x1b);
	cdgh = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(abef, cdgh, 0xf0));
	_mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(cdgh, abef, 8));
}

static bool has_sha_ni(void)
{
	unsigned a, b, c, d, features;

	if (!__get_cpuid(1, &a, &b, &features, &d) || !(features & bit_SSE4_1) ||
	    !(features & bit_SSSE3))
		return false;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

sha256_block_fn *sha256_blocks_hardware(void)
{
	return has_sha_ni() ? blocks_x86 : NULL;
}

#else

sha256_block_fn *sha256_blocks_hardware(void)
{
	return NULL;
}

#endif
