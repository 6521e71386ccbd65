/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_str.c - text: comparison, nearest word, UTF-8 at every place it may be cut. */
#include "unit.h"

#include "base/text/str.h"

static void prefixes_and_suffixes_are_compared_whole(void **state UNUSED)
{
	assert_true(str_starts("BRIG_X", "BRIG_"));
	assert_true(str_starts("x", ""));
	assert_false(str_starts("BRI", "BRIG_"));
	assert_false(str_starts("brig_x", "BRIG_"));
	assert_true(str_starts_nocase("aws_x", "AWS_"));
	assert_true(str_ends_nocase("my_key", "_KEY"));
	assert_true(str_ends_nocase("_KEY", "_KEY"));
	assert_false(str_ends_nocase("KEY", "_KEY"));
	assert_false(str_ends_nocase("", "_KEY"));
	assert_true(str_ends_nocase("", ""));
	assert_true(str_eq("", ""));
	assert_false(str_eq("a", "A"));
}

static void every_control_character_is_seen_and_nothing_else(void **state UNUSED)
{
	for (int c = 1; c < 256; c++) {
		char text[] = { 'a', (char)c, 'b', '\0' };

		assert_int_equal(str_has_control(text), c < 0x20 || c == 0x7f);
	}
	assert_false(str_has_control(""));
}

static void the_nearest_word_is_what_was_meant(void **state UNUSED)
{
	static const char *const words[] = { "auto", "native", "bwrap", "docker", "none", NULL };
	static const struct {
		const char *typo, *meant;
	} all[] = {
		{ "natvie", "native" },
		{ "nativ", "native" },
		{ "nativee", "native" },
		{ "ntaive", "native" },
		{ "dokcer", "docker" },
		{ "docke", "docker" },
		{ "bwarp", "bwrap" },
		{ "autp", "auto" },
		{ "noen", "none" },
		{ "podman", NULL },
		{ "kubernetes", NULL },
		{ "", NULL },
		{ "completely different and far too long for any of the words there are", NULL },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		const char *got = str_nearest(all[i].typo, words);

		print_message("%s\n", all[i].typo);
		if (all[i].meant) {
			assert_non_null(got);
			assert_string_equal(got, all[i].meant);
		} else {
			assert_null(got);
		}
	}
}

static void words_of_any_length_are_compared_in_bounds(void **state UNUSED)
{
	char typo[128], word[128];
	const char *const words[] = { word, "", NULL };

	for (size_t n = 0; n < 100; n++) {
		memset(typo, 'a', n);
		typo[n] = '\0';
		for (size_t m = 0; m < 100; m++) {
			memset(word, 'a', m);
			word[m] = '\0';
			(void)str_nearest(typo, words);
		}
	}
	assert_null(str_nearest("x", (const char *const[]){ NULL }));
}

/* Length by the table 3-7 of the Unicode standard, written out. */
static size_t table_len(const unsigned char *u, size_t n)
{
#define IN(x, a, b) ((x) >= (a) && (x) <= (b))
	if (n >= 1 && u[0] <= 0x7f)
		return 1;
	if (n >= 2 && IN(u[0], 0xc2, 0xdf) && IN(u[1], 0x80, 0xbf))
		return 2;
	if (n >= 3 && IN(u[2], 0x80, 0xbf) &&
	    ((u[0] == 0xe0 && IN(u[1], 0xa0, 0xbf)) ||
	     (IN(u[0], 0xe1, 0xec) && IN(u[1], 0x80, 0xbf)) ||
	     (u[0] == 0xed && IN(u[1], 0x80, 0x9f)) ||
	     (IN(u[0], 0xee, 0xef) && IN(u[1], 0x80, 0xbf))))
		return 3;
	if (n >= 4 && IN(u[2], 0x80, 0xbf) && IN(u[3], 0x80, 0xbf) &&
	    ((u[0] == 0xf0 && IN(u[1], 0x90, 0xbf)) ||
	     (IN(u[0], 0xf1, 0xf3) && IN(u[1], 0x80, 0xbf)) ||
	     (u[0] == 0xf4 && IN(u[1], 0x80, 0x8f))))
		return 4;
	return 0;
#undef IN
}

