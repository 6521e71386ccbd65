/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_envfile.c - an env file, and IronClaw's settings from it.
 *
 * Accepted lines have sound names that occur once, in rising order. As settings they keep the proxy
 * and its groups; read as if they stood in the environment they never hold the opt-in for a run on
 * the host. */
#include "fuzz.h"

#include "model/dialect/dialect.h"
#include "model/dialect/foreign.h"
#include "model/known/image_name.h"
#include "model/settings/envrules.h"
#include "model/settings/groups.h"

static void require_lines(const struct env_line *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		require(env_name_valid(v[i].name) && v[i].value && v[i].line > 0);
		require(i == 0 || v[i].line > v[i - 1].line);
		for (size_t j = 0; j < i; j++)
			require(strcmp(v[i].name, v[j].name) != 0);
	}
}

static void require_sound(const struct spec *s)
{
	struct err e;

	require(s->network == NETWORK_PROXY && s->egress.groups.n == GROUP_COUNT);
	require(s->backend == BACKEND_DOCKER || s->backend == BACKEND_NONE);
	require(s->user.uid == 1000 && s->read_only_root && s->egress.https_only);
	require(image_valid(s->image) && s->limits.memory >= 1 << 20 && s->command.timeout >= 1000);
	for (size_t i = 0; i < s->egress.allow.n; i++)
		require(host_check(s->egress.allow.v[i], &e) == 0);
}

static void read_as(enum origin by, const struct env_line *v, size_t n)
{
	const struct source src = { .name = "f",
				    .folder = "/src",
				    .home = "/home/me",
				    .origin = by,
				    .trusted = by == ORIGIN_FILE };
	struct err e = { 0 };
	struct spec *s = spec_new(&e);
	int r;

	require(s != NULL);
	r = ironclaw_read(s, &src, v, n, &e);
	require(r <= 0 && (r == 0 || (e.code == -r && e.what[0])));
	if (r == 0 && by == ORIGIN_FILE)
		require_sound(s);
	require(by == ORIGIN_FILE || !s->full_access_ok);
	(void)spec_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct source src = { .name = "f" };
	struct arena *a = arena_new((size_t)8 << 20);
	struct env_line *v = NULL;
	struct err e = { 0 };
	size_t n = 0;
	int r;

	require(a != NULL);
	r = env_file_parse(a, &src, (const char *)data, size, &v, &n, &e);
	require(r <= 0 && (r == 0 || (e.code == -r && e.what[0])));
	if (r == 0) {
		require_lines(v, n);
		read_as(ORIGIN_FILE, v, n);
		read_as(ORIGIN_ENVIRONMENT, v, n);
	}
	(void)arena_free(a);
	return 0;
}
