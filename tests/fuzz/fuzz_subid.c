/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_subid.c - is a range of ids free of a text like /etc/subuid? Compared with a slow
 * reader that knows no overflow; what it cannot read counts as taken. */
#include "fuzz.h"

#include "backend/kit/plan/ids.h"

#define RANGE 65536U
#define LINE_ROOM 256 /* a longer line is not read, and so taken */

/* Digits at *p up to `stop` as a number that never wraps; false when it is none. */
static bool number(const char **p, const char *end, unsigned __int128 *ret)
{
	unsigned __int128 v = 0;
	const char *from = *p;

	for (; *p < end && **p >= '0' && **p <= '9'; (*p)++)
		if (v <= UINT64_MAX)
			v = v * 10 + (unsigned)(**p - '0');
	*ret = v;
	return *p > from && v <= UINT64_MAX;
}

static bool line_leaves_free(const char *p, const char *end, uint32_t first)
{
	unsigned __int128 from, count;

	if (p == end || *p == '#')
		return true;
	if (end - p >= LINE_ROOM)
		return false;
	p = memchr(p, ':', (size_t)(end - p));
	if (!p)
		return false;
	p++;
	if (!number(&p, end, &from) || p == end || *p++ != ':' || !number(&p, end, &count) ||
	    p != end)
		return false;
	return from >= (unsigned __int128)first + RANGE || from + count <= first;
}

static bool slowly(const char *text, uint32_t first)
{
	bool is_free = true;

	while (*text) {
		const char *end = text + strcspn(text, "\n");

		is_free &= line_leaves_free(text, end, first);
		text = *end ? end + 1 : end;
	}
	return is_free;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size);
	static const uint32_t starts[] = { 0,          65536,      100000,    0x20000000,
					   0x2fff0000, 0xfffe0000, 0xffff0000 };

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		require(ids_range_free(text, starts[i]) == slowly(text, starts[i]));
	free(text);
	return 0;
}
