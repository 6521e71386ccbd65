/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_yaml.c - any bytes become a tree or an error with a place.
 *
 * A tree has at most 64 levels, counts its children, has no key twice in a map and no NUL in a
 * text; its positions lie in the input. An error begins with the file's name. */
#include "fuzz.h"

#include "base/bytes/yaml.h"
#include "base/text/str.h"

static void require_node(const struct node *n, int depth, int lines)
{
	size_t count = 0;

	require(depth <= 64);
	require(n->line >= 1 && n->line <= lines && n->column >= 1);
	require((n->kind == NODE_SCALAR) == (n->text != NULL));
	require(n->kind == NODE_LIST || n->kind == NODE_MAP || !n->first);
	for (const struct node *c = n->first; c; c = c->next, count++) {
		require((n->kind == NODE_MAP) == (c->key != NULL));
		require(!c->key || (c->key[0] && !str_has_control(c->key)));
		require(!c->key || node_get(n, c->key) == c);
		require(!c->key || c->key_line >= 1);
		require_node(c, depth + 1, lines);
	}
	require(count == n->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = arena_new((size_t)16 << 20);
	struct node *root = NULL;
	struct err e = { 0 };
	int lines = 2; /* the end of the input may stand behind a last line break */

	require(a != NULL);
	/* YAML also breaks lines at a carriage return and at three characters of Unicode. */
	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n' || data[i] == '\r' || data[i] == 0x85 || data[i] == 0xa8 ||
			 data[i] == 0xa9;
	if (yaml_parse(a, "f.yaml", (const char *)data, size, &root, &e) == 0) {
		require(root && !e.code);
		require_node(root, 0, lines);
	} else {
		require(e.code > 0 && (str_starts(e.what, "f.yaml:") || e.code == ENOMEM));
	}
	(void)arena_free(a);
	return 0;
}
