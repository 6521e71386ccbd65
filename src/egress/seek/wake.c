/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/seek/wake.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "egress/seek/secret.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define TEXT_NEAR 7 /* bytes; twice as many and an escape are in the shortest form */

static_assert(2 * TEXT_NEAR < SECRET_MIN, "on one side there is room");

/* Printable bytes, and what could be UTF-8; a part of a character at either end. */
static bool is_text(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c < 0x20 ? c != '\t' && c != '\n' && c != '\r' : c == 0x7f || c > 0xf4)
			return false;
		if (c >= 0xc0 && i + 1 < n && ((unsigned char)p[i + 1] & 0xc0) != 0x80)
			return false;
		if ((c & 0xc0) == 0x80 && i && (unsigned char)p[i - 1] < 0x80)
			return false;
	}
	return true;
}

/* Three more NUL bytes, each behind a byte that is none. */
static enum unescape_found among_nuls(const char *p, size_t at, size_t n, bool last)
{
	size_t i;

	for (i = 1; i <= 3 && at >= 2 * i && !p[at - 2 * i] && p[at - 2 * i + 1]; i++)
		;
	if (i > 3)
		return UNESCAPE_ONE;
	for (i = 1; i <= 3; i++) {
		if (at + 2 * i >= n)
			return last ? UNESCAPE_NONE : UNESCAPE_MORE;
		if (p[at + 2 * i] || !p[at + 2 * i - 1])
			return UNESCAPE_NONE;
	}
	return UNESCAPE_ONE;
}

static enum unescape_found among_text(const char *p, size_t at, size_t to, size_t n, bool last)
{
	size_t left = n - to;

	if (at >= TEXT_NEAR && is_text(p + at - TEXT_NEAR, TEXT_NEAR))
		return UNESCAPE_ONE;
	if (!is_text(p + to, left < TEXT_NEAR ? left : TEXT_NEAR))
		return UNESCAPE_NONE;
	return left >= TEXT_NEAR ? UNESCAPE_ONE : last ? UNESCAPE_NONE : UNESCAPE_MORE;
}

/* Of an escape that wakes nobody *took is told, too. */
static enum unescape_found wakes(enum unescape_kind k, const char *p, size_t at, size_t n,
				 bool last, size_t *took)
{
	struct unescaped u;
	enum unescape_found f = unescape_one(k, p, at, n, last, &u);

	*took = f == UNESCAPE_ONE ? u.took : 1;
	if (f != UNESCAPE_ONE || k == UNESCAPE_LINES)
		return f;
	return p[at] ? among_text(p, at, at + u.took, n, last) : among_nuls(p, at, n, last);
}

/* What begins with a byte, a bit for each kind. */
static const unsigned char begins[256] = {
	['%'] = 1U << UNESCAPE_SIGNS,  ['\\'] = 1U << UNESCAPE_SIGNS, ['&'] = 1U << UNESCAPE_SIGNS,
	['\0'] = 1U << UNESCAPE_SIGNS, ['='] = 1U << UNESCAPE_QUOTED, ['\n'] = 1U << UNESCAPE_LINES,
	['\r'] = 1U << UNESCAPE_LINES,
};

typedef unsigned char bytes16 __attribute__((vector_size(16)));

/* Behind i, of whole sixteens, those without a sign of UNESCAPE_SIGNS, or that other one. */
static size_t without_signs(const char *p, size_t i, size_t n, char or_this)
{
	for (; i + sizeof(bytes16) <= n; i += sizeof(bytes16)) {
		uint64_t half[2];
		bytes16 x, any;

		memcpy(&x, p + i, sizeof(x));
		any = (bytes16)(x == '%') | (bytes16)(x == '\\') | (bytes16)(x == '&') |
		      (bytes16)(x == 0) | (bytes16)(x == (unsigned char)or_this);
		memcpy(half, &any, sizeof(half));
		if (half[0] | half[1])
			break;
	}
	return i;
}

