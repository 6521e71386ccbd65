/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_lockdown.c - the door's processes after they gave everything up: signals. What else
 * they cannot do, tests/egress shows by what reaches them. */
#include "unit.h"

#include <sys/syscall.h>

#include "egress/worker/lockdown.h"

static long signal_to(pid_t pid, int number)
{
	return syscall(SYS_tgkill, pid, pid, number) == 0 ? 0 : -errno;
}

/* The number of a process that is no more: nothing but a filter says EPERM to it. */
static pid_t gone(void)
{
	pid_t pid = fork();

	must(pid >= 0);
	if (pid == 0)
		_exit(0);
	must(waitpid(pid, NULL, 0) == pid);
	return pid;
}

static void signals_nobody_else(void *role)
{
	pid_t nobody = gone(), parent = getppid(), self = getpid();
	struct err e = { 0 };

	must(signal_to(nobody, 0) == -ESRCH && signal_to(parent, 0) == 0);
	must(lockdown(*(enum lockdown_role *)role, &e) == 0);
	if (signal_to(nobody, 0) != -EPERM || signal_to(parent, 0) != -EPERM)
		_exit(2);
	if (signal_to(self, 0) != 0)
		_exit(3);
}

static void it_signals_itself_and_nobody_else(void **state UNUSED)
{
	enum lockdown_role roles[] = { LOCKDOWN_WORKER, LOCKDOWN_KEEPER };

	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		assert_true(in_child(signals_nobody_else, &roles[i], 20));
}

static void it_can_still_abort(void **state UNUSED)
{
	struct err e = { 0 };
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)signal(SIGABRT, SIG_DFL);
		must(lockdown(LOCKDOWN_WORKER, &e) == 0);
		abort();
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(it_signals_itself_and_nobody_else),
	cmocka_unit_test(it_can_still_abort),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
