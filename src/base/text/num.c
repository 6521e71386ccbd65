/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/num.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Reads digits at *s into *ret and moves *s behind them. */
static int digits(const char **s, uint64_t *ret)
{
	uint64_t v = 0;
	const char *p = *s;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -ERANGE;
	if (p == *s)
		return -EINVAL;
	*s = p;
	*ret = v;
	return 0;
}

/* A decimal number in thousandths; digits past the third are refused rather than rounded. */
static int decimal(const char **s, uint64_t *ret)
{
	uint64_t whole, frac = 0;
	int r = digits(s, &whole);

	if (r < 0)
		return r;
	if (**s == '.') {
		const char *from = ++*s;

		r = digits(s, &frac);
		if (r < 0 || *s - from > 3)
			return -EINVAL;
		for (size_t n = (size_t)(*s - from); n < 3; n++)
			frac *= 10;
	}
	if (__builtin_mul_overflow(whole, 1000, &whole) || __builtin_add_overflow(whole, frac, ret))
		return -ERANGE;
	return 0;
}

int num_count(const char *s, uint64_t *ret)
{
	uint64_t v;
	int r = digits(&s, &v);

	if (r < 0 || *s)
		return r < 0 ? r : -EINVAL;
	*ret = v;
	return 0;
}

int num_milli(const char *s, uint64_t *ret)
{
	uint64_t v;
	int r = decimal(&s, &v);

	if (r < 0 || *s)
		return r < 0 ? r : -EINVAL;
	*ret = v;
	return 0;
}

int num_thousands(const char *s, uint64_t *ret)
{
	uint64_t milli, times;
	int r = decimal(&s, &milli);

	if (r < 0)
		return r;
	times = *s == 'k' || *s == 'K' ? 1000 : *s == 'm' || *s == 'M' ? 1000 * 1000 : 1;
	if (s[times > 1] || (times == 1 && milli % 1000))
		return -EINVAL;
	if (times == 1)
		*ret = milli / 1000;
	else if (__builtin_mul_overflow(milli, times / 1000, ret))
		return -ERANGE;
	return 0;
}

static int size_shift(const char *unit)
{
	static const struct {
		const char *name;
		int shift;
	} units[] = { { "", 0 },     { "b", 0 },   { "k", 10 },   { "kb", 10 }, { "kib", 10 },
		      { "m", 20 },   { "mb", 20 }, { "mib", 20 }, { "g", 30 },  { "gb", 30 },
		      { "gib", 30 }, { "t", 40 },  { "tb", 40 },  { "tib", 40 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (strcasecmp(unit, units[i].name) == 0)
			return units[i].shift;
	return -1;
}

int num_size(const char *s, uint64_t *ret)
{
	uint64_t milli;
	unsigned __int128 bytes;
	int r = decimal(&s, &milli), shift;

	if (r < 0)
		return r;
	shift = size_shift(s);
	if (shift < 0)
		return -EINVAL;
	bytes = ((unsigned __int128)milli << shift) / 1000;
	if (bytes > INT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)bytes;
	return 0;
}

static uint64_t duration_unit(const char **s)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = { { "ms", 1 },      { "s", 1000 },     { "m", 60000 },
		      { "h", 3600000 }, { "d", 86400000 }, { "w", 604800000 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		size_t n = strlen(units[i].name);

		if (strncasecmp(*s, units[i].name, n) == 0) {
			*s += n;
			return units[i].ms;
		}
	}
	return 0;
}

int num_duration(const char *s, uint64_t *ret)
{
	uint64_t total = 0;

	do {
		uint64_t milli, unit;
		unsigned __int128 ms;
		int r = decimal(&s, &milli);

		if (r < 0)
			return r;
		unit = *s ? duration_unit(&s) : 1000; /* a bare number is seconds, as in OpenSSH */
		if (!unit)
			return -EINVAL;
		ms = (unsigned __int128)milli * unit / 1000 + total;
		if (ms > INT64_MAX)
			return -ERANGE;
		total = (uint64_t)ms;
	} while (*s);
	*ret = total;
	return 0;
}

void num_size_text(uint64_t bytes, char *out, size_t n)
{
	static const char units[] = "bkmgt";
	size_t u = 0;

	while (u < 4 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		u++;
	}
	(void)snprintf(out, n, u ? "%llu%c" : "%llu", (unsigned long long)bytes, units[u]);
}

void num_duration_text(uint64_t ms, char *out, size_t n)
{
	bool whole = ms % 1000 == 0;

	(void)snprintf(out, n, whole ? "%llus" : "%llums",
		       (unsigned long long)(whole ? ms / 1000 : ms));
}
