/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_runs.c - runs of base64 and of hexadecimal digits in a stream.
 *
 * A run has RUN_LEAST signs and more. Its first signs are kept until there are enough of them: they
 * say whether it begins like something packed, whether it is hex, and where base64 may begin in it
 * (behind a '/' of a path, say). From there on it is read as it comes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/hex.h"
#include "egress/scan/scan_internal.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define RUN_LEAST 26 /* signs: the shortest token has twenty bytes */
#define HEX_LEAST 40
#define FIRST 512
#define RUN_BLOCK 64

/* Of gzip, zip, bzip2, xz, zstd and zlib, in both alphabets. */
static const char *const signs[] = { "H4sI", "UEsDB", "Qlpo", "/Td6WFoA", "_Td6WFoA",
				     "KLUv", "eJw",   "eNo",  "eNq",      "eAE" };

enum run_kind { RUN_BASE64, RUN_HEX };

struct base_runs {
	struct behind *said;
	bool open, streams, packed,
		line; /* read; as it comes; by who unpacks; behind a line's end */
	enum run_kind kind;
	int64_t from, next; /* where it goes on */
	char before;        /* the end of a line, or nothing */
	size_t n;           /* of the first signs */
	char first[FIRST];
	uint32_t at[FIRST]; /* from its beginning */
	unsigned half;      /* of two digits the first */
	bool odd;
	struct base64_says base64;
	size_t edge; /* the last bytes were so many signs */
	bool seen;   /* one, in the bytes at hand */
};

static bool run_is_sign(char c)
{
	return base64_six[(unsigned char)c] != 0;
}

/* --- ends --- */

void runs_restart(struct base_runs *r)
{
	if (!r)
		return;
	r->open = r->streams = r->packed = false;
	r->n = r->edge = 0;
	behind_restart(r->said);
}

void runs_wipe(struct base_runs *r)
{
	if (!r)
		return;
	explicit_bzero(r->first, sizeof(r->first));
	explicit_bzero(&r->base64, sizeof(r->base64));
	behind_wipe(r->said);
	runs_restart(r);
}

struct base_runs *runs_free(struct base_runs *r)
{
	if (r)
		r->said = behind_free(r->said);
	free(r);
	return NULL;
}

/* --- what a run says --- */

static bool run_says(const struct scan *b)
{
	return b->direction == SCAN_OUT && b->depth < BEHIND_DEPTH;
}

/* Digits that follow one another. */
static bool run_digits(struct scan *b, struct base_runs *r, const char *p, size_t n)
{
	char out[FIRST];
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (r->odd)
			out[len++] = (char)(r->half << 4 | (unsigned)hex_nibble(p[i]));
		r->half = (unsigned)hex_nibble(p[i]);
		r->odd = !r->odd;
		if (len == sizeof(out)) {
			if (!behind_say(b, r->said, out, len))
				return false;
			len = 0;
		}
	}
	return behind_say(b, r->said, out, len);
}

static void run_resets(struct base_runs *r)
{
	r->odd = false;
	base64_begins(&r->base64);
}

/* Signs that follow one another, and others before them if `line` ended those. */
static bool run_decode(struct scan *b, struct base_runs *r, enum run_kind k, bool line,
		       const char *p, size_t n, int64_t raw)
{
	if (k == RUN_BASE64)
		return (!line || base64_stops(b, &r->said, &r->base64)) &&
		       base64_say(b, &r->said, &r->base64, p, n, raw);
	return (!line || behind_mark(b, &r->said, raw, 2, 1)) && run_digits(b, r, p, n);
}

/* first[from..to), line by line. */
static bool run_part(struct scan *b, struct base_runs *r, enum run_kind k, size_t from, size_t to)
{
	if (r->said && !behind_break(b, r->said))
		return false;
	run_resets(r);
	while (from < to) {
		size_t end = from + 1;

		while (end < to && r->at[end] == r->at[end - 1] + 1)
			end++;
		if (!run_decode(b, r, k, true, r->first + from, end - from, r->from + r->at[from]))
			return false;
		from = end;
	}
	return true;
}

