/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/bytes/yaml.h"
#include "base/text/str.h"

static struct arena *arena;
static struct err e;

static int fresh(void **state UNUSED)
{
	arena = arena_new((size_t)16 << 20);
	memset(&e, 0, sizeof(e));
	return arena ? 0 : -1;
}

static int gone(void **state UNUSED)
{
	arena = arena_free(arena);
	return 0;
}

static struct node *parse_n(const char *text, size_t n)
{
	struct node *root = NULL;

	if (yaml_parse(arena, "f.yaml", text, n, &root, &e) < 0)
		return NULL;
	return root;
}

static struct node *parse(const char *text)
{
	struct node *root = parse_n(text, strlen(text));

	if (!root)
		print_message("%s\n", e.what);
	return root;
}

static void refused(const char *text, const char *words)
{
	struct node *root = parse_n(text, strlen(text));

	assert_null(root);
	assert_int_equal(e.kind, ERR_CONFIG);
	if (!strstr(e.what, words))
		fail_msg("'%s' does not say '%s'", e.what, words);
}

static void a_document_becomes_a_tree_with_positions(void **state UNUSED)
{
	const struct node *root = parse("a: 1\nb:\n  - x\n  - \"y\"\nc: {d: ~}\n"), *b, *d;

	assert_non_null(root);
	assert_int_equal(root->kind, NODE_MAP);
	assert_int_equal(root->count, 3);
	assert_string_equal(node_get(root, "a")->text, "1");
	assert_int_equal(node_get(root, "a")->column, 4);
	assert_int_equal(node_get(root, "a")->key_column, 1);
	b = node_get(root, "b");
	assert_int_equal(b->kind, NODE_LIST);
	assert_int_equal(b->key_line, 2);
	assert_int_equal(b->count, 2);
	assert_false(b->first->quoted);
	assert_true(b->first->next->quoted);
	assert_int_equal(b->first->next->line, 4);
	d = node_get(node_get(root, "c"), "d");
	assert_int_equal(d->kind, NODE_NULL);
	assert_null(node_get(root, "absent"));
	assert_null(node_get(b, "a"));
}

static void nothing_at_all_is_a_null(void **state UNUSED)
{
	assert_int_equal(parse("")->kind, NODE_NULL);
	assert_int_equal(parse("# only a comment\n")->kind, NODE_NULL);
	assert_int_equal(parse("---\n")->kind, NODE_NULL);
}

static void what_readers_disagree_about_is_refused_with_its_place(void **state UNUSED)
{
	refused("a: &x 1\n", "f.yaml:1:4: anchors");
	refused("a: &x [1]\n", "f.yaml:1:4: anchors");
	refused("a: 1\nb: *x\n", "f.yaml:2:4: aliases");
	refused("a: !!str 1\n", "f.yaml:1:4: tags");
	refused("a: !x {b: c}\n", "f.yaml:1:4: tags");
	refused("a: {<<: {b: 1}}\n", "f.yaml:1:5: merge keys");
	refused("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: key 'a' appears twice, first in line 1");
	refused("\"a\": 1\na: 3\n", "f.yaml:2:1: key 'a' appears twice");
	refused("? [a]\n: 1\n", "f.yaml:1:3: a key that is not plain text");
	refused("? {a: b}\n: 1\n", "f.yaml:1:3: a key that is not plain text");
	refused("~: 1\n", "f.yaml:1:1: a key that is not plain text");
	refused("\"\": 1\n", "f.yaml:1:1: a key that is not plain text");
	refused("a: 1\n---\nb: 1\n", "more than one document");
	refused("%YAML 1.1\n---\na: 1\n", "directives");
	refused("a: \"x\\0y\"\n", "f.yaml:1:4: a NUL");
	refused("a: [1\n", "not YAML");
	refused("a:\n\t- b\n", "f.yaml:2:");
}

static void bare_words_of_old_yaml_are_refused_unless_quoted(void **state UNUSED)
{
	static const char *const words[] = { "yes", "No", "ON", "off", "y", "N" };
	char text[32];

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		(void)snprintf(text, sizeof(text), "a: %s\n", words[i]);
		refused(text, "f.yaml:1:4: bare");
		(void)snprintf(text, sizeof(text), "%s: a\n", words[i]);
		refused(text, "f.yaml:1:1: bare");
		(void)snprintf(text, sizeof(text), "a: '%s'\n", words[i]);
		assert_string_equal(node_get(parse(text), "a")->text, words[i]);
	}
	assert_string_equal(node_get(parse("a: none\n"), "a")->text, "none");
}

