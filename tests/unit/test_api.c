/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_api.c - brig.h called wrongly: every pointer that comes back is set, every refusal has
 * words, and nothing is freed that was never made. */
#include "unit.h"

#include <poll.h>

#include "brig.h"

#define POISON ((void *)(uintptr_t)0x4141414141)

static char top[PATH_MAX];

static int enter(void **state)
{
	char path[PATH_MAX + 16];

	enter_scratch(top);
	(void)snprintf(path, sizeof(path), "%s/state", top);
	must(mkdir(path, 0700) == 0 && setenv("XDG_STATE_HOME", path, 1) == 0);
	*state = brig_manager_new();
	return *state ? 0 : -1;
}

static int leave(void **state)
{
	brig_manager_free(*state);
	leave_scratch(top);
	return 0;
}

static struct brig_error poisoned(void)
{
	struct brig_error e;

	memset(&e, 0x41, sizeof(e));
	return e;
}

/* The call failed as said, and says why. */
static void expect(int got, int code, const struct brig_error *e)
{
	assert_int_equal(got, -code);
	assert_int_equal(e->errnum, code);
	assert_true(memchr(e->what, '\0', sizeof(e->what)) && e->what[0]);
	assert_non_null(memchr(e->hint, '\0', sizeof(e->hint)));
	assert_non_null(memchr(e->code, '\0', sizeof(e->code)));
}

#define REFUSED(call, code)                                                                        \
	do {                                                                                       \
		struct brig_error e = poisoned();                                                  \
		expect(call, code, &e);                                                            \
	} while (0)

static void what_comes_back_is_set_whatever_was_asked(void **state)
{
	static const char *const bad_env[] = { "NOEQUALS", NULL };
	const struct brig_limits bad = { .pids = 1ULL << 60 };
	brig_result *r;

#define NO_RESULT(...)                                                                             \
	do {                                                                                       \
		r = POISON;                                                                        \
		REFUSED(__VA_ARGS__, EINVAL);                                                      \
		assert_null(r);                                                                    \
	} while (0)
	NO_RESULT(brig_execute_command(*state, "true", "/tmp", bad_env, &r, &e));
	NO_RESULT(brig_execute_command(*state, NULL, "/tmp", NULL, &r, &e));
	NO_RESULT(brig_execute_command(*state, "true", NULL, NULL, &r, &e));
	NO_RESULT(brig_execute_with_policy(*state, "true", "/tmp", (enum brig_policy)99, NULL, &r,
					   &e));
	NO_RESULT(brig_execute_with_policy(*state, "true", NULL, BRIG_READONLY, NULL, &r, &e));
	NO_RESULT(brig_execute_with_limits(*state, "true", "/tmp", NULL, &r, &e));
	NO_RESULT(
		brig_execute_with_limits(*state, "true", NULL, &(struct brig_limits){ 0 }, &r, &e));
	r = POISON;
	assert_true(brig_execute_with_limits(*state, "true", "/tmp", &bad, &r,
					     &(struct brig_error){ 0 }) < 0);
	assert_null(r);
}

static void a_request_that_is_refused_has_a_result_and_no_plan(void **state)
{
	brig_request *q = brig_request_new(*state);
	brig_result *r = POISON;
	char *json = POISON;

	REFUSED(brig_request_plan(q, &json, &e), EINVAL);
	assert_null(json);
	REFUSED(brig_execute(q, &r, &e), EINVAL);
	assert_true(r && r != POISON);
	assert_string_equal(brig_result_outcome(r), "refused");
	json = brig_result_json(r);
	assert_non_null(strstr(json, "no command was given"));
	free(json);
	brig_result_free(r);
	brig_request_free(q);
}

static void a_run_that_is_refused_is_over_at_once(void **state)
{
	brig_request *q = brig_request_new(*state);
	brig_result *r = POISON;
	brig_run *x = POISON;

	assert_int_equal(brig_start(q, &x, &(struct brig_error){ 0 }), 0);
	assert_int_equal(poll(&(struct pollfd){ .fd = brig_run_fd(x), .events = POLLIN }, 1, 0), 1);
	assert_int_equal(brig_run_dispatch(x), 0);
	REFUSED(brig_run_finish(x, &r, &e), EINVAL);
	assert_string_equal(brig_result_outcome(r), "refused");
	brig_result_free(r);
	/* ... also one that only the plan refuses */
	assert_int_equal(brig_request_shell(q, "true", &(struct brig_error){ 0 }), 0);
	assert_int_equal(brig_request_workdir(q, "/not/there", &(struct brig_error){ 0 }), 0);
	assert_int_equal(brig_start(q, &x, &(struct brig_error){ 0 }), 0);
	assert_int_equal(poll(&(struct pollfd){ .fd = brig_run_fd(x), .events = POLLIN }, 1, 0), 1);
	assert_int_equal(brig_run_dispatch(x), 0);
	assert_true(brig_run_finish(x, &r, &(struct brig_error){ 0 }) < 0);
	assert_string_equal(brig_result_outcome(r), "refused");
	brig_result_free(r);
	brig_request_free(q);
}

