/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_attack.c - how attacks are told: one that works is never passed over. */
#include "unit.h"

#include "base/text/buf.h"
#include "doctor/attack.h"
#include "jsoncheck.h"

static struct report made(bool held, bool proven, bool usable)
{
	struct report r = { .count = 1 };

	r.sieges[0] = (struct siege){
		.backend = "native", .usable = usable, .why = "no namespaces", .count = 2
	};
	r.sieges[0].done[0] = (struct assault){
		.name = "a", .what = "x", .held = true, .proven = true, .detail = "EPERM"
	};
	r.sieges[0].done[1] = (struct assault){
		.name = "b", .what = "y", .held = held, .proven = proven, .detail = "it"
	};
	return r;
}

static void told(const struct report *r, const char *want)
{
	CLEANUP(buf) struct buf text = BUF_INIT(1 << 16);
	CLEANUP(buf) struct buf object = BUF_INIT(1 << 16);
	struct json j;

	attack_text(r, &text);
	assert_non_null(strstr(buf_str(&text), want));
	json_init(&j, &object, true);
	attack_json(r, &j);
	assert_true(json_is_valid(object.data, object.len));
}

static void an_attack_that_works_fails_the_report(void **state UNUSED)
{
	struct report r = made(false, true, true);

	assert_int_equal(attack_broke(&r), 1);
	told(&r, "[fail] native b: BROKE OUT (it)");
	told(&r, "not contained: 1 attack worked");
}

static void one_that_was_not_shown_to_work_is_a_warning(void **state UNUSED)
{
	struct report r = made(true, false, true);

	assert_int_equal(attack_broke(&r), 0);
	told(&r, "[warn] native b: held");
	told(&r, "contained: every attack was held (2)");
}

static void nothing_attacked_is_nothing_contained(void **state UNUSED)
{
	struct report r = made(true, true, false);

	r.sieges[0].count = 0;
	assert_int_equal(attack_broke(&r), 1);
	told(&r, "[skip] native: no namespaces");
}

static void every_attack_has_a_name_of_its_own(void **state UNUSED)
{
	assert_true(attack_count >= 20 && attack_count + 3 <= ASSAULTS_MAX);
	for (size_t i = 0; i < attack_count; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(attacks[i].name, attacks[k].name);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(an_attack_that_works_fails_the_report),
	cmocka_unit_test(one_that_was_not_shown_to_work_is_a_warning),
	cmocka_unit_test(nothing_attacked_is_nothing_contained),
	cmocka_unit_test(every_attack_has_a_name_of_its_own),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
