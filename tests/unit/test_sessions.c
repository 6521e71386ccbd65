/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/sessions.h"

#define SECOND ((uint64_t)1000 * 1000)

static const struct session_for owner = { .scopes = SCOPE_READ };
static const struct session_for admin = { .scopes = SCOPE_READ | SCOPE_ADMIN };

static int enter(struct sessions *s, const char *code, uint64_t now, char cookie[SESSION_SECRET])
{
	struct err e = { 0 };
	uint64_t seconds;

	return sessions_enter(s, code, strlen(code), now, cookie, &seconds, &e);
}

static void a_code_is_good_once_for_a_minute(void **state)
{
	struct sessions s = { 0 };
	char code[SESSION_SECRET], late[SESSION_SECRET], cookie[SESSION_SECRET];
	struct err e = { 0 };

	(void)state;
	assert_int_equal(sessions_code(&s, &owner, SECOND, code, &e), 0);
	assert_int_equal(sessions_code(&s, &owner, SECOND, late, &e), 0);
	assert_int_equal(enter(&s, code, 60 * SECOND, cookie), 0);
	assert_int_not_equal(enter(&s, code, 60 * SECOND, cookie), 0);
	assert_int_not_equal(enter(&s, late, 61 * SECOND, cookie), 0);
	assert_int_not_equal(enter(&s, "", SECOND, cookie), 0);
}

static bool is_open(const struct sessions *s, const char *cookie, uint64_t now)
{
	return sessions_find(s, cookie, strlen(cookie), now) != NULL;
}

static void a_session_ends_at_its_time_and_by_leaving(void **state)
{
	struct sessions s = { 0 };
	char code[SESSION_SECRET], reads[SESSION_SECRET], changes[SESSION_SECRET];
	struct err e = { 0 };

	(void)state;
	assert_int_equal(sessions_code(&s, &owner, SECOND, code, &e), 0);
	assert_int_equal(enter(&s, code, SECOND, reads), 0);
	assert_int_equal(sessions_code(&s, &admin, SECOND, code, &e), 0);
	assert_int_equal(enter(&s, code, SECOND, changes), 0);
	assert_true(is_open(&s, changes, 15 * 60 * SECOND));
	assert_false(is_open(&s, changes, 15 * 60 * SECOND + SECOND));
	assert_true(is_open(&s, reads, 8 * 3600 * SECOND));
	assert_false(is_open(&s, reads, 8 * 3600 * SECOND + SECOND));
	assert_false(is_open(&s, "", SECOND));
	sessions_leave(&s, sessions_find(&s, reads, strlen(reads), SECOND)->sum);
	assert_false(is_open(&s, reads, SECOND));
	assert_true(is_open(&s, changes, SECOND));
}

static void many_wrong_codes_void_those_that_wait(void **state)
{
	struct sessions s = { 0 };
	char code[SESSION_SECRET], cookie[SESSION_SECRET];
	struct err e = { 0 };

	(void)state;
	assert_int_equal(sessions_code(&s, &owner, SECOND, code, &e), 0);
	for (int i = 0; i < SESSION_GUESSES - 1; i++)
		assert_int_not_equal(enter(&s, "guess", SECOND, cookie), 0);
	assert_int_equal(enter(&s, code, SECOND, cookie), 0);
	assert_int_equal(sessions_code(&s, &owner, SECOND, code, &e), 0);
	for (int i = 0; i < SESSION_GUESSES; i++)
		assert_int_not_equal(enter(&s, "guess", SECOND, cookie), 0);
	assert_int_not_equal(enter(&s, code, SECOND, cookie), 0);
}

static void the_oldest_makes_room(void **state)
{
	struct sessions s = { 0 };
	char code[SESSION_SECRET], first[SESSION_SECRET], cookie[SESSION_SECRET];
	struct err e = { 0 };

	(void)state;
	for (uint64_t i = 0; i <= SESSIONS_MAX; i++) {
		assert_int_equal(sessions_code(&s, &owner, SECOND + i, code, &e), 0);
		assert_int_equal(enter(&s, code, SECOND + i, i ? cookie : first), 0);
		assert_int_equal(is_open(&s, first, SECOND + i), i < SESSIONS_MAX);
	}
	assert_true(is_open(&s, cookie, 2 * SECOND));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_code_is_good_once_for_a_minute),
	cmocka_unit_test(a_session_ends_at_its_time_and_by_leaving),
	cmocka_unit_test(many_wrong_codes_void_those_that_wait),
	cmocka_unit_test(the_oldest_makes_room),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