size_t wake_sign(enum unescape_kind k, const char *p, size_t i, size_t n)
{
	const char *found;

	if (k == UNESCAPE_SIGNS) {
		i = without_signs(p, i, n, '%');
		while (i < n && !(begins[(unsigned char)p[i]] & 1U << k))
			i++;
		return i;
	}
	found = i < n ? memchr(p + i, k == UNESCAPE_QUOTED ? '=' : '\n', n - i) : NULL;
	if (k == UNESCAPE_QUOTED)
		return found ? (size_t)(found - p) : n;
	/* an end of two bytes may be cut in two */
	if (!found)
		return i < n && p[n - 1] == '\r' ? n - 1 : n;
	return (size_t)(found - p) - (found > p + i && found[-1] == '\r');
}

size_t wake_first(enum unescape_kind k, const struct wake_text *x, size_t i, size_t *lag)
{
	size_t took;

	for (i = wake_sign(k, x->p, i, x->n); i < x->n; i = wake_sign(k, x->p, i + took, x->n)) {
		enum unescape_found f = wakes(k, x->p, i, x->n, x->last, &took);

		if (f == UNESCAPE_ONE)
			return i;
		if (f == UNESCAPE_MORE) {
			*lag = x->n - i;
			break;
		}
	}
	return x->n;
}

/* --- signs and quoted lines --- */

#define AWAKE (1U << UNESCAPE_SIGNS | 1U << UNESCAPE_QUOTED)

/* Which bytes can stand behind a sign: of most nothing more has to be read. */
enum { HEX = 1, ESCAPED = 2, NAME = 4, QUOTABLE = 8, NUMBER = 16 };

static const unsigned char second[256] = {
	['0' ... '9'] = HEX | QUOTABLE,
	['A' ... 'F'] = HEX | NAME | QUOTABLE,
	['G' ... 'Z'] = NAME,
	['a' ... 'f'] = HEX | NAME | QUOTABLE,
	['g' ... 'z'] = NAME,
	['!'] = ESCAPED,
	['"'] = ESCAPED,
	['#'] = ESCAPED | NUMBER,
	['$' ... '/'] = ESCAPED,
	[':' ... '@'] = ESCAPED,
	['[' ... '`'] = ESCAPED,
	['{' ... '~'] = ESCAPED,
	['\r'] = QUOTABLE,
	['\n'] = QUOTABLE,
};

static const unsigned char needed[256] = {
	['%'] = HEX,
	['\\'] = ESCAPED | NAME,
	['&'] = NAME | NUMBER,
	['='] = QUOTABLE,
};

static inline bool may_wake(const struct wake_text *x, size_t i)
{
	unsigned char c = (unsigned char)x->p[i];

	if (c)
		return i + 1 >= x->n || second[(unsigned char)x->p[i + 1]] & needed[c];
	return i + 2 >= x->n || !x->p[i + 2] || (i >= 2 && !x->p[i - 2]);
}

/* Does the sign there wake a lens? *next: where to look then. */
static enum unescape_found wakes_at(const struct wake_text *x, size_t i, size_t *next, size_t *lag)
{
	enum unescape_found f = UNESCAPE_NONE;
	size_t took = 1;

	if (may_wake(x, i))
		f = wakes(x->p[i] == '=' ? UNESCAPE_QUOTED : UNESCAPE_SIGNS, x->p, i, x->n, x->last,
			  &took);
	*next = i + took;
	if (f == UNESCAPE_MORE)
		*lag = x->n - i;
	return f;
}

size_t wake_near(const struct wake_text *x, size_t i, size_t to, size_t *lag)
{
	i = without_signs(x->p, i, to, '=');
	while (i < to) {
		enum unescape_found f;
		size_t at = i++;

		if (!(begins[(unsigned char)x->p[at]] & AWAKE))
			continue;
		f = wakes_at(x, at, &i, lag);
		if (f != UNESCAPE_NONE)
			return f == UNESCAPE_ONE ? at : x->n;
	}
	return i;
}