static bool run_hexes(struct scan *b, struct base_runs *r)
{
	for (size_t i = HEX_LEAST / 2; i < r->n; i += HEX_LEAST / 2) {
		size_t from = i, to = i;

		while (from > 0 && hex_nibble(r->first[from - 1]) >= 0)
			from--;
		while (to < r->n && hex_nibble(r->first[to]) >= 0)
			to++;
		if (to - from < HEX_LEAST)
			continue;
		if (!run_part(b, r, RUN_HEX, from, to))
			return false;
		i = to;
	}
	return true;
}

/* 41-4b-49: its digits are moved together, in a copy that nothing else is read from. */
static bool run_pairs(struct scan *b, struct base_runs *r)
{
	const char *p = r->first;
	size_t pairs = 0, i = 0;

	if (r->n < 3 || !strchr("-_/+", p[2]))
		return true;
	while (i + 2 <= r->n && hex_nibble(p[i]) >= 0 && hex_nibble(p[i + 1]) >= 0 &&
	       (i + 2 == r->n || p[i + 2] == p[2])) {
		pairs++;
		i += 3;
	}
	if (pairs < HEX_LEAST / 2)
		return true;
	if (r->said && !behind_break(b, r->said))
		return false;
	run_resets(r);
	if (!behind_mark(b, &r->said, r->from, 3, 1))
		return false;
	for (size_t k = 0; k < pairs; k++)
		if (!run_digits(b, r, p + 3 * k, 2))
			return false;
	return true;
}

/* Where base64 may begin besides the run's first sign. */
static bool run_others(struct scan *b, struct base_runs *r)
{
	unsigned done = 1;

	for (size_t i = 1; i + RUN_LEAST <= r->n && done != 15; i++) {
		bool may = strchr("/-_+", r->first[i - 1]) || r->at[i] != r->at[i - 1] + 1;

		if (!may || (done & 1U << (i & 3)))
			continue;
		done |= 1U << (i & 3);
		if (!run_part(b, r, RUN_BASE64, i, r->n) || !base64_stops(b, &r->said, &r->base64))
			return false;
	}
	return true;
}

static bool run_unpacks(struct scan *b, struct base_runs *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (i && r->first[i - 1] != '/' && r->first[i - 1] != '-')
			continue;
		for (size_t k = 0; k < sizeof(signs) / sizeof(*signs); k++) {
			size_t n = strlen(signs[k]);

			if (r->n - i < n || memcmp(r->first + i, signs[k], n) != 0)
				continue;
			r->packed = true;
			return b->on_run(b->run_context, r->first + i, r->n - i, false, b->verdict);
		}
	}
	return true;
}

/* Enough of it is there to know what it is. */
static bool run_begins(struct scan *b, struct base_runs *r)
{
	bool all = true;

	r->streams = true;
	if (b->on_run && !run_unpacks(b, r))
		return false;
	if (!run_says(b))
		return true;
	for (size_t i = 0; i < r->n && all; i++)
		all = hex_nibble(r->first[i]) >= 0;
	r->kind = all ? RUN_HEX : RUN_BASE64;
	if (!all && (!run_hexes(b, r) || !run_pairs(b, r) || !run_others(b, r)))
		return false;
	return run_part(b, r, r->kind, 0, r->n);
}

static bool run_ends(struct scan *b, struct base_runs *r)
{
	if (!r->streams && !run_begins(b, r))
		return false;
	r->open = false;
	if (r->packed) {
		r->packed = false;
		if (!b->on_run(b->run_context, "", 0, true, b->verdict))
			return false;
	}
	if (!run_says(b))
		return true;
	if (r->kind == RUN_BASE64 && !base64_stops(b, &r->said, &r->base64))
		return false;
	return !r->said || behind_break(b, r->said);
}

/* A piece of it, from `raw` on, without the ends of lines. */
static bool run_goes_on(struct scan *b, struct base_runs *r, const char *p, size_t n, int64_t raw)
{
	while (n && !r->streams) {
		r->line = false;
		r->first[r->n] = *p;
		r->at[r->n++] = (uint32_t)(raw - r->from);
		p++;
		raw++;
		n--;
		if (r->n == FIRST && !run_begins(b, r))
			return false;
	}
	if (!n)
		return true;
	if (r->packed && !b->on_run(b->run_context, p, n, false, b->verdict))
		return false;
	if (!run_says(b))
		return true;
	if (!run_decode(b, r, r->kind, r->line, p, n, raw))
		return false;
	r->line = false;
	return true;
}

