/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_base64.c - what base64 says, where it says text.
 *
 * A token is text, of fifteen bytes and more. They lie in four whole groups of three bytes and a
 * part of one on either side, so what is no text for as long is not told: of what pictures and
 * archives say nothing has to be read again. What is told follows from the signs alone, not from
 * how they come. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "egress/scan/scan_internal.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define SIGNS 4 /* of a group */
#define BYTES 3
#define EIGHT 32 /* signs of eight groups */

/* One more than what a sign stands for; 0: it is none. */
/* clang-format off */
const unsigned char base64_six[256] = {
	['+'] = 63, ['-'] = 63, ['/'] = 64, ['0'] = 53, ['1'] = 54, ['2'] = 55,
	['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61,
	['9'] = 62, ['A'] = 1, ['B'] = 2, ['C'] = 3, ['D'] = 4, ['E'] = 5,
	['F'] = 6, ['G'] = 7, ['H'] = 8, ['I'] = 9, ['J'] = 10, ['K'] = 11,
	['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17,
	['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23,
	['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['_'] = 64, ['a'] = 27, ['b'] = 28,
	['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34,
	['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
	['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46,
	['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52,
};
/* clang-format on */

/* Also what stands between two characters of UTF-16. */
static bool base64_is_text(unsigned char c)
{
	return (c >= 0x20 && c <= 0x7e) || !c || c == '\t' || c == '\n' || c == '\r';
}

void base64_begins(struct base64_says *s)
{
	s->n = s->n_last = s->texts = 0;
	s->telling = s->skipped = false;
	s->next = INT64_MIN;
}

static bool base64_tell(struct scan *b, struct behind **said, struct base64_says *s,
			const struct base64_group *g)
{
	if (s->next != g->at && !behind_mark(b, said, g->at, SIGNS, BYTES))
		return false;
	s->next = g->at + SIGNS;
	return behind_say(b, *said, g->b, g->n);
}

static void base64_remember(struct base64_says *s, const struct base64_group *g)
{
	s->last[s->n_last++ % BASE64_GROUPS] = *g;
	if (s->n_last == 2 * BASE64_GROUPS)
		s->n_last = BASE64_GROUPS;
}

/* true: it is text. */
static bool base64_read(const char *p, unsigned signs, int64_t at, struct base64_group *ret)
{
	bool text = true;
	uint32_t x = 0;

	ret->at = at;
	ret->n = signs - 1;
	for (unsigned i = 0; i < SIGNS; i++)
		x = x << 6 | (i < signs ? base64_six[(unsigned char)p[i]] - 1U : 0);
	for (unsigned i = 0; i < ret->n; i++) {
		ret->b[i] = (char)(x >> (16 - 8 * i) & 0xff);
		text &= base64_is_text((unsigned char)ret->b[i]);
	}
	return text;
}

/* Two to four signs, the last group of a line may have less than four. */
static bool base64_take(struct scan *b, struct behind **said, struct base64_says *s, const char *p,
			unsigned signs, int64_t at)
{
	struct base64_group g;
	bool text;

	if (s->skipped) {
		s->skipped = false;
		(void)base64_read(s->before, SIGNS, s->before_at, &g);
		base64_remember(s, &g);
	}
	text = base64_read(p, signs, at, &g);
	s->texts = text ? s->texts + 1 : 0;
	base64_remember(s, &g);
	if (s->telling) {
		s->telling = text;
		return base64_tell(b, said, s, &g) && (text || behind_break(b, *said));
	}
	if (s->texts < BASE64_TEXTS)
		return true;
	s->telling = true;
	s->next = INT64_MIN;
	for (unsigned i = s->n_last < BASE64_GROUPS ? 0 : s->n_last - BASE64_GROUPS; i < s->n_last;
	     i++)
		if (!base64_tell(b, said, s, &s->last[i % BASE64_GROUPS]))
			return false;
	return true;
}

#ifdef __x86_64__
#define BASE64_AVX2 __attribute__((target("avx2")))

/* Eight groups: which of them are text, a bit each; and their bytes. */
static inline BASE64_AVX2 unsigned base64_eight(const char *p, char out[EIGHT])
{
	const __m256i c = _mm256_loadu_si256((const __m256i *)(const void *)p),
		      high = _mm256_and_si256(_mm256_srli_epi16(c, 4), _mm256_set1_epi8(15)),
		      less = _mm256_setr_epi8(0, 0, 16, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0,
					      0, 0, 0, 16, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0,
					      0, 0),
		      blank = _mm256_setr_epi8(-1, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, 0, -1, 0, 0,
					       -1, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, 0, -1, 0, 0),
		      order = _mm256_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1,
					       -1, 2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1,
					       -1, -1);
	__m256i x = _mm256_add_epi8(c, _mm256_shuffle_epi8(less, high)), text, low, six;

	x = _mm256_add_epi8(x, _mm256_and_si256(_mm256_cmpeq_epi8(c, _mm256_set1_epi8('+')),
						_mm256_set1_epi8(3)));
	x = _mm256_add_epi8(x, _mm256_and_si256(_mm256_cmpeq_epi8(c, _mm256_set1_epi8('-')),
						_mm256_set1_epi8(1)));
	x = _mm256_add_epi8(x, _mm256_and_si256(_mm256_cmpeq_epi8(c, _mm256_set1_epi8('_')),
						_mm256_set1_epi8(33)));
	six = _mm256_maddubs_epi16(x, _mm256_set1_epi32(0x01400140));
	x = _mm256_madd_epi16(six, _mm256_set1_epi32(0x00011000)); /* a group in each 32 bits */
	low = _mm256_sub_epi8(x, _mm256_set1_epi8(0x20));
	text = _mm256_cmpeq_epi8(_mm256_min_epu8(low, _mm256_set1_epi8(0x5e)), low);
	text = _mm256_or_si256(
		text, _mm256_and_si256(
			      _mm256_shuffle_epi8(blank, x),
			      _mm256_cmpeq_epi8(_mm256_and_si256(x, _mm256_set1_epi8((char)0xf0)),
						_mm256_setzero_si256())));
	x = _mm256_shuffle_epi8(x, order);
	_mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(x));
	_mm_storeu_si128((__m128i *)(void *)(out + 12), _mm256_extracti128_si256(x, 1));
	return (unsigned)_mm256_movemask_ps(
		_mm256_castsi256_ps(_mm256_cmpeq_epi32(text, _mm256_set1_epi32(-1))));
}

/* So many signs, of whole groups, belong to nothing that is to be told. The last ones are looked at
 * together with some that were. */
static BASE64_AVX2 size_t base64_skip(const char *p, size_t n, unsigned *texts)
{
	unsigned before = 7U << (3 - *texts) & 7; /* the last three groups */
	char out[EIGHT];
	size_t i = 0;

	static_assert(BASE64_TEXTS == 4, "as many are looked for");
	while (i + SIGNS <= n) {
		unsigned groups = i + EIGHT <= n ? EIGHT / SIGNS : (unsigned)((n - i) / SIGNS),
			 m = base64_eight(p + i + (size_t)groups * SIGNS - EIGHT, out) >>
			     (EIGHT / SIGNS - groups),
			 all = m << 3 | before;

		if (__builtin_expect(all & all >> 1 & all >> 2 & all >> 3, 0))
			break;
		before = all >> groups & 7;
		i += (size_t)groups * SIGNS;
	}
	*texts = before == 7 ? 3 : before >= 6 ? 2 : before >= 4;
	return i;
}

/* So many are text, and told. */
static BASE64_AVX2 bool base64_pass(struct scan *b, struct behind **said, struct base64_says *s,
				    const char *p, size_t n, int64_t at, size_t *passed)
{
	char out[EIGHT];
	size_t i = 0;

	for (; i + EIGHT <= n && base64_eight(p + i, out) == 0xff; i += EIGHT) {
		if (s->next != at + (int64_t)i &&
		    !behind_mark(b, said, at + (int64_t)i, SIGNS, BYTES))
			return false;
		s->next = at + (int64_t)(i + EIGHT);
		if (!behind_say(b, *said, out, EIGHT / SIGNS * BYTES))
			return false;
	}
	*passed = i;
	return true;
}

/* As far as whole eights go. false: blocked. */
static bool base64_widely(struct scan *b, struct behind **said, struct base64_says *s,
			  const char *p, size_t n, int64_t at, size_t *done)
{
	unsigned texts = s->texts;
	size_t from;

	*done = 0;
	if (n < EIGHT || !__builtin_cpu_supports("avx2"))
		return true;
	if (s->telling)
		return base64_pass(b, said, s, p, n, at, done);
	*done = base64_skip(p, n, &texts);
	if (!*done)
		return true;
	/* What a text that comes now could have begun with. */
	from = *done - (texts + 1) * (size_t)SIGNS;
	memcpy(s->before, p + from, SIGNS);
	s->before_at = at + (int64_t)from;
	s->skipped = true;
	s->texts = s->n_last = 0;
	for (size_t i = from + SIGNS; i < *done; i += SIGNS)
		if (!base64_take(b, said, s, p + i, SIGNS, at + (int64_t)i))
			return false;
	return true;
}
#else
static bool base64_widely(struct scan *b UNUSED, struct behind **said UNUSED,
			  struct base64_says *s UNUSED, const char *p UNUSED, size_t n UNUSED,
			  int64_t at UNUSED, size_t *done)
{
	*done = 0;
	return true;
}
#endif

bool base64_say(struct scan *b, struct behind **said, struct base64_says *s, const char *p,
		size_t n, int64_t at)
{
	while (n) {
		size_t done = 0;

		if (!s->n && !base64_widely(b, said, s, p, n, at, &done))
			return false;
		if (!done) {
			if (!s->n)
				s->at = at;
			s->signs[s->n++] = *p;
			done = 1;
			if (s->n == SIGNS) {
				s->n = 0;
				if (!base64_take(b, said, s, s->signs, SIGNS, s->at))
					return false;
			}
		}
		p += done;
		n -= done;
		at += (int64_t)done;
	}
	return true;
}

bool base64_stops(struct scan *b, struct behind **said, struct base64_says *s)
{
	unsigned signs = s->n;

	s->n = 0;
	return signs < 2 || base64_take(b, said, s, s->signs, signs, s->at);
}
