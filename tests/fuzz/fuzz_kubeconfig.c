/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_kubeconfig.c - a kubeconfig: what is taken is asked over TLS, with text that fits a
 * header. */
#include "fuzz.h"

#include "base/text/str.h"
#include "kube/api/kubeconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct kube_begin nothing = { "", "", "", "", "", "", "", "" };
	struct arena *a = arena_new((size_t)16 << 20);
	struct kube_config c;
	struct err e = { 0 };

	require(a != NULL);
	if (kubeconfig_parse(a, "/x/config", (const char *)data, size, &nothing, &c, &e) == 0) {
		require(str_starts_nocase(c.server, "https://") && c.context && c.cluster &&
			c.namespace);
		require(!c.token || kube_token_valid(c.token));
		require(!c.ca_file || c.ca_file[0] == '/');
		require(!c.token_file || c.token_file[0] == '/');
		require((c.cert || c.cert_file) == (c.key || c.key_file));
		require(!c.plugin || (c.plugin->command && c.plugin->version));
	} else {
		require(e.code && e.what[0]);
	}
	(void)arena_free(a);
	return 0;
}
