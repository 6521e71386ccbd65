/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_interp.c - a line of a context's program is one of its answers, whole, or none. */
#include "fuzz.h"

#include "interp/interp_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct interp_answer a;
	bool ok = interp_answer_read((const char *)data, size, &a);

	require(ok == (a.root != NULL));
	if (!ok)
		return 0;
	require(a.type <= INTERP_DONE);
	require(a.type != INTERP_OUT || (a.text && (a.stream == 1 || a.stream == 2)));
	require(a.type != INTERP_FAIL || (a.text && a.name && a.message));
	require(a.type != INTERP_DONE ||
		(a.end <= INTERP_INTERRUPTED && a.code >= 0 && a.code <= 255));
	for (int m = 0; m < MIME_COUNT; m++)
		if (a.data[m] && interp_mime_image((enum interp_mime)m))
			require(!strpbrk(a.data[m], "\"'<>\\ \n") && strlen(a.data[m]) % 4 == 0);
	interp_answer_done(&a);
	return 0;
}
