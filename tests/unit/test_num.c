/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_num.c - numbers as people write them, and as they should not. */
#include "unit.h"

#include "base/text/num.h"

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)
#define UNTOUCHED ((uint64_t)0xdeadbeef)

typedef int reader(const char *s, uint64_t *ret);

struct good {
	const char *text;
	uint64_t value;
};

struct bad {
	const char *text;
	int code;
};

static void expect_good(reader *read, const struct good *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t got = UNTOUCHED;

		print_message("%s\n", v[i].text);
		assert_int_equal(read(v[i].text, &got), 0);
		assert_int_equal(got, v[i].value);
	}
}

static void expect_bad(reader *read, const struct bad *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t got = UNTOUCHED;

		print_message("%s\n", v[i].text);
		assert_int_equal(read(v[i].text, &got), -v[i].code);
		assert_int_equal(got, UNTOUCHED);
	}
}
#define GOOD(read, v) expect_good((read), (v), sizeof(v) / sizeof(*(v)))
#define BAD(read, v) expect_bad((read), (v), sizeof(v) / sizeof(*(v)))

static void counts_are_digits_and_nothing_else(void **state UNUSED)
{
	static const struct good good[] = {
		{ "0", 0 },
		{ "7", 7 },
		{ "007", 7 },
		{ "18446744073709551615", UINT64_MAX },
		{ "000000000000000000000000000000000000000001", 1 },
	};
	static const struct bad bad[] = {
		{ "", EINVAL },
		{ " 1", EINVAL },
		{ "1 ", EINVAL },
		{ "+1", EINVAL },
		{ "-1", EINVAL },
		{ "0x10", EINVAL },
		{ "1e3", EINVAL },
		{ "1.0", EINVAL },
		{ "1\n", EINVAL },
		{ "1,000", EINVAL },
		{ "1_000", EINVAL },
		{ "ten", EINVAL },
		{ "\xd9\xa1", EINVAL },
		{ "18446744073709551616", ERANGE },
		{ "99999999999999999999999999999999999999999999999999", ERANGE },
	};

	GOOD(num_count, good);
	BAD(num_count, bad);
}

static void sizes_take_the_units_people_write(void **state UNUSED)
{
	static const struct good good[] = {
		{ "256m", 256 * MIB },
		{ "1g", GIB },
		{ "1.5g", GIB + GIB / 2 },
		{ "512b", 512 },
		{ "512", 512 },
		{ "2GiB", 2 * GIB },
		{ "2gib", 2 * GIB },
		{ "2Gb", 2 * GIB },
		{ "64K", 64 * KIB },
		{ "64KB", 64 * KIB },
		{ "1t", TIB },
		{ "0.001k", 1 },
		{ "0", 0 },
		{ "0m", 0 },
		{ "0.5m", MIB / 2 },
		{ "1.125k", 1152 },
	};

	GOOD(num_size, good);
}

static void sizes_refuse_garbage_and_what_does_not_fit(void **state UNUSED)
{
	static const struct bad bad[] = {
		{ "", EINVAL },
		{ "m", EINVAL },
		{ ".5m", EINVAL },
		{ "1.", EINVAL },
		{ "1.m", EINVAL },
		{ "1.2345m", EINVAL },
		{ "1.5.5m", EINVAL },
		{ "-1m", EINVAL },
		{ "+1m", EINVAL },
		{ "1 m", EINVAL },
		{ "1m ", EINVAL },
		{ "1mm", EINVAL },
		{ "1e9", EINVAL },
		{ "0x10", EINVAL },
		{ "1p", EINVAL },
		{ "1bib", EINVAL },
		{ "1kbps", EINVAL },
		{ "1k1m", EINVAL },
		{ "unlimited", EINVAL },
		{ "8388608t", ERANGE },
		{ "18446744073709551615", ERANGE },
		{ "18446744073709551616", ERANGE },
		{ "99999999999999999999999g", ERANGE },
	};
	uint64_t most;

	BAD(num_size, bad);
	/* The most that fits is one less than what does not. */
	assert_int_equal(num_size("8388607t", &most), 0);
	assert_int_equal(most, 8388607 * TIB);
}

