/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_rlm.c - a file in RLM Code's dialect.
 *
 * Whatever is accepted stays inside what the dialect can say: docker, or the host only by the word
 * "local" and without the opt-in; no network or a bridge; bounds of the field table; flags that the
 * allow-list takes. */
#include "fuzz_dialect.h"

#include "model/dialect/extra_args.h"

static void require_sound(const struct spec *s, const char *text)
{
	require(s->backend == BACKEND_DOCKER || s->backend == BACKEND_NONE);
	require(s->backend != BACKEND_NONE || strcasestr(text, "local"));
	require(s->network == NETWORK_NONE ||
		(s->network == NETWORK_BRIDGE && strstr(text, "network_enabled")));
	require(s->policy == POLICY_WORKSPACE_WRITE && !s->full_access_ok && !s->mounts.n);
	require(s->limits.memory >= 1 << 20 && s->command.timeout >= 1000 && s->limits.pids == 256);
	require(s->mount_roots.n > 0);
	for (size_t i = 0; i < s->mount_roots.n; i++)
		require(s->mount_roots.v[i][0] == '/' && s->mount_roots.v[i][1]);
	require(extra_args_check(&s->docker.extra_args, EXTRA_ARGS_RLM, NULL, NULL,
				 &(struct err){ 0 }) == 0);
	require(s->docker.image && s->docker.image[0] && s->docker.image[0] != '-');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_dialect(data, size, rlm_read, require_sound);
	return 0;
}
