/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_health.c - brig_backend_health: ok, detail, and never longer than asked. */
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "unit.h"

#include "brig.h"

static char detail[256];

static int health(const char *backend, uint64_t ms)
{
	brig_manager *m = brig_manager_new();
	int r;

	assert_non_null(m);
	detail[0] = '\0';
	r = brig_backend_health(m, backend, ms, detail, sizeof(detail));
	brig_manager_free(m);
	assert_true(detail[0] && !strchr(detail, '\n'));
	return r;
}

static void native_is_ready_or_says_why_not(void **state UNUSED)
{
	if (health("native", 10000) == 0)
		assert_string_equal(detail, "backend 'native' is ready");
	else
		assert_non_null(strstr(detail, "namespace"));
}

static void a_word_that_is_no_backend_is_an_error(void **state UNUSED)
{
	assert_int_equal(health("nonesuch", 0), -EINVAL);
	assert_non_null(strstr(detail, "nonesuch"));
}

/* An engine that accepts and never says a word. */
static void an_engine_that_is_silent_is_not_waited_for(void **state UNUSED)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char top[PATH_MAX], host[PATH_MAX + 16];
	struct timespec from, to;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	enter_scratch(top);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%.90s/s", top);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 4), 0);
	(void)snprintf(host, sizeof(host), "unix://%s/s", top);
	assert_int_equal(setenv("DOCKER_HOST", host, 1), 0);
	(void)clock_gettime(CLOCK_MONOTONIC, &from);
	assert_int_equal(health("docker", 200), -ETIMEDOUT);
	(void)clock_gettime(CLOCK_MONOTONIC, &to);
	assert_string_equal(detail, "docker check timed out");
	assert_true(to.tv_sec - from.tv_sec < 5);
	(void)close(fd);
	assert_int_equal(health("docker", 200), -ENOTCONN);
	assert_string_equal(detail, "docker daemon unavailable");
	assert_int_equal(unsetenv("DOCKER_HOST"), 0);
	leave_scratch(top);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(native_is_ready_or_says_why_not),
	cmocka_unit_test(a_word_that_is_no_backend_is_an_error),
	cmocka_unit_test(an_engine_that_is_silent_is_not_waited_for),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
