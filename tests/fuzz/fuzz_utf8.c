/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_utf8.c - characters are found as a decoder finds them, a cut gives up at most the bytes
 * of one unfinished character. */
#include "fuzz.h"

#include "base/text/str.h"

/* Decodes instead of classifying; 0: not UTF-8. */
static size_t decoded_len(const uint8_t *u, size_t n)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = u[0] < 0x80       ? 1
		     : u[0] >> 5 == 6  ? 2
		     : u[0] >> 4 == 14 ? 3
		     : u[0] >> 3 == 30 ? 4
				       : 0;
	uint32_t code = len > 1 ? u[0] & (0xffU >> (len + 1)) : u[0];

	if (!len || len > n)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if (u[i] >> 6 != 2)
			return 0;
		code = code << 6 | (u[i] & 0x3fU);
	}
	return code >= least[len] && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? len
											     : 0;
}

static void check_cut(const char *p, size_t n)
{
	size_t cut = utf8_cut(p, n), left = n - cut;

	require(cut <= n && left <= 3);
	if (left) {
		uint8_t lead = (uint8_t)p[cut];

		require(lead >= 0xc2 && lead <= 0xf4 && utf8_len(p + cut, left) == 0);
		for (size_t i = 1; i < left; i++)
			require(((uint8_t)p[cut + i] & 0xc0) == 0x80);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;
	const char *const words[] = { "policy", "backend", "network", "workdir", NULL };
	char *text = text_of(data, size);

	for (size_t i = 0; i < size; i++)
		require(utf8_len(p + i, size - i) == decoded_len(data + i, size - i));
	for (size_t n = 0; n <= size && n < 64; n++)
		check_cut(p, n);
	check_cut(p, size);
	(void)str_nearest(text, words);
	(void)str_has_control(text);
	free(text);
	return 0;
}
