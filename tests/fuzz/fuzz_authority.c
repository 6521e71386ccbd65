/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_authority.c - a record of an authority that is read can be written as the same. */
#include "fuzz.h"

#include "egress/authority/prepared.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf out = BUF_INIT(2 * PREPARED_MAX);
	struct prepared_record r;

	if (size <= PREPARED_MAX && prepared_read((const char *)data, size, &r) == 0) {
		require(r.key_len > 0 && r.key_len <= PREPARED_KEY_MAX);
		require(strlen(r.pem) > 0 && strlen(r.pem) < PREPARED_PEM_MAX);
		require(prepared_write(&r, &out) == 0);
		require(out.len == size && memcmp(out.data, data, size) == 0);
	}
	buf_done(&out);
	return 0;
}
