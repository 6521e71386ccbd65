/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_num.c - a number is read or refused, never both, and reads back from brig's own text.
 */
#include <errno.h>

#include "fuzz.h"

#include "base/text/num.h"

#define UNTOUCHED ((uint64_t)0x0123456789abcdef)

typedef int reader(const char *s, uint64_t *ret);

static bool reads(reader *read, const char *text, uint64_t *v)
{
	int r;

	*v = UNTOUCHED;
	r = read(text, v);
	require(r == 0 || ((r == -EINVAL || r == -ERANGE) && *v == UNTOUCHED));
	if (r == 0)
		require(text[0] >= '0' && text[0] <= '9');
	return r == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size), back[32];
	uint64_t v, again;

	if (reads(num_count, text, &v))
		require(strspn(text, "0123456789") == strlen(text));
	(void)reads(num_milli, text, &v);
	if (reads(num_size, text, &v)) {
		require(v <= INT64_MAX);
		num_size_text(v, back, sizeof(back));
		if (v < (uint64_t)1 << 54)
			require(reads(num_size, back, &again) && again == v);
	}
	if (reads(num_duration, text, &v)) {
		require(v <= INT64_MAX);
		num_duration_text(v, back, sizeof(back));
		if (v < (uint64_t)1 << 53)
			require(reads(num_duration, back, &again) && again == v);
	}
	free(text);
	return 0;
}
