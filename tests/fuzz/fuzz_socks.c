/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_socks.c - what a SOCKS client says is taken whole or not at all. */
#include "fuzz.h"

#include "wire/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char *copy = malloc(size + 1);
	struct socks_request q;
	ssize_t n;

	require(copy != NULL);
	memcpy(copy, data, size);
	n = socks_read_greeting(copy, size);
	require(n <= (ssize_t)size);
	n = socks_read_request(copy, size, &q);
	require(n <= (ssize_t)size);
	if (n > 0) {
		struct socks_request less;

		require(q.host_len > 0 && q.host_len <= SOCKS_HOST_MAX);
		require(socks_read_request(copy, (size_t)n - 1, &less) == 0);
	}
	free(copy);
	return 0;
}