static void utf8_is_what_the_standard_says_overlong_and_surrogates_are_not(void **state UNUSED)
{
	static const unsigned char tails[] = { 0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f,
					       0xa0, 0xbf, 0xc0, 0xc2, 0xed, 0xf4, 0xff };
	const size_t count = sizeof(tails);

	for (unsigned lead = 0; lead < 256; lead++)
		for (size_t i = 0; i < count * count * count; i++) {
			unsigned char u[4] = { (unsigned char)lead, tails[i % count],
					       tails[i / count % count], tails[i / count / count] };

			for (size_t n = 1; n <= 4; n++)
				if (utf8_len((const char *)u, n) != table_len(u, n))
					fail_msg("%02x %02x %02x %02x in %zu", u[0], u[1], u[2],
						 u[3], n);
		}
}

static void a_cut_never_splits_a_character(void **state UNUSED)
{
	const char *text = "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x9a\xa2z\xf4\x8f\xbf\xbf\xef\xbf\xbd";
	size_t whole = strlen(text);

	for (size_t n = 0; n <= whole; n++) {
		size_t cut = utf8_cut(text, n), at = 0;

		assert_true(cut <= n && n - cut <= 3);
		while (at < cut) {
			size_t len = utf8_len(text + at, cut - at);

			assert_true(len > 0);
			at += len;
		}
		/* And no more is given up than the character that is not complete. */
		if (cut < n)
			assert_true(utf8_len(text + cut, whole - cut) > n - cut);
	}
}

static void bytes_that_are_not_utf8_are_kept_at_a_cut(void **state UNUSED)
{
	static const char *const all[] = {
		"\x80",
		"a\xbf",
		"\xc0",
		"\xc1",
		"\xf5",
		"\xff",
		"\xfe\xff",
		"\x80\x80\x80\x80\x80",
		"\xc3\xbc\xbc",
		"\xf0\x9f\x9a\xa2\xa2",
		"\xe2\x82\xac\x80",
		"a\xc0\x80",
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		assert_int_equal(utf8_cut(all[i], strlen(all[i])), strlen(all[i]));
	assert_int_equal(utf8_cut("", 0), 0);
}

static void a_cut_waits_for_the_rest_of_a_character_only(void **state UNUSED)
{
	assert_int_equal(utf8_cut("a\xc3", 2), 1);
	assert_int_equal(utf8_cut("a\xe2\x82", 3), 1);
	assert_int_equal(utf8_cut("a\xf0\x9f\x9a", 4), 1);
	assert_int_equal(utf8_cut("\xf0\x9f\x9a", 3), 0);
	assert_int_equal(utf8_cut("\xf0", 1), 0);
	assert_int_equal(utf8_cut("\xe2\x82\xac\xe2", 4), 3);
}

static void a_character_is_decoded(void **state UNUSED)
{
	assert_int_equal(utf8_code("a", 1), 'a');
	assert_int_equal(utf8_code("\xc3\xbc", 2), 0xfc);
	assert_int_equal(utf8_code("\xe2\x80\xae", 3), 0x202e);
	assert_int_equal(utf8_code("\xf4\x8f\xbf\xbf", 4), 0x10ffff);
}

static void a_shell_takes_it_for_one_word(void **state UNUSED)
{
	char out[16];

	assert_string_equal(str_shell_word("/a b", out, sizeof(out)), "'/a b'");
	assert_string_equal(str_shell_word("", out, sizeof(out)), "''");
	assert_string_equal(str_shell_word("$(x)`;", out, sizeof(out)), "'$(x)`;'");
	assert_string_equal(str_shell_word("a';b'c", out, sizeof(out)), "'a'\\'';b'\\''c'");
	assert_string_equal(str_shell_word("1234567890123", out, sizeof(out)), "'1234567890123'");
	assert_string_equal(str_shell_word("12345678901234", out, sizeof(out)), "PATH");
	assert_string_equal(str_shell_word("a\nb", out, sizeof(out)), "PATH");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_shell_takes_it_for_one_word),
	cmocka_unit_test(prefixes_and_suffixes_are_compared_whole),
	cmocka_unit_test(every_control_character_is_seen_and_nothing_else),
	cmocka_unit_test(the_nearest_word_is_what_was_meant),
	cmocka_unit_test(words_of_any_length_are_compared_in_bounds),
	cmocka_unit_test(utf8_is_what_the_standard_says_overlong_and_surrogates_are_not),
	cmocka_unit_test(a_cut_never_splits_a_character),
	cmocka_unit_test(bytes_that_are_not_utf8_are_kept_at_a_cut),
	cmocka_unit_test(a_cut_waits_for_the_rest_of_a_character_only),
	cmocka_unit_test(a_character_is_decoded),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
