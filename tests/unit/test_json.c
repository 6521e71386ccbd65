/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_json.c - the JSON writer: whatever goes in, valid JSON comes out. */
#include "unit.h"

#include "base/bytes/json.h"
#include "jsoncheck.h"

#define REPLACED "\xef\xbf\xbd"

static void writes(const char *in, size_t n, const char *out)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct json j;

	json_init(&j, &b, false);
	json_strn(&j, in, n);
	assert_string_equal(buf_str(&b), out);
	assert_true(json_is_valid(b.data, b.len));
}

static void the_checker_itself_knows_right_from_wrong(void **state UNUSED)
{
	static const char *const right[] = {
		"{}",
		"[]",
		" [1, -2.5e+3, 0, true, false, null, \"\"] ",
		"{\"a\":{\"b\":[{}]}}",
		"\"\\u00e9\\n\xc3\xa9\"",
		"0.1",
	};
	static const char *const wrong[] = {
		"",
		"{",
		"{]",
		"[1,]",
		"{\"a\"}",
		"{a:1}",
		"01",
		"1.",
		".5",
		"+1",
		"\"",
		"\"\n\"",
		"\"\\x\"",
		"\"\\u12\"",
		"\"\xc3\"",
		"\"\xc0\x80\"",
		"\"\xed\xa0\x80\"",
		"tru",
		"1 2",
		"[1 2]",
		"{\"a\":1,}",
		"nul",
	};

	for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++)
		assert_true(json_is_valid(right[i], strlen(right[i])));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_false(json_is_valid(wrong[i], strlen(wrong[i])));
}

static void every_byte_alone_comes_out_valid(void **state UNUSED)
{
	for (int c = 0; c < 256; c++) {
		CLEANUP(buf) struct buf b = BUF_INIT(64);
		struct json j;
		char byte = (char)c;

		json_init(&j, &b, false);
		json_strn(&j, &byte, 1);
		assert_true(json_is_valid(b.data, b.len));
		if (c >= 0x80)
			assert_string_equal(b.data, "\"" REPLACED "\"");
		else if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
			assert_int_equal(b.len, 3);
		else
			assert_int_equal(b.data[1], '\\');
	}
}

static void every_pair_of_bytes_comes_out_valid(void **state UNUSED)
{
	for (int i = 0; i < 65536; i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(64);
		const char pair[2] = { (char)(i >> 8), (char)i };
		struct json j;

		json_init(&j, &b, false);
		json_strn(&j, pair, 2);
		if (!json_is_valid(b.data, b.len))
			fail_msg("%02x %02x", i >> 8, i & 0xff);
	}
}

static void strings_are_escaped_and_bad_bytes_replaced(void **state UNUSED)
{
	writes("", 0, "\"\"");
	writes("a\"b\\c/", 6, "\"a\\\"b\\\\c/\"");
	writes("\b\t\n\f\r", 5, "\"\\b\\t\\n\\f\\r\"");
	writes("\0\x1b\x7f", 3, "\"\\u0000\\u001b\\u007f\"");
	writes("gr\xc3\xbc\xc3\x9f", 6, "\"gr\xc3\xbc\xc3\x9f\"");
	writes("\xf0\x9f\x9a\xa2", 4, "\"\xf0\x9f\x9a\xa2\"");
	/* cut, overlong, surrogate, too high */
	writes("\xf0\x9f\x9a", 3, "\"" REPLACED REPLACED REPLACED "\"");
	writes("\xc0\xaf", 2, "\"" REPLACED REPLACED "\"");
	writes("\xed\xa0\x80", 3, "\"" REPLACED REPLACED REPLACED "\"");
	writes("\xf4\x90\x80\x80", 4, "\"" REPLACED REPLACED REPLACED REPLACED "\"");
	writes("a\xff"
	       "b",
	       3, "\"a" REPLACED "b\"");
}

/* Two-byte controls, marks that turn or hide text, separators of lines: each as an escape of the
 * same meaning. Their neighbours pass. */
static void what_a_terminal_obeys_is_escaped(void **state UNUSED)
{
	writes("\xc2\x9b"
	       "2J",
	       4, "\"\\u009b2J\"");
	writes("\xc2\x80\xc2\x9f\xc2\xa0", 6, "\"\\u0080\\u009f\xc2\xa0\"");
	writes("\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf", 9, "\"\\u202a\\u202e\xe2\x80\xaf\"");
	writes("\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xb0", 9, "\"\\u2066\\u2069\xe2\x81\xb0\"");
	writes("\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x90", 9, "\"\\u200e\\u200f\xe2\x80\x90\"");
	writes("\xe2\x80\xa8\xe2\x80\xa9\xd8\x9c", 8, "\"\\u2028\\u2029\\u061c\"");
	writes("\xef\xbb\xbf\xf3\xa0\x81\x81", 7, "\"\\ufeff\\udb40\\udc41\"");
}

