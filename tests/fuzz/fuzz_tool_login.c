/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_tool_login.c - files of tools, of which only logins may enter a sandbox. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/monitor/tool_login.h"

static const char *const names[] = { "claude", "codex", "git", "npm", "opencode" };

/* What of a hostile file comes back into one of the host's: tokens and times, and nothing else. */
static void come_back(const uint8_t *data, size_t size)
{
	static const struct {
		const char *name, *host;
	} all[] = {
		{ "claude",
		  "{\"claudeAiOauth\":{\"accessToken\":\"a\",\"expiresAt\":1},\"x\":[1]}" },
		{ "codex",
		  "{\"tokens\":{\"id_token\":\"a\",\"account_id\":\"me\"},\"notify\":[]}" },
		{ "opencode", "{\"p\":{\"type\":\"oauth\",\"access\":\"a\",\"expires\":1}}" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		CLEANUP(buf) struct buf out = BUF_INIT((size_t)1 << 20);

		if (tool_login_renew(tool_login_find(all[i].name), all[i].host, strlen(all[i].host),
				     (const char *)data, size, &out) < 0)
			continue;
		require(!strpbrk(buf_str(&out), " \t\n\\$`'"));
		require(i != 0 || strstr(buf_str(&out), "},\"x\":[1]}"));
		require(i != 1 || strstr(buf_str(&out), "\"account_id\":\"me\"},\"notify\":[]}"));
		require(i != 2 || strstr(buf_str(&out), "\"type\":\"oauth\",\"access\":\""));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	come_back(data, size);
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
