/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_err.c - errors as values. */
#include "unit.h"

#include "base/text/err.h"

static void an_error_keeps_its_code_kind_and_text(void **state UNUSED)
{
	struct err e;

	memset(&e, 'x', sizeof(e));
	assert_int_equal(err_set(&e, ERR_POLICY, EPERM, "'%s' is %d", "a", 7), -EPERM);
	assert_int_equal(e.code, EPERM);
	assert_int_equal(e.kind, ERR_POLICY);
	assert_string_equal(e.what, "'a' is 7");
	assert_string_equal(e.hint, "");
}

static void a_code_that_is_no_error_becomes_one(void **state UNUSED)
{
	struct err e;

	assert_int_equal(err_set(&e, ERR_INTERNAL, 0, "x"), -EIO);
	assert_int_equal(err_set(&e, ERR_INTERNAL, -EPERM, "x"), -EIO);
	errno = 0;
	assert_int_equal(err_sys(&e, "x"), -EIO);
}

static void a_system_error_ends_with_its_reason(void **state UNUSED)
{
	struct err e;

	errno = ENOENT;
	assert_int_equal(err_sys(&e, "cannot open '%s'", "f"), -ENOENT);
	assert_string_equal(e.what, "cannot open 'f': No such file or directory");
	errno = 4000;
	assert_int_equal(err_sys(&e, "f"), -4000);
	assert_string_equal(e.what, "f: unknown error");
}

static void context_goes_in_front_and_leaves_code_and_hint(void **state UNUSED)
{
	struct err e;

	(void)err_set(&e, ERR_USAGE, EINVAL, "an empty path");
	assert_int_equal(err_hint(&e, "write %s", "one"), -EINVAL);
	assert_int_equal(err_wrap(&e, "mount %d", 3), -EINVAL);
	assert_string_equal(e.what, "mount 3: an empty path");
	assert_string_equal(e.hint, "write one");
	assert_int_equal(e.kind, ERR_USAGE);
}

static void a_new_error_forgets_the_old_hint(void **state UNUSED)
{
	struct err e;

	(void)err_set(&e, ERR_USAGE, EINVAL, "a");
	(void)err_hint(&e, "old");
	(void)err_set(&e, ERR_USAGE, EINVAL, "b");
	assert_string_equal(e.hint, "");
	(void)err_hint(&e, "old");
	errno = EIO;
	(void)err_sys(&e, "c");
	assert_string_equal(e.hint, "");
}

static void text_of_any_length_stays_in_its_place(void **state UNUSED)
{
	char longer[1024];

	for (size_t n = 370; n < 400; n++) {
		struct {
			struct err e;
			char guard[8];
		} box = { .guard = "guarded" };

		memset(longer, 'a', n);
		longer[n] = '\0';
		(void)err_set(&box.e, ERR_USAGE, EINVAL, "%s", longer);
		assert_true(strlen(box.e.what) < sizeof(box.e.what));
		(void)err_hint(&box.e, "%s", longer);
		assert_true(strlen(box.e.hint) < sizeof(box.e.hint));
		(void)err_wrap(&box.e, "context");
		assert_true(strlen(box.e.what) < sizeof(box.e.what));
		assert_memory_equal(box.e.what, "context: aaa", 12);
		(void)err_set(&box.e, ERR_USAGE, EINVAL, "inner");
		(void)err_wrap(&box.e, "%s", longer);
		assert_true(strlen(box.e.what) < sizeof(box.e.what));
		errno = ENOENT;
		(void)err_sys(&box.e, "%s", longer);
		assert_true(strlen(box.e.what) < sizeof(box.e.what));
		assert_string_equal(box.guard, "guarded");
	}
}

static void an_error_may_wrap_itself_many_times(void **state UNUSED)
{
	struct err e;

	(void)err_set(&e, ERR_USAGE, EINVAL, "core");
	for (int i = 0; i < 1000; i++)
		(void)err_wrap(&e, "layer %d", i);
	assert_memory_equal(e.what, "layer 999: layer 998: ", 22);
	assert_true(strlen(e.what) < sizeof(e.what));
}

static void every_kind_has_a_name_of_its_own(void **state UNUSED)
{
	for (int a = 0; a < ERR_KINDS; a++) {
		assert_true(strlen(err_kind_name((enum err_kind)a)) > 0);
		for (int b = 0; b < a; b++)
			assert_string_not_equal(err_kind_name((enum err_kind)a),
						err_kind_name((enum err_kind)b));
	}
	assert_string_equal(err_kind_name((enum err_kind)12345), "internal");
}

static void a_cleared_error_says_nothing(void **state UNUSED)
{
	struct err e;

	(void)err_nomem(&e);
	assert_int_equal(e.code, ENOMEM);
	err_clear(&e);
	assert_int_equal(e.code, 0);
	assert_string_equal(e.what, "");
}

static void a_refusal_has_its_hint_as_it_stands(void **state UNUSED)
{
	struct err e = { 0 };

	assert_int_equal(err_refuse(&e, ERR_POLICY, EPERM, "100% sure: use %s", "no '%s'", "x"),
			 -EPERM);
	assert_string_equal(e.what, "no 'x'");
	assert_string_equal(e.hint, "100% sure: use %s");
	assert_int_equal(e.kind, ERR_POLICY);
}

static void a_code_of_either_sign_says_its_cause(void **state UNUSED)
{
	struct err e = { 0 };

	errno = EIO;
	assert_int_equal(err_errno(&e, -ENOENT, "cannot open '%s'", "x"), -ENOENT);
	assert_string_equal(e.what, "cannot open 'x': No such file or directory");
	assert_int_equal(err_errno(&e, ENOENT, "cannot open"), -ENOENT);
	assert_string_equal(e.what, "cannot open: No such file or directory");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_refusal_has_its_hint_as_it_stands),
	cmocka_unit_test(a_code_of_either_sign_says_its_cause),
	cmocka_unit_test(an_error_keeps_its_code_kind_and_text),
	cmocka_unit_test(a_code_that_is_no_error_becomes_one),
	cmocka_unit_test(a_system_error_ends_with_its_reason),
	cmocka_unit_test(context_goes_in_front_and_leaves_code_and_hint),
	cmocka_unit_test(a_new_error_forgets_the_old_hint),
	cmocka_unit_test(text_of_any_length_stays_in_its_place),
	cmocka_unit_test(an_error_may_wrap_itself_many_times),
	cmocka_unit_test(every_kind_has_a_name_of_its_own),
	cmocka_unit_test(a_cleared_error_says_nothing),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