/* --- where they are --- */

static char run_byte(const struct scan *b, int64_t at)
{
	return at >= b->base ? b->data[at - b->base]
			     : b->win[b->which][b->win_n - (size_t)(b->base - at)];
}

static void run_opens(struct base_runs *r, int64_t at)
{
	r->open = true;
	r->streams = r->packed = r->line = false;
	r->before = '\0';
	r->n = 0;
	r->from = r->next = at;
}

static size_t run_skip(const char *p, size_t n);

/* From r->next on as far as it goes; false: blocked. */
static bool run_follow(struct scan *b, struct base_runs *r)
{
	int64_t end = b->base + (int64_t)b->n;

	while (r->open && r->next < end) {
		char c = run_byte(b, r->next);
		size_t n = 0;

		if (c == '\n' || (c == '\r' && !r->before)) {
			/* One end of a line, and it goes on or is over. */
			if (r->before == '\n')
				return run_ends(b, r);
			r->before = c;
			r->line = true;
			r->next++;
			continue;
		}
		r->before = '\0';
		if (r->next < b->base) {
			n = run_is_sign(c);
		} else {
			const char *p = b->data + (r->next - b->base);
			size_t left = (size_t)(end - r->next);
			bool hex = r->streams && r->kind == RUN_HEX;

			n = hex ? 0 : run_skip(p, left);
			while (n < left && (hex ? hex_nibble(p[n]) >= 0 : run_is_sign(p[n])))
				n++;
		}
		if (!n)
			return run_ends(b, r);
		if (!run_goes_on(b, r, r->next < b->base ? &c : b->data + (r->next - b->base), n,
				 r->next))
			return false;
		r->next += (int64_t)n;
	}
	return true;
}

typedef unsigned char run_bytes __attribute__((vector_size(16)));

/* Letters, digits, and some more that lie beside them. */
static inline uint64_t run_plainly(const char *p)
{
	uint64_t m = 0;

	for (unsigned i = 0; i < RUN_BLOCK; i += sizeof(run_bytes)) {
		uint64_t half[2];
		run_bytes x, any;

		memcpy(&x, p + i, sizeof(x));
		any = (run_bytes)((run_bytes)((x | 0x20) - 'a') < 31) |
		      (run_bytes)((run_bytes)(x - '+') < 15);
		memcpy(half, &any, sizeof(half));
		/* A bit for each of two halves is enough: a run has two whole ones in a row. */
		m |= (uint64_t)(half[0] == ~(uint64_t)0) << (i / 8);
		m |= (uint64_t)(half[1] == ~(uint64_t)0) << (i / 8 + 1);
	}
	return m;
}

#ifdef __x86_64__
#define RUN_AVX2 __attribute__((target("avx2")))

/* Which of 32 bytes are signs: those for whose halves the tables have a bit in common. */
static inline RUN_AVX2 uint32_t run_half(const char *p)
{
	static const char low[16] = { 26, 30, 30, 30, 30, 30, 30, 30, 30, 30, 28, 5, 4, 5, 4, 13 },
			  high[16] = { 0, 0, 1, 2, 4, 8, 4, 16, 0, 0, 0, 0, 0, 0, 0, 0 };
	const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p),
		      top = _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15)),
		      a = _mm256_broadcastsi128_si256(
			      _mm_loadu_si128((const __m128i *)(const void *)low)),
		      b = _mm256_broadcastsi128_si256(
			      _mm_loadu_si128((const __m128i *)(const void *)high));

	return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(
		_mm256_and_si256(_mm256_shuffle_epi8(a, x), _mm256_shuffle_epi8(b, top)),
		_mm256_setzero_si256()));
}

static inline RUN_AVX2 uint64_t run_block(const char *p)
{
	return run_half(p) | (uint64_t)run_half(p + 32) << 32;
}