static void a_string_is_read_no_further_than_its_length(void **state UNUSED)
{
	char *tight = malloc(3);

	assert_non_null(tight);
	memcpy(tight, "a\xe2\x82", 3);
	writes(tight, 3, "\"a" REPLACED REPLACED "\"");
	free(tight);
}

static void numbers_are_written_exactly(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct json j;

	json_init(&j, &b, false);
	json_array(&j);
	json_u64(&j, UINT64_MAX);
	json_i64(&j, INT64_MIN);
	json_milli(&j, 0);
	json_milli(&j, 1);
	json_milli(&j, 50);
	json_milli(&j, 500);
	json_milli(&j, 1050);
	json_milli(&j, 1500);
	json_milli(&j, 2000);
	json_milli(&j, UINT64_MAX);
	json_array_end(&j);
	assert_string_equal(
		buf_str(&b),
		"[18446744073709551615,-9223372036854775808,0,0.001,0.050,0.5,1.050,1.5,2,"
		"18446744073709551.615]");
	assert_true(json_is_valid(b.data, b.len));
}

static void write_nested(struct json *j)
{
	json_object(j);
	json_kstr(j, "a", NULL);
	json_key(j, "empty");
	json_object(j);
	json_object_end(j);
	json_key(j, "list");
	json_array(j);
	json_array(j);
	json_array_end(j);
	json_bool(j, true);
	json_null(j);
	json_array_end(j);
	json_kbool(j, "b", false);
	json_ku64(j, "c\"", 3);
	json_object_end(j);
}

static void commas_stand_where_they_belong(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct json j;

	json_init(&j, &b, false);
	write_nested(&j);
	assert_string_equal(
		buf_str(&b),
		"{\"a\":null,\"empty\":{},\"list\":[[],true,null],\"b\":false,\"c\\\"\":3}");
}

static void pretty_output_is_indented_and_valid(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct json j;

	json_init(&j, &b, true);
	write_nested(&j);
	assert_true(json_is_valid(b.data, b.len));
	assert_non_null(strstr(b.data, "{\n  \"a\": null,\n  \"empty\": {},\n"));
	assert_non_null(strstr(b.data, "\n    [],\n"));
}

static void a_full_buffer_is_told_not_overrun(void **state UNUSED)
{
	CLEANUP(buf) struct buf all = BUF_INIT(4096);
	struct json whole;

	json_init(&whole, &all, false);
	write_nested(&whole);
	for (size_t max = 0; max <= all.len; max++) {
		CLEANUP(buf) struct buf b = BUF_INIT(max);
		struct json j;

		json_init(&j, &b, false);
		write_nested(&j);
		assert_true(b.len <= max);
		assert_int_equal(b.failed, max < all.len);
	}
}

static void a_member_may_be_a_list_or_an_object(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct json j;

	json_init(&j, &b, false);
	json_object(&j);
	json_karray(&j, "a");
	json_u64(&j, 1);
	json_array_end(&j);
	json_kobject(&j, "b");
	json_karray(&j, "c");
	json_array_end(&j);
	json_kbool(&j, "d", true);
	json_object_end(&j);
	json_object_end(&j);
	assert_string_equal(buf_str(&b), "{\"a\":[1],\"b\":{\"c\":[],\"d\":true}}");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_member_may_be_a_list_or_an_object),
	cmocka_unit_test(the_checker_itself_knows_right_from_wrong),
	cmocka_unit_test(every_byte_alone_comes_out_valid),
	cmocka_unit_test(every_pair_of_bytes_comes_out_valid),
	cmocka_unit_test(strings_are_escaped_and_bad_bytes_replaced),
	cmocka_unit_test(what_a_terminal_obeys_is_escaped),
	cmocka_unit_test(a_string_is_read_no_further_than_its_length),
	cmocka_unit_test(numbers_are_written_exactly),
	cmocka_unit_test(commas_stand_where_they_belong),
	cmocka_unit_test(pretty_output_is_indented_and_valid),
	cmocka_unit_test(a_full_buffer_is_told_not_overrun),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