#define BLOCK 64
#define BESIDE 2 /* bytes on either side of one that are read, too */

/* The signs among so many bytes that have beside them what they need, more or less; a bit each. */
static uint64_t signs_plainly(const char *p)
{
	uint64_t m = 0;

	for (int i = 0; i < BLOCK; i++)
		m |= (uint64_t)((begins[(unsigned char)p[i]] & AWAKE) != 0) << i;
	return m;
}

/* Sixteen bytes have a sign when the tables of their halves have a bit in common. */
#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))

static inline AVX2 __m256i bytes_at(const char *p)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline AVX2 __m256i no_signs(__m256i x)
{
	const __m256i low = _mm256_setr_epi8(1, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 8, 4, 0, 0, 1, 0,
					     0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 8, 4, 0, 0),
		      high = _mm256_setr_epi8(1, 0, 2, 4, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0,
					      2, 4, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	__m256i top = _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15));

	return _mm256_cmpeq_epi8(
		_mm256_and_si256(_mm256_shuffle_epi8(low, x), _mm256_shuffle_epi8(high, top)),
		_mm256_setzero_si256());
}

/* Behind a sign stands a printable byte or the end of a line; two bytes from a NUL, another. */
static inline AVX2 uint32_t pairs_of(const char *p)
{
	const __m256i x = bytes_at(p), zero = _mm256_setzero_si256();
	__m256i behind = _mm256_cmpgt_epi8(bytes_at(p + 1), _mm256_set1_epi8('\t')),
		far = _mm256_or_si256(_mm256_cmpeq_epi8(bytes_at(p - 2), zero),
				      _mm256_cmpeq_epi8(bytes_at(p + 2), zero));

	return (uint32_t)_mm256_movemask_epi8(
		_mm256_blendv_epi8(behind, far, _mm256_cmpeq_epi8(x, zero)));
}

static AVX2 uint64_t signs_widely(const char *p)
{
	__m256i a = no_signs(bytes_at(p)), b = no_signs(bytes_at(p + 32));
	uint64_t m;

	if (__builtin_expect(_mm256_movemask_epi8(_mm256_and_si256(a, b)) == -1, 1))
		return 0;
	m = ~((uint64_t)(uint32_t)_mm256_movemask_epi8(a) |
	      (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32);
	return m & (pairs_of(p) | (uint64_t)pairs_of(p + 32) << 32);
}

static AVX2 size_t blocks_widely(const char *p, size_t i, size_t stop, uint64_t *signs)
{
	for (; i <= stop; i += BLOCK)
		if (__builtin_expect((*signs = signs_widely(p + i)) != 0, 0))
			break;
	return i;
}
#endif

/* From i on, of whole blocks: the first that has a sign, and which. */
static size_t next_block(const struct wake_text *x, size_t i, uint64_t *signs)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2")) {
		*signs = 0;
		return blocks_widely(x->p, i, x->n - BLOCK - BESIDE, signs);
	}
#endif
	*signs = signs_plainly(x->p + i);
	return i;
}

size_t wake_far(const struct wake_text *x, size_t i, size_t *lag)
{
	size_t next = i;
	uint64_t m = 0;

	if (i < BESIDE) {
		next = i = wake_near(x, i, x->n < BESIDE ? x->n : BESIDE, lag);
		if (*lag || i < BESIDE || i >= x->n)
			return i;
	}
	while (i + BLOCK + BESIDE <= x->n) {
		i = next_block(x, i, &m);
		for (; m; m &= m - 1) {
			size_t at = i + (size_t)__builtin_ctzll(m);
			enum unescape_found f;

			if (at < next)
				continue;
			f = wakes_at(x, at, &next, lag);
			if (f != UNESCAPE_NONE)
				return f == UNESCAPE_ONE ? at : x->n;
		}
		i += i + BLOCK + BESIDE <= x->n ? BLOCK : 0;
	}
	return wake_near(x, next > i ? next : i, x->n, lag);
}
