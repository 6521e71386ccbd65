/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_edit.c - what the finders say of any text lies inside of it.
 *
 * A member of JSON that was found can be taken out, and is not found then; a table of TOML that was
 * put in can be cut out again; places of YAML's tree are in the text. */
#include "fuzz.h"

#include "base/edit/edit_json.h"
#include "base/edit/edit_toml.h"
#include "base/edit/edit_yaml.h"

#define TEXT_MAX ((size_t)4 << 20)

static void require_inside(const struct edit_text *t, struct edit_span s)
{
	require(s.from <= s.to && s.to <= t->n);
}

static void find_json(const struct edit_text *t)
{
	CLEANUP(buf) struct buf cut = BUF_INIT(TEXT_MAX), more = BUF_INIT(TEXT_MAX);
	struct edit_text less;
	struct edit_member m;
	struct err e = { 0 };
	size_t begin = edit_json_blank(t, 0);

	require(begin <= t->n);
	if (edit_json_find(t, begin, "a", &m, &e) < 0) {
		require(e.code > 0);
		return;
	}
	require_inside(t, m.object);
	require_inside(t, m.last);
	if (!m.value.to) {
		edit_json_add(t, &m, "a", "1", &more);
		less = (struct edit_text){ .p = buf_str(&more), .n = more.len };
		require(edit_json_find(&less, begin, "a", &m, &e) == 0 && m.value.to);
		return;
	}
	require_inside(t, m.key);
	require_inside(t, m.value);
	edit_json_cut(t, &m, &cut);
	less = (struct edit_text){ .p = buf_str(&cut), .n = cut.len };
	require(cut.len < t->n);
	require(edit_json_find(&less, begin, "a", &m, &e) == 0 && !m.value.to);
}

static void find_toml(const struct edit_text *t)
{
	CLEANUP(buf) struct buf with = BUF_INIT(TEXT_MAX), without = BUF_INIT(TEXT_MAX);
	struct edit_text made;
	struct err e = { 0 };

	if (edit_toml_table(t, "s", "a", "b = 1\n", &with, &e) < 0) {
		require(e.code > 0);
		return;
	}
	made = (struct edit_text){ .p = buf_str(&with), .n = with.len };
	require(edit_toml_table(&made, "s", "a", NULL, &without, &e) == 0);
	require(without.len < with.len);
}

/* Depth is bounded by the reader. */
static void visit(const struct edit_text *t, const struct node *n)
{
	size_t at = edit_yaml_at(t, n->line, n->column), len = 0;

	require(at <= t->n);
	require(at > t->n || edit_yaml_flow_end(t, at) <= t->n);
	require(edit_line(t, (size_t)n->line) + edit_yaml_item_head(t, n) <= t->n);
	if (n->key && edit_yaml_key_leads(t, n, &len)) {
		size_t line = (size_t)n->key_line - 1, end;

		require(t->start[line] + edit_yaml_indent(t, line) + len <= t->n);
		end = edit_yaml_block_end(t, line, edit_yaml_indent(t, line));
		require(end > line && end <= t->lines);
		require(edit_yaml_content_end(t, line, end) <= end);
	}
	for (const struct node *c = n->first; c; c = c->next)
		visit(t, c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)64 << 20);
	CLEANUP(buf) struct buf diff = BUF_INIT((size_t)8 << 20);
	struct edit_text t;
	struct node *root;
	struct err e = { 0 };

	require(a && edit_lines(a, (const char *)data, size, &t, &e) == 0);
	for (size_t i = 1; i <= t.lines; i++)
		require(edit_line(&t, i) < edit_line(&t, i + 1));
	edit_diff("f", &t, t.lines / 2 + 1, t.lines ? 1 : 0, &diff);
	find_json(&t);
	find_toml(&t);
	if (yaml_parse(a, "f", t.p, t.n, &root, &e) == 0)
		visit(&t, root);
	return 0;
}
