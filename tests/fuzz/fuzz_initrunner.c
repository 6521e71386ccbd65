/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_initrunner.c - a role file: read into a spec, and rewritten from its old form.
 *
 * What is taken shows no folder of the system, has finite limits and no word the dialect does not
 * know. What is rewritten reads as YAML, is never the old form, and stays as it is a second time.
 */
#include "fuzz.h"

#include "base/text/buf.h"
#include "model/dialect/extra_args.h"
#include "model/dialect/initrunner/initrunner.h"
#include "model/migrate/migrate.h"
#include "model/settings/paths.h"

static const struct source from = { .name = "role.yaml",
				    .folder = "/role/dir",
				    .home = "/home/me",
				    .cwd = "/project",
				    .origin = ORIGIN_FILE };

static void require_inside(const char *path)
{
	require(path[0] == '/' && !strchr(path, ':'));
	require(path_under(path, "/role/dir") || path_under(path, "/project"));
}

static void require_sane(const struct spec *s)
{
	require(s->backend != BACKEND_NATIVE && s->backend != BACKEND_KUBERNETES);
	require(s->network != NETWORK_PROXY);
	require(s->backend != BACKEND_SSH || (s->ssh.host && s->ssh.host[0] != '-'));
	require(s->backend != BACKEND_SSH || !(s->mounts.n + s->read.n + s->write.n));
	require(s->limits.memory >= 1 << 20 && s->limits.cpus && s->limits.pids &&
		s->command.timeout);
	require(!s->full_access_ok && !s->user.given);
	for (size_t i = 0; i < s->mounts.n; i++)
		require_inside(s->mounts.v[i].source);
	for (size_t i = 0; i < s->read.n; i++)
		require_inside(s->read.v[i]);
	for (size_t i = 0; i < s->write.n; i++)
		require_inside(s->write.v[i]);
}

static void read_role(const struct node *root)
{
	const struct place at = { .cwd = "/project", .home = "/home/me" };
	struct err e = { 0 };
	struct spec *s = spec_new(&e);
	struct role role;
	int r;

	require(s != NULL);
	r = initrunner_read_role(s, &from, from.cwd, root, &role, &e);
	require(r == 0 || (r == -e.code && e.what[0]));
	if (r == 0) {
		require_sane(s);
		require(extra_args_check(&s->docker.extra_args, EXTRA_ARGS_INITRUNNER, NULL, NULL,
					 &e) == 0);
		(void)spec_check(s, &at, &e);
	}
	(void)spec_free(s);
}

static void rewrite(struct arena *a, const uint8_t *data, size_t size)
{
	struct buf once = BUF_INIT(4 << 20), twice = BUF_INIT(4 << 20);
	struct err e = { 0 };
	struct node *root;

	if (migrate_file("role.yaml", (const char *)data, size, &once, &e) == 0) {
		require(yaml_parse(a, "new", buf_str(&once), once.len, &root, &e) == 0);
		require(!node_get(node_get(root, "security"), "docker") ||
			node_get(node_get(node_get(root, "spec"), "security"), "sandbox"));
		if (migrate_file("new", buf_str(&once), once.len, &twice, &e) == 0 &&
		    !node_get(node_get(root, "security"), "docker"))
			require(once.len == twice.len &&
				(!once.len || memcmp(once.data, twice.data, once.len) == 0));
	} else {
		require(once.len == 0 && e.what[0]);
	}
	buf_done(&once);
	buf_done(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = arena_new((size_t)64 << 20);
	struct err e = { 0 };
	struct node *root;

	require(a != NULL);
	if (size <= 65536 && yaml_parse(a, "role.yaml", (const char *)data, size, &root, &e) == 0) {
		read_role(root);
		rewrite(a, data, size);
	}
	(void)arena_free(a);
	return 0;
}
