/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/str.h"

#include <string.h>
#include <strings.h>

#define NEAR_MAX 48

bool str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_starts_nocase(const char *s, const char *prefix)
{
	return strncasecmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends_nocase(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && strcasecmp(s + n - m, suffix) == 0;
}

bool str_has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return true;
	return false;
}

/* FNV-1a. */
uint64_t str_hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325U;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3U;
	return h;
}

/* Likewise, a word at a time. */
uint64_t mem_hash(uint64_t sum, const void *data, size_t n)
{
	const char *at = data;
	uint64_t h = sum ^ 0xcbf29ce484222325U, word;

	for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		h = (h ^ word) * 0x100000001b3U;
		h ^= h >> 29;
	}
	for (; n; n--, at++)
		h = (h ^ (unsigned char)*at) * 0x100000001b3U;
	return h;
}

const char *str_shell_word(const char *s, char *out, size_t n)
{
	static const char ends[] = "'", quote[] = "'\\''";
	size_t used = 0;

	if (n < 3 || str_has_control(s))
		return "PATH";
	out[used++] = *ends;
	for (; *s; s++) {
		size_t len = *s == *ends ? sizeof(quote) - 1 : 1;

		if (used + len + 2 > n)
			return "PATH";
		memcpy(out + used, *s == *ends ? quote : s, len);
		used += len;
	}
	memcpy(out + used, ends, sizeof(ends));
	return out;
}

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edit distance where swapping two neighbours counts once, as in "natvie". */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
	size_t row[3][NEAR_MAX + 1];

	for (size_t j = 0; j <= m; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *cur = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];

		cur[0] = i;
		for (size_t j = 1; j <= m; j++) {
			cur[j] =
				min3(up[j] + 1, cur[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    up2[j - 2] + 1 < cur[j])
				cur[j] = up2[j - 2] + 1;
		}
	}
	return row[n % 3][m];
}

const char *str_nearest(const char *s, const char *const *words)
{
	size_t n = strlen(s), best_at = 0;
	const char *best = NULL;

	if (n == 0 || n > NEAR_MAX)
		return NULL;
	for (; *words; words++) {
		size_t m = strlen(*words), d;

		if (m > NEAR_MAX)
			continue;
		/* The beginning of a word is as near as can be. */
		d = n > 2 && str_starts(*words, s) ? 0 : distance(s, n, *words, m);
		if (d <= (n + 2) / 3 && (!best || d < best_at)) {
			best = *words;
			best_at = d;
		}
	}
	return best;
}

/* How many bytes a sign has that begins so; 0: none does. */
static size_t utf8_lead(unsigned char lead)
{
	if (lead < 0x80)
		return 1;
	if (lead < 0xc2 || lead >= 0xf5)
		return 0;
	if (lead < 0xe0)
		return 2;
	return lead < 0xf0 ? 3 : 4;
}

size_t utf8_len(const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;
	size_t len = utf8_lead(u[0]);

	if (len == 0 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((u[i] & 0xc0) != 0x80)
			return 0;
	if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
	    (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))
		return 0;
	return len;
}

uint32_t utf8_code(const char *p, size_t len)
{
	static const unsigned char lead[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t c = (unsigned char)p[0] & lead[len];

	for (size_t i = 1; i < len; i++)
		c = c << 6 | ((unsigned char)p[i] & 0x3f);
	return c;
}

size_t utf8_cut(const char *p, size_t n)
{
	size_t back = 0;

	while (back < 3 && back < n && ((unsigned char)p[n - 1 - back] & 0xc0) == 0x80)
		back++;
	if (back < n) {
		unsigned char lead = (unsigned char)p[n - 1 - back];

		if (utf8_lead(lead) > back + 1)
			return n - 1 - back;
	}
	return n;
}
