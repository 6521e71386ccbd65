/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "egress/rules/verdict.h"
#include "sandbox/tally.h"

#define SECOND ((uint64_t)1000 * 1000)

static struct tally *t;

static int fresh(void **state UNUSED)
{
	t = tally_new();
	return t ? 0 : -1;
}

static int gone(void **state UNUSED)
{
	t = tally_free(t);
	return 0;
}

static struct egress_event event(const char *method, const char *host, const char *rule)
{
	struct egress_event ev = { .kind = EGRESS_EVENT_DONE, .port = 443, .status = 200 };

	(void)snprintf(ev.method, sizeof(ev.method), "%s", method);
	(void)snprintf(ev.host, sizeof(ev.host), "%s", host);
	(void)snprintf(ev.rule, sizeof(ev.rule), "%s", rule);
	return ev;
}

static bool take(const char *method, const char *host, const char *rule, uint64_t bytes,
		 uint64_t now)
{
	struct egress_event ev = event(method, host, rule);

	ev.bytes_out = bytes;
	return tally_take(t, EVENT_EGRESS_DONE, &ev, now);
}

static void the_first_is_written_and_the_rest_is_summed(void **state UNUSED)
{
	struct tally_sum sum;

	assert_true(take("GET", "a", "r", 5, 0));
	for (int i = 1; i <= 10; i++)
		assert_false(take("GET", "a", "r", 7, (uint64_t)i));
	assert_true(take("POST", "a", "r", 1, 20));
	assert_false(tally_next(t, SECOND / 2, false, &sum));
	assert_true(tally_next(t, SECOND + 30, false, &sum));
	assert_int_equal(sum.count, 10);
	assert_int_equal(sum.like.bytes_out, 70);
	assert_string_equal(sum.like.method, "GET");
	assert_int_equal(sum.first, 1);
	assert_int_equal(sum.last, 10);
	assert_false(tally_next(t, SECOND + 31, false, &sum));
	/* due again after two seconds, four, and at the end */
	assert_false(take("GET", "a", "r", 1, SECOND + 40));
	assert_false(tally_next(t, 2 * SECOND, false, &sum));
	assert_true(tally_next(t, 4 * SECOND, false, &sum));
	assert_int_equal(sum.count, 1);
	assert_false(take("GET", "a", "r", 1, 5 * SECOND));
	assert_false(tally_next(t, 6 * SECOND, false, &sum));
	assert_true(tally_next(t, 6 * SECOND, true, &sum));
	assert_false(tally_next(t, 6 * SECOND, true, &sum));
}

static void what_one_would_tell_apart_is_told_apart(void **state UNUSED)
{
	struct egress_event ev = event("GET", "a", "r");

	assert_true(tally_take(t, EVENT_EGRESS_DONE, &ev, 0));
	assert_true(tally_take(t, EVENT_EGRESS_ALLOW, &ev, 0));
	ev.port = 80;
	assert_true(tally_take(t, EVENT_EGRESS_DONE, &ev, 0));
	ev.status = 404;
	assert_true(tally_take(t, EVENT_EGRESS_DONE, &ev, 0));
	(void)snprintf(ev.credential, sizeof(ev.credential), "TOKEN");
	assert_true(tally_take(t, EVENT_EGRESS_DONE, &ev, 0));
	ev.reason = EGRESS_DENIED;
	assert_true(tally_take(t, EVENT_EGRESS_DENY, &ev, 0));
	ev.reason = EGRESS_LIMIT;
	assert_true(tally_take(t, EVENT_EGRESS_DENY, &ev, 0));
	assert_false(tally_take(t, EVENT_EGRESS_DENY, &ev, 0));
}

static void a_flood_of_kinds_is_one_sum_and_hides_no_other(void **state UNUSED)
{
	uint64_t written = 0, summed = 0, bytes = 0, gets = 0;
	struct tally_sum sum;
	char name[16];

	for (int i = 0; i < 100000; i++) {
		(void)snprintf(name, sizeof(name), "X%d", i);
		written += take(name, "a", "r", 1, 0);
	}
	assert_int_equal(written, TALLY_PLACES + 1);
	for (int i = 0; i < 5; i++)
		gets += take("DELETE", "a", "r", 1, 0);
	assert_int_equal(gets, 1);
	assert_true(take("GET", "b", "other rule", 1, 0));
	while (tally_next(t, 0, true, &sum)) {
		summed += sum.count;
		bytes += sum.like.bytes_out;
		assert_string_equal(sum.like.rule, "r");
		if (strcmp(sum.like.method, "DELETE") == 0)
			assert_int_equal(sum.count, 4);
	}
	assert_int_equal(written + summed + 2, 100000 + 6);
	assert_int_equal(bytes, summed);
}

static void there_is_an_end_to_what_is_kept(void **state UNUSED)
{
	uint64_t written = 0, summed = 0;
	struct tally_sum sum;
	char rule[32], host[32];

	for (int i = 0; i < 50000; i++) {
		(void)snprintf(rule, sizeof(rule), "rule %d", i % 20000);
		(void)snprintf(host, sizeof(host), "h%d", i);
		written += take("GET", host, rule, 1, 0);
	}
	assert_true(written <= TALLY_MOST);
	while (tally_next(t, 0, true, &sum))
		summed += sum.count;
	assert_int_equal(written + summed, 50000);
}

/* While nothing is due nobody asks each of them, and no sum is late by that: whatever comes in
 * between, and however a search was cut short by what it found. */
static void every_sum_is_given_when_it_is_due(void **state UNUSED)
{
	enum { KINDS = 40 };
	uint64_t due[KINDS], window[KINDS], count[KINDS] = { 0 }, now = 0;
	struct tally_sum sum;
	char host[8];
	unsigned x = 1;

	for (int i = 0; i < KINDS; i++) {
		(void)snprintf(host, sizeof(host), "h%d", i);
		assert_true(take("GET", host, "r", 1, now));
		window[i] = SECOND;
		due[i] = now + SECOND;
	}
	for (int step = 0; step < 20000; step++) {
		int i = (int)((x = x * 1103515245 + 12345) >> 16) % KINDS;

		now += (x >> 8) % (SECOND / 10);
		(void)snprintf(host, sizeof(host), "h%d", i);
		if (step % 3)
			assert_false(take("GET", host, "r", 1, now));
		count[i] += step % 3 != 0;
		while (tally_next(t, now, false, &sum)) {
			i = atoi(sum.like.host + 1);
			assert_true(now >= due[i] && count[i] == sum.count);
			count[i] = 0;
			window[i] *= window[i] < 1800 * SECOND ? 2 : 1;
			window[i] = window[i] > 3600 * SECOND ? 3600 * SECOND : window[i];
			due[i] = now + window[i];
		}
		for (i = 0; i < KINDS; i++)
			assert_true(!count[i] || now < due[i]);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_is_written_and_the_rest_is_summed),
		TEST(what_one_would_tell_apart_is_told_apart),
		TEST(a_flood_of_kinds_is_one_sum_and_hides_no_other),
		TEST(there_is_an_end_to_what_is_kept),
		TEST(every_sum_is_given_when_it_is_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