/* A whole run in one block, or in two. */
static RUN_AVX2 size_t run_widely(const char *p, size_t i, size_t n)
{
	unsigned before = 0; /* signs at the end of the last block */

	static_assert(RUN_LEAST == 2 * 13, "as many are looked for");
	for (; i + RUN_BLOCK <= n; i += RUN_BLOCK) {
		uint64_t m = run_block(p + i), all = m;

		all &= all >> 1;
		all &= all >> 2;
		all &= all >> 4;
		all &= all >> 5;
		all &= all >> 13;
		if (__builtin_expect(all != 0, 0))
			return i + (size_t)__builtin_ctzll(all);
		if (before + (unsigned)__builtin_ctzll(~m) >= RUN_LEAST)
			return i;
		before = (unsigned)__builtin_clzll(~m);
	}
	return i;
}

/* Signs from p on, of whole blocks. */
static RUN_AVX2 size_t run_long(const char *p, size_t n)
{
	size_t i = 0;

	for (; i + RUN_BLOCK <= n; i += RUN_BLOCK) {
		uint64_t m = run_block(p + i);

		if (~m)
			return i + (size_t)__builtin_ctzll(~m);
	}
	return i;
}
#endif

/* So many bytes at least are signs. */
static size_t run_skip(const char *p, size_t n)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		return run_long(p, n);
#endif
	(void)p;
	(void)n;
	return 0;
}

/* A place in or before the first run from i on; what is behind it, and less than a block, may be
 * another. */
static size_t run_near(const char *p, size_t i, size_t n)
{
	uint64_t before = 0;

#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		return run_widely(p, i, n);
#endif
	for (; i + RUN_BLOCK <= n; i += RUN_BLOCK) {
		uint64_t m = run_plainly(p + i), two = m & (m << 1 | before);

		if (two)
			return i + 8 * (size_t)__builtin_ctzll(two);
		before = m >> 7;
	}
	return i;
}

/* The first run that begins at `at` or later; the end of the bytes: none. */
static int64_t run_find(struct scan *b, struct base_runs *r, int64_t at)
{
	size_t i = (size_t)(at - b->base), n = b->n, t = i;

	/* One that the last bytes began. */
	while (t < n && run_is_sign(b->data[t]))
		t++;
	if (r->edge + (t - i) >= RUN_LEAST)
		return at - (int64_t)r->edge;
	if (t < n)
		r->edge = 0;
	else
		t = i;
	for (i = t; i < n;) {
		size_t from, to;

		i = run_near(b->data, i, n);
		/* What is left may have one that begins behind its first bytes. */
		while (i < n && n - i < RUN_BLOCK && !run_is_sign(b->data[i]))
			i++;
		if (i >= n)
			break;
		from = to = i;
		while (from > t && run_is_sign(b->data[from - 1]))
			from--;
		while (to < n && run_is_sign(b->data[to]))
			to++;
		if (to - from >= RUN_LEAST)
			return b->base + (int64_t)from;
		i = to > i ? to : i + 1;
		t = i;
	}
	for (i = n; i > (size_t)(at - b->base) && run_is_sign(b->data[i - 1]);)
		i--;
	r->edge = (i == (size_t)(at - b->base) ? r->edge : 0) + n - i;
	return b->base + (int64_t)n;
}

bool runs_were_seen(const struct scan *b)
{
	return (!b->on_run && !run_says(b)) || b->runs->seen;
}

bool runs_look(struct scan *b)
{
	int64_t end = b->base + (int64_t)b->n, at = b->base;
	struct base_runs *r = b->runs;

	if (!b->on_run && !run_says(b))
		return true;
	if (!r && !(r = b->runs = calloc(1, sizeof(*r)))) {
		b->blocked = true;
		return verdict_deny(b->verdict, EGRESS_INTERNAL, NULL, "no memory");
	}
	r->seen = r->open;
	while (at < end || r->open) {
		if (!r->open) {
			int64_t from = run_find(b, r, at);

			if (from >= end)
				break;
			r->edge = 0;
			r->seen = true;
			run_opens(r, from);
		}
		if (!run_follow(b, r)) {
			b->blocked = true;
			return false;
		}
		if (r->open)
			break;
		at = r->next > at ? r->next : at + 1;
	}
	if (b->last && r->open && !run_ends(b, r)) {
		b->blocked = true;
		return false;
	}
	return behind_flush(b, r->said, b->last);
}
