/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_agents.c - a file in the dialect of agents-sandbox.
 *
 * Whatever is accepted has an image, never the host's network, only absolute paths that are neither
 * a system root nor an engine's socket, targets and ports that occur once, and companions whose
 * hooks have a health check. */
#include "fuzz_dialect.h"

#include "model/dialect/foreign.h"
#include "model/known/image_name.h"

static void require_path(const char *path)
{
	const char *base = strrchr(path, '/');

	require(path[0] == '/' && path[1] && strcmp(path, "/etc") != 0 &&
		strcmp(base, "/docker.sock") != 0);
}

static void require_files(const struct spec *s)
{
	for (size_t i = 0; i < s->mounts.n; i++) {
		require_path(s->mounts.v[i].source);
		require_path(s->mounts.v[i].target);
		for (size_t j = 0; j < i; j++)
			require(strcmp(s->mounts.v[i].target, s->mounts.v[j].target) != 0);
		for (size_t j = 0; j < s->copies.n; j++)
			require(strcmp(s->mounts.v[i].target, s->copies.v[j].target) != 0);
	}
	for (size_t i = 0; i < s->copies.n; i++)
		require_path(s->copies.v[i].source);
	require(s->no_workspace || s->workdir[0] == '/');
}

static void require_companions(const struct spec *s)
{
	for (size_t i = 0; i < s->companions.n; i++) {
		const struct companion_spec *c = &s->companions.v[i];

		require(c->name[0] && image_valid(c->image));
		require(!c->post_start.n || c->health.test.n > 1);
	}
}

static void require_sound(const struct spec *s, const char *text)
{
	(void)text;
	require(image_valid(s->image));
	require(s->backend == BACKEND_DOCKER && s->network == NETWORK_BRIDGE);
	require(s->policy != POLICY_FULL_ACCESS && !s->full_access_ok);
	require(!s->limits.memory || s->limits.memory >= 6 << 20);
	for (size_t i = 0; i < s->ports.n; i++)
		for (size_t j = 0; j < i; j++)
			require(s->ports.v[i].host != s->ports.v[j].host ||
				strcmp(s->ports.v[i].protocol, s->ports.v[j].protocol) != 0);
	for (size_t i = 0; i < s->env.n; i++)
		require(strcmp(s->env.v[i].name, "HOST_UID") != 0);
	require_files(s);
	require_companions(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_dialect(data, size, agents_read, require_sound);
	return 0;
}
