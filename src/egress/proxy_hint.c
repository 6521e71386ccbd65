/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/proxy_hint.h"

#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "egress/rules/upstream_proxy.h"

static const char *const variables[] = { "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy" };

static const char *value_of(char *const *envp, const char *name)
{
	size_t n = strlen(name);

	for (; envp && *envp; envp++)
		if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=' && (*envp)[n + 1])
			return *envp + n + 1;
	return NULL;
}

/* What a setting may say of it: neither user nor password, and nothing behind the port. */
static bool proxy_address(const char *text, char *out, size_t size, bool *login)
{
	size_t scheme = str_starts(text, "https://") ? 8 : str_starts(text, "http://") ? 7 : 0;
	const char *at = text + scheme, *end = at + strcspn(at, "/?#"), *user;
	struct upstream_proxy p;
	struct err e;

	user = memrchr(at, '@', (size_t)(end - at));
	*login = user != NULL;
	at = user ? user + 1 : at;
	if (snprintf(out, size, "%s%.*s", scheme == 8 ? "https://" : "http://", (int)(end - at),
		     at) >= (int)size)
		return false;
	return !strstr(text + scheme, "://") && chain_parse(out, &p, &e) == 0;
}

bool proxy_hint(char *const *envp, char out[PROXY_HINT_SIZE])
{
	const char *text = NULL, *name = NULL;
	char address[300];
	bool login = false;

	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables) && !text; i++)
		text = value_of(envp, name = variables[i]);
	if (!text)
		return false;
	if (proxy_address(text, address, sizeof(address), &login))
		(void)snprintf(out, PROXY_HINT_SIZE,
			       "%s names a proxy, which brig takes from its own settings: --set "
			       "egress.upstream_proxy=%s%s",
			       name, address, login ? " (its login: egress.upstream_login)" : "");
	else
		(void)snprintf(out, PROXY_HINT_SIZE,
			       "%s names a proxy, which brig takes from its own settings: --set "
			       "egress.upstream_proxy=http://HOST:PORT",
			       name);
	return true;
}
