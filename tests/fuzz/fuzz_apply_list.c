/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_apply_list.c - the list of an apply, as it may lie on a disk: what is taken leads below
 * the workspace and the stage, and is written back as the same bytes. */
#include "fuzz.h"

#include "workspace/apply_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = BUF_INIT((size_t)8 << 20);
	struct apply_list l = { 0 };
	char staged[PATH_MAX];

	if (size > (size_t)1 << 20 || apply_list_read((const char *)data, size, &l) < 0)
		return 0;
	for (size_t i = 0; i < l.n; i++) {
		require(change_path_ok(l.ops[i].path) && l.ops[i].root <= i);
		if (apply_staged_name(&l, i, staged) == 0)
			require(change_path_ok(staged));
	}
	apply_list_write(&l, &b);
	require(!b.failed && b.len == size && memcmp(b.data, data, size) == 0);
	buf_done(&b);
	apply_list_done(&l);
	return 0;
}
