/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_edit.c - where things stand in somebody's text, and that the rest of it stays. */
#include "unit.h"

#include "base/edit/edit_json.h"
#include "base/edit/edit_toml.h"
#include "base/edit/edit_yaml.h"

#define MOST ((size_t)1 << 16)

static struct edit_text text_of(const char *p)
{
	return (struct edit_text){ .p = p, .n = strlen(p) };
}

static void lines_are_counted_as_an_editor_counts_them(void **state)
{
	CLEANUP(arena) struct arena *a = arena_new(MOST);
	struct edit_text t;
	struct err e;

	(void)state;
	assert_int_equal(edit_lines(a, "a\nbb\n\nc", 7, &t, &e), 0);
	assert_int_equal(t.lines, 4);
	assert_int_equal(edit_line(&t, 1), 0);
	assert_int_equal(edit_line(&t, 2), 2);
	assert_int_equal(edit_line(&t, 4), 6);
	assert_int_equal(edit_line(&t, 5), 7);
	assert_int_equal(edit_line(&t, 500), 7);
	assert_string_equal(edit_newline(&t), "\n");
	assert_int_equal(edit_lines(a, "a\n", 2, &t, &e), 0);
	assert_int_equal(t.lines, 1);
	assert_int_equal(edit_lines(a, "a\r\nb", 4, &t, &e), 0);
	assert_string_equal(edit_newline(&t), "\r\n");
	assert_int_equal(edit_lines(a, "", 0, &t, &e), 0);
	assert_int_equal(t.lines, 0);
	assert_int_equal(edit_line(&t, 1), 0);
	assert_string_equal(edit_newline(&t), "\n");
}

static void what_is_replaced_is_the_span_alone(void **state)
{
	CLEANUP(buf) struct buf out = BUF_INIT(MOST);
	struct edit_text t = text_of("one two three");

	(void)state;
	edit_replace(&t, (struct edit_span){ 4, 7 }, "2", 1, &out);
	assert_string_equal(buf_str(&out), "one 2 three");
}

static void a_difference_shows_three_lines_on_either_side(void **state)
{
	CLEANUP(arena) struct arena *a = arena_new(MOST);
	CLEANUP(buf) struct buf out = BUF_INIT(MOST);
	struct edit_text t;
	struct err e;

	(void)state;
	assert_int_equal(edit_lines(a, "1\n2\n3\n4\nnew\n5\n6\n7\n8", 19, &t, &e), 0);
	edit_diff("f", &t, 5, 1, &out);
	assert_string_equal(buf_str(&out), "--- f\n+++ f\n@@ -2,6 +2,7 @@\n"
					   " 2\n 3\n 4\n+new\n 5\n 6\n 7\n");
	out.len = 0;
	assert_int_equal(edit_lines(a, "new\nlast", 8, &t, &e), 0);
	edit_diff("f", &t, 1, 1, &out);
	assert_string_equal(buf_str(&out), "--- f\n+++ f\n@@ -1,1 +1,2 @@\n+new\n last\n");
}

static void cuts_to(const char *before, const char *after)
{
	CLEANUP(buf) struct buf out = BUF_INIT(MOST);
	struct edit_text t = text_of(before);
	struct edit_member m;
	struct err e;

	assert_int_equal(edit_json_find(&t, edit_json_blank(&t, 0), "a", &m, &e), 0);
	assert_true(m.value.to > m.value.from);
	edit_json_cut(&t, &m, &out);
	assert_string_equal(buf_str(&out), after);
}

static void adds_to(const char *before, const char *after)
{
	CLEANUP(buf) struct buf out = BUF_INIT(MOST);
	struct edit_text t = text_of(before);
	struct edit_member m;
	struct err e;

	assert_int_equal(edit_json_find(&t, edit_json_blank(&t, 0), "a", &m, &e), 0);
	assert_int_equal(m.value.to, 0);
	edit_json_add(&t, &m, "a", "1", &out);
	assert_string_equal(buf_str(&out), after);
}

static void a_member_of_json_comes_and_goes_alone(void **state)
{
	(void)state;
	cuts_to("{\"a\": 1}", "{}");
	cuts_to("{\"a\": 1, \"b\": 2}", "{\"b\": 2}");
	cuts_to("{\"b\": 2, \"a\": {\"a\": [1, \"}\"]}}", "{\"b\": 2}");
	cuts_to("// first\n{\n  \"b\": 2, // why\n  \"a\": 1,\n}\n",
		"// first\n{\n  \"b\": 2, // why\n  }\n");
	adds_to("{}", "{\n  \"a\": 1\n}");
	adds_to("{\"b\": 2}", "{\"b\": 2, \"a\": 1}");
	adds_to("{\n\t\"b\": {\"a\": 3}\n}\n", "{\n\t\"b\": {\"a\": 3},\n\t\"a\": 1\n}\n");
}

