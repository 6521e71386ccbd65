/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_demux.c - the engine's stream comes apart the same way however it is cut, byte for
 * byte.
 *
 * The first byte: how the rest is cut into calls. */
#include <errno.h>

#include "fuzz.h"

#include "backend/docker/docker.h"

#define INPUT_MAX ((size_t)1 << 16)

/* Both streams' bytes, one behind the other in order; returns -EBADMSG or their number. */
static ssize_t apart(const char *p, size_t n, size_t step, char *out)
{
	struct demux d = { 0 };
	size_t done = 0;

	for (size_t at = 0; at < n; at += step) {
		size_t left = n - at < step ? n - at : step;
		const char *from = p + at, *data;
		size_t got;
		int stream;

		while ((stream = demux_next(&d, &from, &left, &data, &got)) > 0) {
			require(stream == 1 || stream == 2);
			require(got > 0 && data >= p + at && data + got <= p + n);
			for (size_t i = 0; i < got; i++) {
				out[done++] = (char)stream;
				out[done++] = data[i];
			}
		}
		if (stream < 0)
			return stream;
		require(left == 0);
	}
	return (ssize_t)done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *whole, *cut;
	ssize_t n, m;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	whole = malloc(2 * size);
	cut = malloc(2 * size);
	require(whole && cut);
	n = apart((const char *)data + 1, size - 1, size, whole);
	m = apart((const char *)data + 1, size - 1, (size_t)data[0] % 37 + 1, cut);
	require(n == m && (n <= 0 || memcmp(whole, cut, (size_t)n) == 0));
	free(whole);
	free(cut);
	return 0;
}
