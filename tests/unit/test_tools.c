/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "apps/toolset/tools_internal.h"

static void lines_are_shown_within_their_bounds(void **state)
{
	static const struct {
		const char *text;
		uint64_t first, count;
		size_t max;
		const char *shown;
		uint64_t total;
		bool whole;
	} rows[] = {
		{ "", 1, 0, 100, "", 0, true },
		{ "a\nb\nc", 1, 0, 100, "a\nb\nc", 3, true },
		{ "a\nb\nc", 2, 1, 100, "b\n", 3, true },
		{ "a\nb\n", 3, 0, 100, "", 2, true },
		{ "a\n\xc3\xa9\xc3\xa9\nc\n", 1, 0, 5, "a\n\xc3\xa9", 3, false },
		{ "aaaa\nb\n", 1, 0, 0, "", 2, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(1024);
		uint64_t total = 0;
		bool whole = text_lines(rows[i].text, strlen(rows[i].text), rows[i].first,
					rows[i].count, rows[i].max, &b, &total);

		assert_string_equal(buf_str(&b), rows[i].shown);
		assert_int_equal(total, rows[i].total);
		assert_int_equal(whole, rows[i].whole);
	}
}

static void text_is_replaced_once_or_everywhere(void **state)
{
	CLEANUP(buf) struct buf one = BUF_INIT(1024), all = BUF_INIT(1024), none = BUF_INIT(1024);

	(void)state;
	assert_int_equal(text_replace("aXbXc", 5, "X", "--", false, &one), 2);
	assert_string_equal(buf_str(&one), "a--bXc");
	assert_int_equal(text_replace("aaa", 3, "aa", "b", true, &all), 1);
	assert_string_equal(buf_str(&all), "ba");
	assert_int_equal(text_replace("abc", 3, "d", "e", true, &none), 0);
	assert_string_equal(buf_str(&none), "abc");
}

static void text_is_inserted_behind_a_line_that_is_there(void **state)
{
	static const struct {
		const char *text;
		uint64_t line;
		const char *put, *result; /* NULL: there is no such line */
	} rows[] = {
		{ "a\nb\n", 0, "x", "x\na\nb\n" }, { "a\nb\n", 1, "x\n", "a\nx\nb\n" },
		{ "a\nb", 2, "x", "a\nb\nx" },     { "", 0, "x", "x" },
		{ "a\n", 2, "x", NULL },           { "", 1, "x", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(1024);
		bool ok = text_insert(rows[i].text, strlen(rows[i].text), rows[i].line, rows[i].put,
				      &b);

		assert_int_equal(ok, rows[i].result != NULL);
		if (ok)
			assert_string_equal(buf_str(&b), rows[i].result);
	}
}

static void every_tool_has_schemas_that_are_json(void **state)
{
	static const struct tools none;

	(void)state;
	for (const struct tool *t = tool_table; t->name; t++) {
		for (int out = 0; out < 2; out++) {
			CLEANUP(buf) struct buf b = BUF_INIT(1 << 16);
			CLEANUP(jread) struct jread *v = NULL;
			struct err e = { 0 };
			struct json j;

			json_init(&j, &b, false);
			tool_schema(&j, out ? t->output : t->input);
			assert_int_equal(jread_parse(buf_str(&b), b.len, &v, &e), 0);
			assert_string_equal(jread_str(v, "type"), "object");
			assert_int_equal(jread_kind(jread_get(v, "properties")), JREAD_OBJECT);
		}
		assert_ptr_equal(tools_named(&none, t->name), t);
	}
}

static void paths_with_dots_are_refused(void **state)
{
	static const char *const bad[] = { "", "..", "a/../b", "/..", "a/..", "a\nb" };
	static const char *const good[] = { "a", "/a", "a/..b", "...", "./a", "a//b" };
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_true(args_path(bad[i], &e) < 0);
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(args_path(good[i], &e), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_shown_within_their_bounds),
		cmocka_unit_test(text_is_replaced_once_or_everywhere),
		cmocka_unit_test(text_is_inserted_behind_a_line_that_is_there),
		cmocka_unit_test(every_tool_has_schemas_that_are_json),
		cmocka_unit_test(paths_with_dots_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
