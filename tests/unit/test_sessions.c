/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/api/sessions.h"

#define SECOND ((uint64_t)1000 * 1000)

static const struct session_for owner = { .scopes = SCOPE_READ };
static const struct session_for admin = { .scopes = SCOPE_READ | SCOPE_ADMIN };

static int enter(struct sessions *s, const char *code, uint64_t now, char cookie[SESSION_SECRET])
{
	struct err e = { 0 };
	uint64_t seconds;

	return sessions_enter(s, "", code, now, cookie, &seconds, &e);
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

static const struct session_for tenant = { .tenant = "a", .scopes = SCOPE_READ, .by_token = true };

static void a_tenant_takes_nothing_of_the_owners(void **state)
{
	struct sessions s = { .key = "a key" };
	char code[SESSION_SECRET], cookie[SESSION_SECRET], mine[SESSION_SECRET];
	char name[SESSION_NAME], other[SESSION_NAME], whose[TENANT_SIZE];
	struct err e = { 0 };
	uint64_t seconds;

	(void)state;
	sessions_name(&s, "", name);
	sessions_name(&s, "a", other);
	assert_string_not_equal(name, other);
	assert_true(sessions_named(&s, name, SECOND, whose));
	assert_string_equal(whose, "");
	assert_false(sessions_named(&s, other, SECOND, whose)); /* it has nothing here */
	for (uint64_t i = 0; i < SESSION_CODES; i++)
		assert_int_equal(sessions_code(&s, &owner, SECOND + i, mine, &e), 0);
	assert_int_equal(sessions_code(&s, &tenant, 2 * SECOND, code, &e), -EBUSY);
	assert_int_equal(enter(&s, mine, 2 * SECOND, cookie), 0);
	for (uint64_t i = 0; i < SESSION_CODES; i++)
		assert_int_equal(sessions_code(&s, &tenant, 2 * SECOND + i, code, &e), 0);
	assert_true(sessions_named(&s, other, 2 * SECOND, whose));
	assert_string_equal(whose, "a");
	/* A code is for its own name; the owner's place is taken by the owner alone. */
	assert_int_not_equal(enter(&s, code, 2 * SECOND, mine), 0);
	assert_int_equal(sessions_enter(&s, "a", code, 2 * SECOND, mine, &seconds, &e), 0);
	assert_int_equal(sessions_code(&s, &owner, 3 * SECOND, code, &e), 0);
	for (int i = 0; i < SESSION_GUESSES; i++)
		assert_int_not_equal(
			sessions_enter(&s, "a", "guess", 3 * SECOND, mine, &seconds, &e), 0);
	assert_int_equal(enter(&s, code, 3 * SECOND, mine), 0);
	assert_true(is_open(&s, cookie, 3 * SECOND));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_code_is_good_once_for_a_minute),
	cmocka_unit_test(a_session_ends_at_its_time_and_by_leaving),
	cmocka_unit_test(many_wrong_codes_void_those_that_wait),
	cmocka_unit_test(the_oldest_makes_room),
	cmocka_unit_test(a_tenant_takes_nothing_of_the_owners),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
