/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_forked.c - a child's one word is taken as it was meant, or not at all. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/files/fd.h"
#include "proc/forked.h"

static int line, status;

/* What hearing the child gives; its status is in `status`. */
static int hear(int (*run)(void *arg, int line), void *arg, struct err *said)
{
	const struct forked_want w = { .name = "brig-forked",
				       .what = "a test",
				       .line = FORKED_BYTES,
				       .run = run,
				       .arg = arg };
	struct err e = { 0 };
	pid_t pid = forked_start(&w, &line, &e);
	int r;

	assert_true(pid > 0);
	r = forked_hear(line, said);
	line = fd_close(line);
	status = forked_wait(pid);
	return r;
}

static int tell(void *arg, int to)
{
	char name[16];

	if (prctl(PR_GET_NAME, name, 0, 0, 0) < 0 || strcmp(name, "brig-forked") != 0)
		return 1;
	return forked_tell(to, arg) < 0 ? 2 : 7;
}

static int say_half(void *arg UNUSED, int to)
{
	return fd_write_all(to, "half", 4);
}

static int die(void *arg UNUSED, int to UNUSED)
{
	return raise(SIGKILL);
}

static int wait_for_the_end(void *arg UNUSED, int from)
{
	char c;

	return read(from, &c, 1) == 0 ? 3 : 4;
}

static void a_word_is_heard_and_the_status_is_what_run_returned(void **state UNUSED)
{
	struct err said, e = { .code = 5, .kind = ERR_POLICY, .what = "no", .hint = "but" };

	assert_int_equal(hear(tell, &e, &said), 0);
	assert_memory_equal(&said, &e, sizeof(e));
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void texts_end_and_a_kind_is_one_of_ours(void **state UNUSED)
{
	struct err said, e = { .code = 5, .kind = ERR_POLICY };

	memset(e.what, 'x', sizeof(e.what));
	memset(e.hint, 'x', sizeof(e.hint));
	assert_int_equal(hear(tell, &e, &said), 0);
	assert_int_equal(strlen(said.what), sizeof(e.what) - 1);
	assert_int_equal(strlen(said.hint), sizeof(e.hint) - 1);
	e.kind = ERR_KINDS;
	assert_int_equal(hear(tell, &e, &said), -EPROTO);
	e.kind = ERR_POLICY;
	e.code = -5;
	assert_int_equal(hear(tell, &e, &said), -EPROTO);
}

static void silence_and_half_a_word_are_told(void **state UNUSED)
{
	struct err said;

	assert_true(hear(die, NULL, &said) < 0);
	assert_true(WIFSIGNALED(status));
	assert_true(hear(say_half, NULL, &said) < 0);
}

static void the_line_ends_with_the_parents_side(void **state UNUSED)
{
	const struct forked_want w = { .what = "a test",
				       .line = FORKED_PACKETS,
				       .run = wait_for_the_end };
	struct err e = { 0 };
	pid_t pid = forked_start(&w, &line, &e);

	assert_true(pid > 0);
	line = fd_close(line);
	status = forked_wait(pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_word_is_heard_and_the_status_is_what_run_returned),
		cmocka_unit_test(texts_end_and_a_kind_is_one_of_ours),
		cmocka_unit_test(silence_and_half_a_word_are_told),
		cmocka_unit_test(the_line_ends_with_the_parents_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
