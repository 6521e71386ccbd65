/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek/seek_table.h - forms of known secrets, entered by the groups of six bytes in them.
 *
 * For seek.c alone. Every row is one line of the cache. What is done with the group that stands at
 * a place of a text (which row, how many bytes are read and summed) follows from that text and from
 * the table; whether it was nearly right changes nothing of it. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/text/arena.h"
#include "base/text/err.h"
#include "egress/seek/secret.h"

/* The baselines of amd64 and arm64, so there is nothing to choose when it runs. */
#if defined(__SSE2__) && !defined(SEEK_PLAIN)
#include <immintrin.h>
#define SEEK_SSE2
#elif defined(__ARM_NEON) && !defined(SEEK_PLAIN)
#include <arm_neon.h>
#define SEEK_NEON
#endif

#define SEEK_GROUP 6 /* shorter ones would make for fewer places, and be too few in hexadecimal */
#define SEEK_SLOTS 8
#define SEEK_BEHIND 255 /* a form's end lies at most so far behind its group */
#define SEEK_STRIDE 48  /* a longer one would only make the table larger */

/* So many of a form's last bytes are summed, all of it where it is shorter. */
#define SEEK_SPAN SECRET_TAIL
#define SEEK_KEYS (SEEK_SPAN / 8)

/* meta: how far behind the group the form ends; how many bytes are summed. */
struct seek_row {
	uint16_t tag[SEEK_SLOTS];
	uint16_t meta[SEEK_SLOTS];
	uint32_t sum[SEEK_SLOTS];
} __attribute__((aligned(64)));
static_assert(sizeof(struct seek_row) == 64, "a row is a line of the cache");

#define SEEK_LENGTH(meta) ((meta) >> 8)
#define SEEK_ENDS(meta) ((meta)&255)
static_assert(SEEK_SPAN <= 255 && SEEK_BEHIND <= 255, "both have room");

struct seek_table {
	const struct needle **forms;
	size_t n;
	size_t stride; /* a group at every multiple of it is looked up */
	size_t behind; /* the most that any entry has */
	unsigned most; /* entries with the same group: nearly always one */
	unsigned shift;
	struct seek_row *rows;
	uint64_t mix[2], key[SEEK_KEYS];
};

/* t->forms and t->n are given. */
int seek_table_fill(struct arena *a, struct seek_table *t, struct err *e);

#define SEEK_INLINE inline __attribute__((always_inline))
#define SEEK_CASE 0x2020202020202020ULL /* what differs in bit 5 alone is compared later */

static SEEK_INLINE uint64_t seek_load(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v | SEEK_CASE;
}

/* Of the group that ends there; two bytes before it are read, and count for nothing. */
static SEEK_INLINE uint64_t seek_hash(const struct seek_table *t, const char *end)
{
	return (seek_load(end - 8) >> 8 * (8 - SEEK_GROUP) ^ t->mix[0]) * t->mix[1];
}
#define SEEK_TAG(h) ((uint16_t)((h) >> 24)) /* the row is in the highest bits */

/* Sixteen bytes on top of what was summed: of each half the products of two keyed numbers. */
#ifdef SEEK_SSE2
typedef __m128i seek_acc;

static SEEK_INLINE seek_acc seek_add(seek_acc to, const char *p, const uint64_t *key)
{
	__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);

	x = _mm_or_si128(x, _mm_set1_epi8(0x20));
	x = _mm_add_epi32(x, _mm_loadu_si128((const __m128i *)(const void *)key));
	return _mm_add_epi64(to, _mm_mul_epu32(x, _mm_srli_epi64(x, 32)));
}

static SEEK_INLINE uint64_t seek_total(seek_acc a)
{
	return (uint64_t)_mm_cvtsi128_si64(_mm_add_epi64(a, _mm_unpackhi_epi64(a, a)));
}
#define SEEK_ZERO _mm_setzero_si128()
#elif defined(SEEK_NEON)
typedef uint64x2_t seek_acc;

static SEEK_INLINE seek_acc seek_add(seek_acc to, const char *p, const uint64_t *key)
{
	uint8x16_t b = vorrq_u8(vld1q_u8((const uint8_t *)p), vdupq_n_u8(0x20));
	uint64x2_t x = vreinterpretq_u64_u32(
		vaddq_u32(vreinterpretq_u32_u8(b), vreinterpretq_u32_u64(vld1q_u64(key))));

	return vmlal_u32(to, vmovn_u64(x), vshrn_n_u64(x, 32));
}

static SEEK_INLINE uint64_t seek_total(seek_acc a)
{
	return vgetq_lane_u64(a, 0) + vgetq_lane_u64(a, 1);
}
#define SEEK_ZERO vdupq_n_u64(0)
#else
typedef uint64_t seek_acc;

static SEEK_INLINE uint64_t seek_product(uint64_t x, uint64_t key)
{
	return (uint64_t)((uint32_t)x + (uint32_t)key) *
	       ((uint32_t)(x >> 32) + (uint32_t)(key >> 32));
}

static SEEK_INLINE seek_acc seek_add(seek_acc to, const char *p, const uint64_t *key)
{
	return to + seek_product(seek_load(p), key[0]) + seek_product(seek_load(p + 8), key[1]);
}
#define seek_total(a) (a)
#define SEEK_ZERO 0
#endif

/* Of the bytes from..to: always SEEK_SPAN of them are read, in halves that overlap where there are
 * fewer. */
static SEEK_INLINE uint32_t seek_sum(const uint64_t *key, const char *from, const char *to)
{
	uint64_t h;

	static_assert(SEEK_SPAN == 32, "two times what is added at once");
	h = seek_total(seek_add(seek_add(SEEK_ZERO, from, key), to - 16, key + SEEK_SPAN / 8 - 2));
	return (uint32_t)(h ^ h >> 32);
}

/* The slots of a tag, a bit each, SEEK_BITS apart. */
#ifdef SEEK_NEON
#define SEEK_BITS 8
#else
#define SEEK_BITS 2
#endif

static SEEK_INLINE uint64_t seek_slots(const struct seek_row *r, uint16_t tag)
{
#ifdef SEEK_SSE2
	__m128i t = _mm_load_si128((const __m128i *)(const void *)r->tag);

	return (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi16(t, _mm_set1_epi16((short)tag))) & 0xaaaa;
#elif defined(SEEK_NEON)
	uint8x8_t eq = vmovn_u16(vceqq_u16(vld1q_u16(r->tag), vdupq_n_u16(tag)));

	return vget_lane_u64(vreinterpret_u64_u8(eq), 0) & 0x8080808080808080ULL;
#else
	uint64_t m = 0;

	for (int i = 0; i < SEEK_SLOTS; i++)
		m |= (uint64_t)(r->tag[i] == tag) << (SEEK_BITS * i);
	return m;
#endif
}

/* The first of them; of none, the first there is. Without a branch: a compiler makes one of
 * `m ? ... : 0`. */
static SEEK_INLINE unsigned seek_slot(uint64_t m)
{
#if SEEK_BITS == 2
	return (unsigned)__builtin_ctz((unsigned)m | 0x10000) / 2 & (SEEK_SLOTS - 1);
#else
	return (unsigned)(__builtin_ctzll(m | (uint64_t)(m == 0)) / SEEK_BITS);
#endif
}