static void bytes_that_are_no_text_are_refused(void **state UNUSED)
{
	assert_null(parse_n("a: \xff\n", 5));
	assert_non_null(strstr(e.what, "f.yaml:1:4: bytes that are not UTF-8"));
	assert_null(parse_n("a: 1\nb\0c\n", 9));
	assert_non_null(strstr(e.what, "f.yaml:2:2: a NUL"));
	assert_null(parse_n("\xff\xfe"
			    "a\0:\0 \0",
			    8)); /* UTF-16 */
	assert_string_equal(node_get(parse("a: \xc3\xa9\n"), "a")->text, "\xc3\xa9");
}

/* n times `open`, then `middle`, then n times `close` */
static char *nested(size_t n, const char *open, const char *middle, const char *close)
{
	char *text = calloc(1, n * (strlen(open) + strlen(close)) + strlen(middle) + 1);

	assert_non_null(text);
	for (size_t i = 0; i < n; i++)
		memcpy(text + i * strlen(open), open, strlen(open));
	memcpy(text + n * strlen(open), middle, strlen(middle));
	for (size_t i = 0; i < n; i++)
		strcat(text + n * strlen(open), close);
	return text;
}

static void sixty_four_levels_are_the_most(void **state UNUSED)
{
	char *fits = nested(64, "[", "", "]"), *deep = nested(65, "[", "", "]"),
	     *endless = nested(500000, "[", "", ""), *maps = nested(100000, "{a: ", "", "");

	assert_non_null(parse(fits));
	refused(deep, "f.yaml:1:65: more than 64 levels");
	refused(endless, "more than 64 levels");
	refused(maps, "more than 64 levels");
	free(fits);
	free(deep);
	free(endless);
	free(maps);
}

static void one_mebibyte_is_the_most(void **state UNUSED)
{
	size_t n = ((size_t)1 << 20) + 1;
	char *text = malloc(n);

	assert_non_null(text);
	memset(text, ' ', n);
	memcpy(text, "a: b #", 6);
	assert_non_null(parse_n(text, n - 1));
	assert_null(parse_n(text, n));
	assert_non_null(strstr(e.what, "larger than 1 MiB"));
	free(text);
}

static void a_flood_of_values_or_keys_is_refused(void **state UNUSED)
{
	char *text = malloc((size_t)1 << 20), *p = text;

	assert_non_null(text);
	for (int i = 0; i < 70000; i++)
		p += sprintf(p, "- 1\n");
	refused(text, "more than 65536 values");
	for (p = text; p - text < 60000;)
		p += sprintf(p, "k%d: 1\n", (int)(p - text));
	refused(text, "more than 4096 keys");
	free(text);
}

static void a_boolean_is_plain_true_or_false(void **state UNUSED)
{
	const struct node *root = parse("a: true\nb: False\nc: \"true\"\nd: 1\ne: [true]\n");
	bool v = false;

	assert_int_equal(node_bool("f", node_get(root, "a"), &v, &e), 0);
	assert_true(v);
	assert_int_equal(node_bool("f", node_get(root, "b"), &v, &e), 0);
	assert_false(v);
	assert_true(node_bool("f", node_get(root, "c"), &v, &e) < 0);
	assert_non_null(strstr(e.what, "f:3:4: c: the text 'true'"));
	assert_true(node_bool("f", node_get(root, "d"), &v, &e) < 0);
	assert_true(node_bool("f", node_get(root, "e"), &v, &e) < 0);
	assert_non_null(strstr(e.what, "not a list"));
}

static void a_full_arena_is_an_error(void **state UNUSED)
{
	struct arena *small = arena_new(1);
	struct node *root;

	assert_true(yaml_parse(small, "f", "a: 1\n", 5, &root, &e) < 0);
	assert_int_equal(e.code, ENOMEM);
	(void)arena_free(small);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_document_becomes_a_tree_with_positions),
		TEST(nothing_at_all_is_a_null),
		TEST(what_readers_disagree_about_is_refused_with_its_place),
		TEST(bare_words_of_old_yaml_are_refused_unless_quoted),
		TEST(bytes_that_are_no_text_are_refused),
		TEST(sixty_four_levels_are_the_most),
		TEST(one_mebibyte_is_the_most),
		TEST(a_flood_of_values_or_keys_is_refused),
		TEST(a_boolean_is_plain_true_or_false),
		TEST(a_full_arena_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
