/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_kube_plugin.c - what a credential plugin prints. */
#include "fuzz.h"

#include "kube/api/kube_plugin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = arena_new((size_t)4 << 20);
	struct kube_given g;
	struct err e = { 0 };

	require(a != NULL);
	if (kube_plugin_read(a, "client.authentication.k8s.io/v1", (const char *)data, size, &g,
			     &e) == 0) {
		require(g.token || (g.cert && g.key));
		require(!g.token || kube_token_valid(g.token));
		require(!g.cert == !g.key);
	} else {
		require(e.code && e.what[0]);
	}
	(void)arena_free(a);
	return 0;
}
