/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_hello.c - a ClientHello: what is found lies inside, and less of it is never more. */
#include "fuzz.h"

#include "wire/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char scratch[HELLO_MAX];
	struct hello h = { 0 };
	char *copy = malloc(size + 1);
	int r;

	require(copy != NULL);
	memcpy(copy, data, size);
	r = hello_read(copy, size, scratch, &h);
	if (r == 1 && h.name) {
		require(h.name >= (const char *)scratch &&
			h.name + h.name_len <= (const char *)scratch + HELLO_MAX);
		require(h.name_len > 0 && !memchr(h.name, '\0', h.name_len));
	}
	if (r == 0 && size)
		require(hello_read(copy, size - 1, scratch, &h) == 0);
	free(copy);
	return 0;
}
