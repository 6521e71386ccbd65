/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_keys.c - the way out is found however what is typed is cut into pieces, and three plain
 * keys in a row are always it. */
#include "fuzz.h"

#include "sandbox/keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct keys whole = { 0 }, cut = { 0 };
	size_t step = size ? data[0] % 7 + 1 : 1;
	bool at_once, in_pieces = false;

	if (size < 2)
		return 0;
	data++;
	size--;
	at_once = keys_leave(&whole, (const char *)data, size, 1);
	for (size_t i = 0; i < size && !in_pieces; i += step)
		in_pieces = keys_leave(&cut, (const char *)data + i,
				       size - i < step ? size - i : step, 1);
	require(at_once == in_pieces);
	if (!at_once)
		require(keys_leave(&whole, "\x1c\x1c\x1c", 3, 2));
	return 0;
}