static void json_that_cannot_be_followed_is_refused(void **state)
{
	static const char *const broken[] = { "",
					      "[]",
					      "{",
					      "{\"a\"}",
					      "{\"a\": }",
					      "{\"a\": 1 \"b\": 2}",
					      "{\"a\": [1}",
					      "{\"a\": \"x}",
					      "{\"a\": 1, \"a\": 2}" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
		struct edit_text t = text_of(broken[i]);
		struct edit_member m;
		struct err e = { 0 };

		assert_true(edit_json_find(&t, 0, "a", &m, &e) < 0);
		assert_true(e.hint[0]);
	}
}

static void table_to(const char *before, const char *value, const char *after)
{
	CLEANUP(buf) struct buf out = BUF_INIT(MOST);
	struct edit_text t = text_of(before);
	struct err e;
	int r = edit_toml_table(&t, "s", "a", value, &out, &e);

	assert_int_equal(r < 0, !after);
	if (after)
		assert_string_equal(buf_str(&out), after);
}

static void a_table_of_toml_comes_and_goes_alone(void **state)
{
	(void)state;
	table_to("", "b = 1\n", "[s.a]\nb = 1\n");
	table_to("c = 2", "b = 1\n", "c = 2\n\n[s.a]\nb = 1\n");
	table_to("[s.a]\nb = 0\n[s.a.d]\ne = 1\n[t]\n", "b = 1\n",
		 "[s.a]\nb = 1\n[s.a.d]\ne = 1\n[t]\n");
	table_to("c = 2\n\n[s.a]\nb = 0\n[s.a.d]\ne = 1\n[t]\n", NULL, "c = 2\n[t]\n");
	table_to("c = 2\n", NULL, NULL);
	table_to("s = { a = 1 }\n", "b = 1\n", NULL);
	table_to("x = \"\n", "b = 1\n", NULL);
}

static void places_of_yaml_count_characters(void **state)
{
	static const char text[] =
		"\xc3\xa9: \"\xc3\xa9\xc3\xa9\" # c\nb:\n  - x\n  -   'y'\n\n# d\n"
		"f: {g: [h, \"i}\"], j: k}\n";
	CLEANUP(arena) struct arena *a = arena_new(MOST * 16);
	struct node *root;
	const struct node *b;
	struct edit_text t;
	struct err e;
	size_t len, at;

	(void)state;
	assert_int_equal(edit_lines(a, text, sizeof(text) - 1, &t, &e), 0);
	assert_int_equal(yaml_parse(a, "f", text, sizeof(text) - 1, &root, &e), 0);
	assert_int_equal(edit_yaml_at(&t, root->first->line, root->first->column), 4);
	assert_int_equal(edit_yaml_at(&t, 1, 6), 7);
	assert_int_equal(edit_yaml_at(&t, 99, 1), t.n);
	b = node_get(root, "b");
	assert_true(edit_yaml_key_leads(&t, b, &len) && len == 1);
	assert_int_equal(edit_yaml_item_head(&t, b->first), 4);
	assert_int_equal(edit_yaml_item_head(&t, b->first->next), 6);
	assert_int_equal(edit_yaml_block_end(&t, 1, 0), 4);
	assert_int_equal(edit_yaml_content_end(&t, 1, 6), 4);
	assert_int_equal(edit_yaml_indent(&t, 2), 2);
	assert_false(edit_yaml_has_content(&t, 5));
	at = edit_yaml_at(&t, node_get(root, "f")->line, node_get(root, "f")->column);
	assert_int_equal(t.p[edit_yaml_flow_end(&t, at)], '\n');
	assert_false(edit_yaml_key_leads(&t, node_get(node_get(root, "f"), "g"), &len));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(lines_are_counted_as_an_editor_counts_them),
	cmocka_unit_test(what_is_replaced_is_the_span_alone),
	cmocka_unit_test(a_difference_shows_three_lines_on_either_side),
	cmocka_unit_test(a_member_of_json_comes_and_goes_alone),
	cmocka_unit_test(json_that_cannot_be_followed_is_refused),
	cmocka_unit_test(a_table_of_toml_comes_and_goes_alone),
	cmocka_unit_test(places_of_yaml_count_characters),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
