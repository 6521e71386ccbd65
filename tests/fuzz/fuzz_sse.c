/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_sse.c - a stream of events is understood the same in one piece and byte by byte. */
#include "fuzz.h"

#include "http/sse.h"

enum { LIMIT = 4096 };

static uint64_t digest(uint64_t sum, const struct sse *s)
{
	for (const char *p = s->type; *p; p++)
		sum = sum * 31 + (unsigned char)*p;
	for (size_t i = 0; i < s->data.len; i++)
		sum = sum * 31 + (unsigned char)s->data.data[i];
	return sum * 31 + s->id + 1;
}

static uint64_t read_all(const char *p, size_t n, size_t step)
{
	struct sse s = SSE_INIT(LIMIT);
	uint64_t sum = 7;

	while (n) {
		size_t some = n < step ? n : step;
		bool whole;
		ssize_t took = sse_take(&s, p, some, &whole);

		if (took < 0) {
			sum = 0;
			break;
		}
		require((size_t)took <= some && took > 0);
		if (whole)
			sum = digest(sum, &s);
		p += took;
		n -= (size_t)took;
	}
	sse_done(&s);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t whole = read_all((const char *)data, size, size);

	require(read_all((const char *)data, size, 1) == whole);
	require(read_all((const char *)data, size, 7) == whole);
	return 0;
}
