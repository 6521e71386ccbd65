/* SPDX-License-Identifier: Apache-2.0 */
/* model/migrate/migrate.c - checks the old form, has its text rewritten, proves that nothing was
 * lost. */
#include "model/migrate/migrate.h"

#include "base/bytes/yaml.h"
#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "model/migrate/migrate_internal.h"

#define TREE_MAX ((size_t)32 << 20)

static const char *const old_keys[] = { "enabled",      "image",           "network",
					"memory_limit", "cpu_limit",       "read_only_rootfs",
					"bind_mounts",  "env_passthrough", "extra_args",
					"user",         "runtime",         NULL };

/* --- the proof --- */

/* Every old key is in its new place, and nothing else is there. */
static bool same_sandbox(const void *arg, const struct node *docker, const struct node *b)
{
	const struct migrate_job *j = arg;
	const struct node *made = node_get(b, "backend"), *sub = node_get(b, "docker");
	size_t stay = 1, moved = 0;

	if (!b->key || !str_eq(b->key, "sandbox") || !made || made->kind != NODE_SCALAR ||
	    !str_eq(made->text, migrate_backend(j)))
		return false;
	for (const struct node *n = docker->first; n; n = n->next) {
		const struct node *now = node_get(migrate_moves(n) ? sub : b, n->key);

		if (str_eq(n->key, "enabled"))
			continue;
		if (!now || !node_same(n, now, NULL, NULL, NULL))
			return false;
		moved += migrate_moves(n);
		stay += !migrate_moves(n);
	}
	return b->count == stay + (moved > 0) && (sub ? sub->count : 0) == moved;
}

/* --- the whole --- */

static int check_old(struct migrate_job *j, struct err *e)
{
	const struct source src = { .name = j->name };
	const struct node *enabled = node_get(j->docker, "enabled");

	if (node_get(j->security, "sandbox")) {
		(void)node_key_error(j->name, j->docker, e,
				     "security has docker and sandbox at the same time");
		return err_hint(e, "remove the one that no longer counts");
	}
	if (read_only_keys(&src, j->docker, old_keys, "security.docker", e) < 0)
		return -e->code;
	if (enabled && enabled->kind != NODE_NULL)
		return node_bool(j->name, enabled, &j->enabled, e);
	return 0;
}

static int migrate(struct migrate_job *j, struct arena *a, const struct node *root, struct err *e)
{
	struct node *again;
	struct err broken;

	if (check_old(j, e) < 0 || migrate_rewrite(j, a, e) < 0)
		return -e->code;
	if (j->out->failed)
		return err_nomem(e);
	if (yaml_parse(a, j->name, buf_str(j->out), j->out->len, &again, &broken) < 0 ||
	    !node_same(root, again, j->docker, same_sandbox, j))
		return migrate_unable(j, e);
	return 0;
}

int migrate_file(const char *name, const char *data, size_t n, struct buf *out, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(TREE_MAX);
	CLEANUP(buf) struct buf made = BUF_INIT(2 * n + 4096);
	struct migrate_job j = { .name = name, .out = &made };
	struct node *root;

	if (!a)
		return err_nomem(e);
	if (yaml_parse(a, name, data, n, &root, e) < 0 || edit_lines(a, data, n, &j.text, e) < 0)
		return -e->code;
	j.newline = edit_newline(&j.text);
	j.security = node_get(node_get(root, "spec"), "security");
	if (!node_get(j.security, "docker"))
		j.security = node_get(root, "security");
	j.docker = node_get(j.security, "docker");
	if (j.docker && migrate(&j, a, root, e) < 0)
		return -e->code;
	buf_add(out, j.docker ? made.data : data, j.docker ? made.len : n);
	return out->failed ? err_nomem(e) : 0;
}
