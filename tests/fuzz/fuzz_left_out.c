/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_left_out.c - what was left out of an archive is read as it was said, and in bounds. */
#include "fuzz.h"

#include "daemon/shared/left_out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf) struct buf names = BUF_INIT((size_t)1 << 20);
	CLEANUP(buf) struct buf said = BUF_INIT((size_t)4 << 20);
	CLEANUP(buf) struct buf again = BUF_INIT((size_t)1 << 20);
	uint64_t count;

	if (size > 65536)
		return 0;
	count = left_out_read((const char *)data, size, &names);
	require(left_out_read((const char *)data, size, NULL) == count);
	left_out_put(&said, count, names.data, names.len);
	for (size_t i = 0; i < said.len; i++)
		require(said.data[i] >= ' ' && said.data[i] < 0x7f);
	require(left_out_read(said.data, said.len, &again) == count);
	require(again.len == names.len &&
		(!again.len || memcmp(again.data, names.data, again.len) == 0));
	return 0;
}