static void durations_take_every_form_of_openssh(void **state UNUSED)
{
	static const struct good good[] = {
		{ "90", 90000 },      { "60s", 60000 },     { "1h30m", 5400000 },
		{ "1H30M", 5400000 }, { "2w", 1209600000 }, { "250ms", 250 },
		{ "250MS", 250 },     { "1d", 86400000 },   { "1.5s", 1500 },
		{ "0.001s", 1 },      { "1m1ms", 60001 },   { "1w2d3h4m5s6ms", 788645006 },
		{ "10m30", 630000 },  { "0", 0 },           { "0s", 0 },
	};

	GOOD(num_duration, good);
}

static void durations_refuse_garbage_and_what_does_not_fit(void **state UNUSED)
{
	static const struct bad bad[] = {
		{ "", EINVAL },
		{ "s", EINVAL },
		{ "-1s", EINVAL },
		{ "1 s", EINVAL },
		{ "1s ", EINVAL },
		{ "1sm", EINVAL },
		{ "1.2345s", EINVAL },
		{ "1y", EINVAL },
		{ "1us", EINVAL },
		{ "1h:30m", EINVAL },
		{ "01:30:00", EINVAL },
		{ "forever", EINVAL },
		{ "18446744073709551615", ERANGE },
		{ "18446744073709551w", ERANGE },
		{ "15250284452w15250284452w", ERANGE },
		{ "99999999999999999999999s", ERANGE },
	};

	BAD(num_duration, bad);
}

static void fractions_keep_three_digits_and_refuse_more(void **state UNUSED)
{
	static const struct good good[] = {
		{ "1", 1000 },  { "1.5", 1500 },     { "0.25", 250 },
		{ "0.001", 1 }, { "12.345", 12345 },
	};
	static const struct bad bad[] = {
		{ "", EINVAL },
		{ "1.", EINVAL },
		{ ".5", EINVAL },
		{ "0.0001", EINVAL },
		{ "1,5", EINVAL },
		{ "-0.5", EINVAL },
		{ "1.5x", EINVAL },
		{ "inf", EINVAL },
		{ "nan", EINVAL },
		{ "1e1", EINVAL },
		{ "1.99999999999999999999999", EINVAL },
		{ "18446744073709552", ERANGE },
	};

	GOOD(num_milli, good);
	BAD(num_milli, bad);
}

static void a_size_written_by_brig_reads_back_as_the_same(void **state UNUSED)
{
	static const uint64_t sizes[] = { 0,   1,       1023,    KIB,     KIB + 1,   64 * KIB,
					  MIB, GIB + 1, 2 * GIB, 5 * TIB, 1024 * TIB };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		char text[32];
		uint64_t back;

		num_size_text(sizes[i], text, sizeof(text));
		assert_int_equal(num_size(text, &back), 0);
		assert_int_equal(back, sizes[i]);
	}
}

static void a_duration_written_by_brig_reads_back_as_the_same(void **state UNUSED)
{
	static const uint64_t times[] = { 0, 1, 250, 1000, 1001, 60000, 5400000, 31449600000 };

	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		char text[32];
		uint64_t back;

		num_duration_text(times[i], text, sizeof(text));
		assert_int_equal(num_duration(text, &back), 0);
		assert_int_equal(back, times[i]);
	}
}

static void text_that_does_not_fit_is_cut_and_ended(void **state UNUSED)
{
	char text[4] = "zzz";

	num_size_text(123456789, text, sizeof(text));
	assert_string_equal(text, "123");
	num_duration_text(123456789, text, 1);
	assert_string_equal(text, "");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(counts_are_digits_and_nothing_else),
	cmocka_unit_test(sizes_take_the_units_people_write),
	cmocka_unit_test(sizes_refuse_garbage_and_what_does_not_fit),
	cmocka_unit_test(durations_take_every_form_of_openssh),
	cmocka_unit_test(durations_refuse_garbage_and_what_does_not_fit),
	cmocka_unit_test(fractions_keep_three_digits_and_refuse_more),
	cmocka_unit_test(a_size_written_by_brig_reads_back_as_the_same),
	cmocka_unit_test(a_duration_written_by_brig_reads_back_as_the_same),
	cmocka_unit_test(text_that_does_not_fit_is_cut_and_ended),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
