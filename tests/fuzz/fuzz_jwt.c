/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_jwt.c - the end of a login's token: whatever it says, a number that is not negative,
 * and none where there is no such text. */
#include "fuzz.h"

#include "model/known/login_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + 1);

	require(text != NULL);
	memcpy(text, data, size);
	require(login_jwt_end(text) >= 0);
	require(strchr(text, '.') || login_jwt_end(text) == 0);
	free(text);
	return 0;
}