static void settings_that_are_missing_or_wrong_are_refused(void **state)
{
	brig_request *q = brig_request_new(*state);
	brig_proxy *p = brig_proxy_new(*state);

	REFUSED(brig_manager_set(*state, NULL, "1", &e), EINVAL);
	REFUSED(brig_manager_set(*state, "policy", NULL, &e), EINVAL);
	REFUSED(brig_manager_set(*state, "no.such", "1", &e), EINVAL);
	REFUSED(brig_request_set(q, NULL, "1", &e), EINVAL);
	REFUSED(brig_request_set(q, "policy", NULL, &e), EINVAL);
	REFUSED(brig_request_set(q, "policy", "some", &e), EINVAL);
	REFUSED(brig_request_argv(q, NULL, &e), EINVAL);
	REFUSED(brig_request_argv(q, (const char *const[]){ NULL }, &e), EINVAL);
	REFUSED(brig_request_shell(q, NULL, &e), EINVAL);
	REFUSED(brig_request_workdir(q, NULL, &e), EINVAL);
	REFUSED(brig_request_env(q, NULL, "1", &e), EINVAL);
	REFUSED(brig_request_env(q, "A", NULL, &e), EINVAL);
	REFUSED(brig_request_env(q, "A=B", "1", &e), EINVAL);
	REFUSED(brig_request_env(q, "", "1", &e), EINVAL);
	REFUSED(brig_request_policy(q, (enum brig_policy)3, &e), EINVAL);
	REFUSED(brig_request_limits(q, NULL, &e), EINVAL);
	REFUSED(brig_request_input(q, NULL, 1, &e), EINVAL);
	REFUSED(brig_request_python(q, NULL, 1, &e), EINVAL);
	REFUSED(brig_request_python_file(q, NULL, &e), EINVAL);
	REFUSED(brig_request_python_file(q, "no-such-file", &e), ENOENT);
	REFUSED(brig_request_arg(q, NULL, &e), EINVAL);
	REFUSED(brig_request_script(q, NULL, NULL, 1, &e), EINVAL);
	REFUSED(brig_request_script_file(q, NULL, NULL, &e), EINVAL);
	REFUSED(brig_request_param(q, NULL, "1", &e), EINVAL);
	REFUSED(brig_request_param(q, "a", NULL, &e), EINVAL);
	REFUSED(brig_request_param(q, "a=b", "1", &e), EINVAL);
	REFUSED(brig_proxy_set(p, NULL, "1", &e), EINVAL);
	REFUSED(brig_proxy_set(p, "policy", NULL, &e), EINVAL);
	REFUSED(brig_proxy_allow(p, NULL, &e), EINVAL);
	REFUSED(brig_proxy_credential(p, NULL, NULL, &e), EINVAL);
	REFUSED(brig_proxy_credential(p, NULL, "example.org", &e), EINVAL);
	brig_proxy_free(p);
	brig_request_free(q);
}

static void nothing_is_a_whole_input(void **state)
{
	brig_request *q = brig_request_new(*state);
	struct brig_error e;

	assert_int_equal(brig_request_input(q, NULL, 0, &e), 0);
	brig_request_free(q);
}

static void a_proxy_that_does_not_run_has_counted_nothing(void **state)
{
	brig_proxy *p = brig_proxy_new(*state);
	struct brig_error any = poisoned();
	brig_result *r = POISON;

	assert_int_equal(brig_proxy_stop(p, &r, &any), 0);
	assert_null(r);
	assert_int_equal(brig_proxy_listens(p), 0);
	assert_string_equal(brig_proxy_url(p), "");
	assert_null(brig_proxy_authority(p));
	r = POISON;
	assert_int_equal(brig_proxy_stop(p, &r, &any), 0);
	assert_null(r);
	assert_int_equal(brig_proxy_stop(p, NULL, &any), 0);
	brig_proxy_free(p);
}

static void a_proxy_that_could_not_start_has_counted_nothing(void **state)
{
	brig_proxy *p = brig_proxy_new(*state);
	struct brig_error any = poisoned();
	brig_result *r = POISON;

	(void)unsetenv("NO_SUCH_VALUE");
	assert_int_equal(brig_proxy_credential(p, "NO_SUCH_VALUE", "example.org", &any), 0);
	assert_true(brig_proxy_start(p, &any) < 0);
	assert_true(any.errnum > 0 && any.what[0]);
	assert_int_equal(brig_proxy_stop(p, &r, &any), 0);
	assert_null(r);
	REFUSED(brig_proxy_start(p, &e), EBUSY);
	REFUSED(brig_proxy_allow(p, "example.org", &e), EBUSY);
	brig_proxy_free(p);
}

static void nothing_is_freed_twice_or_for_nothing(void **state UNUSED)
{
	brig_manager_free(NULL);
	brig_request_free(NULL);
	brig_result_free(NULL);
	brig_proxy_free(NULL);
}

static void health_always_has_words(void **state)
{
	static const char *const names[] = { NULL, "", "no-such-backend", "none" };
	char detail[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		memset(detail, 0x41, sizeof(detail));
		(void)brig_backend_health(*state, names[i], 0, detail, sizeof(detail));
		assert_true(memchr(detail, '\0', sizeof(detail)) && detail[0]);
	}
	assert_int_equal(brig_backend_health(*state, NULL, 0, NULL, 0), -EINVAL);
}

#define HERE(f) cmocka_unit_test_setup_teardown(f, enter, leave)
static const struct CMUnitTest tests[] = {
	HERE(what_comes_back_is_set_whatever_was_asked),
	HERE(a_request_that_is_refused_has_a_result_and_no_plan),
	HERE(a_run_that_is_refused_is_over_at_once),
	HERE(settings_that_are_missing_or_wrong_are_refused),
	HERE(nothing_is_a_whole_input),
	HERE(a_proxy_that_does_not_run_has_counted_nothing),
	HERE(a_proxy_that_could_not_start_has_counted_nothing),
	HERE(nothing_is_freed_twice_or_for_nothing),
	HERE(health_always_has_words),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
