/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_query.c - a parameter is decoded within its room, or refused. */
#include <errno.h>

#include "fuzz.h"

#include "http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size), out[32];
	struct http_call c = { .query = text };

	for (size_t nth = 0; nth < 4; nth++) {
		int r = http_param_nth(&c, "label", nth, out, sizeof(out));

		require(r == -ENOENT || r == -EINVAL || (r >= 0 && strlen(out) == (size_t)r));
		if (r == -ENOENT)
			require(http_param_nth(&c, "label", nth + 1, out, sizeof(out)) == -ENOENT);
	}
	(void)http_param(&c, "limit", out, sizeof(out));
	free(text);
	return 0;
}
