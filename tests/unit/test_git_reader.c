/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_git_reader.c - what git is not asked about: what is too large, or no file. */
#include "unit.h"

#include "backend/kit/protect/git_reader.h"

#define MIB ((off_t)1 << 20)

static void file_of(const char *name, off_t size)
{
	CLEANUP(fd) int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
}

/* With no time left the answer is "hostile" for all; what would have been asked is counted. */
static bool is_asked_about(const char *name)
{
	struct reader_asker late = { .avoid = "/", .until = 1 };
	CLEANUP(buf) struct buf facts = BUF_INIT(READER_ANSWER_MAX);
	CLEANUP(fd) int fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	assert_int_equal(reader_config(READER_CONFIG, fd, &late, &facts), READER_HOSTILE);
	return late.unasked;
}

static void settings_are_asked_about_up_to_a_mebibyte(void **state UNUSED)
{
	char top[PATH_MAX];

	enter_scratch(top);
	set_below("XDG_STATE_HOME", top, "state");
	file_of("config", MIB);
	assert_true(is_asked_about("config"));
	file_of("config", MIB + 1);
	assert_false(is_asked_about("config"));
	file_of("config", 100 * MIB);
	assert_false(is_asked_about("config"));
	leave_scratch(top);
}

static void only_files_are_asked_about(void **state UNUSED)
{
	char top[PATH_MAX];

	enter_scratch(top);
	set_below("XDG_STATE_HOME", top, "state");
	assert_int_equal(mkdir("folder", 0700) | mkfifo("pipe", 0600), 0);
	assert_false(is_asked_about("folder"));
	assert_false(is_asked_about("pipe"));
	assert_false(is_asked_about("missing"));
	leave_scratch(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_are_asked_about_up_to_a_mebibyte),
		cmocka_unit_test(only_files_are_asked_about),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
