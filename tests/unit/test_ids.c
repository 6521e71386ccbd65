/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_ids.c - ranges of ids that belong to nobody. */
#include "unit.h"

#include "backend/kit/plan/ids.h"

#define FIRST 0x20000000U

static void a_range_is_free_when_nothing_overlaps_it(void **state UNUSED)
{
	assert_true(ids_range_free("", FIRST));
	assert_true(ids_range_free("\n\n", FIRST));
	assert_true(ids_range_free("# a comment: with colons:\n", FIRST));
	assert_true(ids_range_free("me:100000:65536\nyou:165536:65536\n", FIRST));
	assert_true(ids_range_free("me:100000:65536", FIRST));
	assert_true(ids_range_free("1000:100000:65536\n", FIRST));
	/* just below and just above */
	assert_true(ids_range_free("me:536805376:65536\n", FIRST));
	assert_true(ids_range_free("me:536936448:65536\n", FIRST));
	assert_true(ids_range_free("me:536870912:0\n", FIRST));
}

static void an_overlap_of_one_id_takes_a_range(void **state UNUSED)
{
	assert_false(ids_range_free("me:536870912:65536\n", FIRST));
	assert_false(ids_range_free("me:536805376:65537\n", FIRST));
	assert_false(ids_range_free("me:536936447:1\n", FIRST));
	assert_false(ids_range_free("me:0:4294967295\n", FIRST));
	assert_false(ids_range_free("me:100000:65536\nyou:536900000:1\n", FIRST));
	assert_false(ids_range_free("me:100000:65536\nyou:536900000:1", FIRST));
}

static void what_cannot_be_read_counts_as_taken(void **state UNUSED)
{
	static const char *const all[] = {
		"me",
		"me:",
		"me:100000",
		"me:100000:",
		"me::65536",
		"me:a:b",
		"me:100000:65536:x",
		"me:-1:65536",
		"me:100000:65536 ",
		"me:100000:65536\r\n",
		" ",
		"garbage\nme:100000:65536\n",
		"me:100000:65536\ngarbage",
		"me:99999999999999999999:1",
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		print_message("%s\n", all[i]);
		assert_false(ids_range_free(all[i], FIRST));
	}
}

static void a_range_that_wraps_around_is_taken(void **state UNUSED)
{
	assert_false(ids_range_free("me:1:18446744073709551615\n", FIRST));
	assert_false(ids_range_free("me:536870912:18446744073709551615\n", FIRST));
	assert_false(ids_range_free("me:536870913:18446744073172680703\n", FIRST));
}

static void a_line_too_long_to_read_is_taken(void **state UNUSED)
{
	char text[700];

	memset(text, 'n', 400);
	(void)snprintf(text + 400, sizeof(text) - 400, ":%u:65536\n", FIRST);
	assert_false(ids_range_free(text, FIRST));
	memset(text, '0', 400);
	memcpy(text, "me:", 3);
	(void)snprintf(text + 400, sizeof(text) - 400, "%u:65536\n", FIRST);
	assert_false(ids_range_free(text, FIRST));
}

static void two_sandboxes_of_root_share_no_id(void **state UNUSED)
{
	CLEANUP(ids) struct ids *a = NULL;
	CLEANUP(ids) struct ids *b = NULL;
	uint32_t first;
	struct err e;

	if (geteuid() != 0)
		skip();
	assert_int_equal(ids_take(&a, &e), 0);
	assert_int_equal(ids_take(&b, &e), 0);
	assert_true(ids_base(a) >= ids_base(b) + 65536 || ids_base(b) >= ids_base(a) + 65536);
	assert_true(ids_base(a) >= 65536);
	/* The same range again once it was given back, so that a machine never runs out. */
	first = ids_base(a);
	a = ids_free(a);
	assert_int_equal(ids_take(&a, &e), 0);
	assert_true(ids_base(a) <= first);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_range_is_free_when_nothing_overlaps_it),
	cmocka_unit_test(an_overlap_of_one_id_takes_a_range),
	cmocka_unit_test(what_cannot_be_read_counts_as_taken),
	cmocka_unit_test(a_range_that_wraps_around_is_taken),
	cmocka_unit_test(a_line_too_long_to_read_is_taken),
	cmocka_unit_test(two_sandboxes_of_root_share_no_id),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
