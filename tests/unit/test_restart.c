/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/shared/restart.h"

#define SECOND ((uint64_t)1000 * 1000)

static void each_try_waits_longer_up_to_a_bound(void **state)
{
	struct restart r = { .on = true };
	uint64_t now = SECOND, before = 0;

	(void)state;
	for (int i = 0; i < 12; i++) {
		uint64_t wait = restart_after(&r, now, now + SECOND);

		assert_true(wait >= before && wait <= RESTART_LONGEST_US);
		before = wait;
	}
	assert_int_equal(before, RESTART_LONGEST_US);
}

static void one_that_never_runs_well_is_given_up_after_five_minutes(void **state)
{
	struct restart r = { .on = true };
	uint64_t now = SECOND, tries = 0, wait;

	(void)state;
	while ((wait = restart_after(&r, now, now + SECOND)) != UINT64_MAX) {
		now += SECOND + wait;
		assert_true(++tries < 100);
	}
	assert_true(tries > 5);
	assert_true(now + SECOND >= r.down + RESTART_BOUND_US);
	assert_true(now < r.down + RESTART_BOUND_US + 2 * RESTART_LONGEST_US);
}

static void one_that_ran_for_half_a_minute_begins_anew(void **state)
{
	struct restart r = { .on = true };
	uint64_t now = SECOND;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(restart_after(&r, now, now + RESTART_WELL_US), RESTART_FIRST_US);
		now += RESTART_WELL_US + RESTART_FIRST_US;
	}
	/* One microsecond less is not well. */
	assert_true(restart_after(&r, now, now + RESTART_WELL_US - 1) > RESTART_FIRST_US);
	/* Nor is a start that came to nothing. */
	assert_true(restart_after(&r, 0, now + 2 * RESTART_WELL_US) > 2 * RESTART_FIRST_US);
}

static void what_somebody_asked_for_is_no_failure(void **state)
{
	(void)state;
	assert_false(restart_is_failure("stopped"));
	assert_false(restart_is_failure("idle"));
	assert_false(restart_is_failure("expired"));
	assert_false(restart_is_failure("disk"));
	assert_true(restart_is_failure("lost"));
	assert_true(restart_is_failure("oom"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_try_waits_longer_up_to_a_bound),
		cmocka_unit_test(one_that_never_runs_well_is_given_up_after_five_minutes),
		cmocka_unit_test(one_that_ran_for_half_a_minute_begins_anew),
		cmocka_unit_test(what_somebody_asked_for_is_no_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
