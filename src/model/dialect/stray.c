/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/stray.c - settings that stand where nobody reads them.
 *
 * Two dialects are parts of larger documents, whose other keys are none of brig's business. A slip
 * in the line above a block, or in its indentation, makes the block one of those: it would be
 * tolerated, and the sandbox weaker than the file seems to say. So the words that only a sandbox
 * has are refused everywhere else. */
#include "base/text/str.h"
#include "model/dialect/dialect.h"

struct habitat {
	const char *const *words; /* anywhere outside the block */
	const char *const *maps;  /* the same, when the value is a map */
	const char *home;         /* where they belong, for the error */
};

static const char *const role_words[] = { "memory_limit", "cpu_limit", "read_only_rootfs",
					  "bind_mounts", NULL };
static const char *const role_maps[] = { "sandbox", NULL };
static const char *const rlm_words[] = {
	"memory_limit_mb",  "network_enabled",         "allowed_mount_roots", "env_allowlist",
	"superbox_profile", "default_timeout_seconds", "pure_rlm_backend",    NULL,
};
static const char *const rlm_maps[] = { "docker", "apple", NULL };

static const struct habitat role_habitat = { role_words, role_maps, "security.sandbox" };
static const struct habitat rlm_habitat = { rlm_words, rlm_maps, "sandbox" };

static bool stray_among(const char *s, const char *const *words)
{
	for (; *words; words++)
		if (str_eq(s, *words))
			return true;
	return false;
}

/* `block` is where the words are at home; `depth` is bounded by the YAML reader. */
static int stray_look(const struct habitat *h, const struct source *src, const struct node *n,
		      const struct node *const block[2], struct err *e)
{
	for (const struct node *c = n->first; c; c = c->next) {
		if (c == block[0] || c == block[1])
			continue;
		if (c->key && (stray_among(c->key, h->words) ||
			       (c->kind == NODE_MAP && stray_among(c->key, h->maps)))) {
			(void)node_key_error(src->name, c, e, "'%.60s' does not belong here",
					     c->key);
			return err_hint(e, "it counts only in %s: see the lines above it", h->home);
		}
		if (stray_look(h, src, c, block, e) < 0)
			return -e->code;
	}
	return 0;
}

int stray_check(enum dialect d, const struct source *src, const struct node *root, struct err *e)
{
	const struct node *spec = node_get(root, "spec");
	const struct node *roles[2] = { node_get(node_get(root, "security"), "sandbox"),
					node_get(node_get(spec, "security"), "sandbox") };
	const struct node *rlm[2] = { node_get(root, "sandbox"), NULL };

	if (d == DIALECT_INITRUNNER) {
		/* The old form is refused by name, with the way to the new one. */
		if (node_get(node_get(root, "security"), "docker") ||
		    node_get(node_get(spec, "security"), "docker"))
			return 0;
		return stray_look(&role_habitat, src, root, roles, e);
	}
	return d == DIALECT_RLM ? stray_look(&rlm_habitat, src, root, rlm, e) : 0;
}
