/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_wait.c - waiting ends when it should, and neither sooner nor later. */
#include <errno.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "unit.h"

#include "base/sys/clock.h"
#include "base/sys/wait.h"

enum { SHORT_MS = 60, LONG_MS = 20000 };

static volatile sig_atomic_t rung;

static void ring(int sig UNUSED)
{
	rung++;
}

/* A signal with a handler every 5 ms. */
static void alarms(bool on)
{
	const struct sigaction sa = { .sa_handler = on ? ring : SIG_DFL };
	const struct timeval often = { .tv_usec = on ? 5000 : 0 };
	const struct itimerval t = { .it_interval = often, .it_value = often };

	if (!on)
		assert_int_equal(setitimer(ITIMER_REAL, &t, NULL), 0);
	assert_int_equal(sigaction(SIGALRM, &sa, NULL), 0);
	rung = 0;
	if (on)
		assert_int_equal(setitimer(ITIMER_REAL, &t, NULL), 0);
}

static void no_signal_ends_a_wait(void **state UNUSED)
{
	struct pollfd p[2];
	uint64_t until;
	char byte;
	int a[2], b[2];

	assert_int_equal(pipe(a), 0);
	assert_int_equal(pipe(b), 0);
	p[0] = (struct pollfd){ .fd = a[0], .events = POLLIN };
	p[1] = (struct pollfd){ .fd = b[0], .events = POLLIN };
	alarms(true);
	until = clock_after(SHORT_MS);
	assert_int_equal(wait_fd(a[0], POLLIN, until), -ETIMEDOUT);
	assert_true(clock_us() >= until && rung > 0);
	until = clock_after(SHORT_MS);
	assert_int_equal(wait_any(p, 2, until), 0);
	assert_true(clock_us() >= until);
	assert_int_equal(p[0].revents | p[1].revents, 0);
	until = clock_after(SHORT_MS);
	assert_int_equal(wait_read(a[0], &byte, 1, until), -ETIMEDOUT);
	assert_true(clock_us() >= until);
	alarms(false);
	for (int i = 0; i < 2; i++) {
		(void)close(a[i]);
		(void)close(b[i]);
	}
}

static void what_is_there_ends_it_at_once(void **state UNUSED)
{
	uint64_t until = clock_after(LONG_MS);
	struct pollfd p[2];
	char byte = 0;
	int a[2], b[2];

	assert_int_equal(pipe(a), 0);
	assert_int_equal(pipe(b), 0);
	p[0] = (struct pollfd){ .fd = a[0], .events = POLLIN };
	p[1] = (struct pollfd){ .fd = b[0], .events = POLLIN };
	assert_int_equal(wait_look(b[0], POLLIN), 0);
	assert_int_equal(write(b[1], "x", 1), 1);
	assert_int_equal(wait_any(p, 2, until), 1);
	assert_true(!p[0].revents && p[1].revents == POLLIN);
	assert_int_equal(wait_look(b[0], POLLIN), POLLIN);
	assert_int_equal(wait_fd(b[0], POLLIN, 0), 0);
	assert_int_equal(wait_read(b[0], &byte, 1, until), 1);
	assert_int_equal(byte, 'x');
	(void)close(b[1]);
	assert_int_equal(wait_look(b[0], POLLIN), POLLHUP);
	assert_int_equal(wait_read(b[0], &byte, 1, until), 0);
	(void)close(a[0]);
	assert_true(wait_look(a[1], POLLOUT) & POLLERR);
	assert_int_equal(wait_look(-1, POLLIN), 0);
	assert_true(clock_us() < until);
	(void)close(a[1]);
	(void)close(b[0]);
}

/* Who never stops talking is not heard for ever. */
static void reading_ends_with_the_time_however_much_there_is(void **state UNUSED)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	uint64_t until = clock_after(SHORT_MS), reads = 0;
	char data[16];
	ssize_t n;

	assert_true(zero >= 0);
	while ((n = wait_read(zero, data, sizeof(data), until)) > 0)
		reads++;
	assert_int_equal(n, -ETIMEDOUT);
	assert_true(reads > 0 && clock_us() >= until);
	assert_int_equal(wait_read(zero, data, sizeof(data), 0), sizeof(data)); /* no deadline */
	(void)close(zero);
}

static void a_deadline_that_is_over_is_no_wait(void **state UNUSED)
{
	uint64_t from = clock_us();
	int a[2];

	assert_int_equal(pipe(a), 0);
	assert_int_equal(wait_fd(a[0], POLLIN, 1), -ETIMEDOUT);
	assert_int_equal(wait_fd(-1, POLLIN, 1), -ETIMEDOUT);
	assert_int_equal(write(a[1], "x", 1), 1);
	assert_int_equal(wait_fd(a[0], POLLIN, 1), 0);
	assert_true(clock_us() - from < (uint64_t)LONG_MS * 1000);
	(void)close(a[0]);
	(void)close(a[1]);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(no_signal_ends_a_wait),
	cmocka_unit_test(what_is_there_ends_it_at_once),
	cmocka_unit_test(reading_ends_with_the_time_however_much_there_is),
	cmocka_unit_test(a_deadline_that_is_over_is_no_wait),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
