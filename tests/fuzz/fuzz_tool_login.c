/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_tool_login.c - files of tools, of which only logins may enter a sandbox. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/tool_login.h"

static const char *const names[] = { "claude", "codex", "git", "npm", "opencode" };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CLEANUP(buf) struct buf out = BUF_INIT((size_t)1 << 20);
		char *text = malloc(size + 1);

		if (!text)
			return 0;
		memcpy(text, data, size);
		text[size] = '\0';
		/* npm runs what these name. */
		if (tool_login_take(tool_login_find(names[i]), text, size, &out) == 0 && i == 3 &&
		    out.len)
			require(!strstr(buf_str(&out), "${"));
		free(text);
	}
	return 0;
}
