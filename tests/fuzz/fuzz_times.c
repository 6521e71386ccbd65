/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_times.c - a point in time is read or refused, and what brig writes of it reads back. */
#include <errno.h>

#include "fuzz.h"

#include "audit/read/times.h"

#define UNTOUCHED INT64_C(0x0123456789abcdef)
#define NOW INT64_C(1767322984000000)
#define YEAR_10000 INT64_C(253402300800000000)

static void reads_back(int64_t t)
{
	char text[64];
	int64_t again = UNTOUCHED;

	time_text(t, text, sizeof(text));
	require(time_parse(text, strlen(text), &again) == 0 && again == t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size);
	int64_t t = UNTOUCHED;
	int r = time_parse((const char *)data, size, &t);

	require(r == 0 || (r == -EINVAL && t == UNTOUCHED));
	if (r == 0 && t >= 0 && t < YEAR_10000) /* a leap second may reach it */
		reads_back(t);
	t = UNTOUCHED;
	r = time_when(text, NOW, &t);
	require(r == 0 || (r == -EINVAL && t == UNTOUCHED));
	free(text);
	return 0;
}
