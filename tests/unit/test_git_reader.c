/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_git_reader.c - what is copied for the git that is asked, and what is too large for it.
 */
#include "unit.h"

#include "backend/kit/protect/git_reader.h"

#define MIB ((off_t)1 << 20)

static void file_of(const char *name, off_t size)
{
	CLEANUP(fd) int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
}

static int copy_of(enum reader_kind kind, const char *name, off_t *size)
{
	struct reader_copy c = { .fd = -1 };
	int r = reader_copy(kind, AT_FDCWD, name, &c);
	struct stat st;

	*size = r == 0 && fstat(c.fd, &st) == 0 ? st.st_size : -1;
	reader_copy_done(&c);
	return r;
}

/* Settings that are larger than any are nobody's to read: what is said of them is "hostile". */
static void settings_are_copied_up_to_a_mebibyte(void **state UNUSED)
{
	char top[PATH_MAX];
	off_t size;

	enter_scratch(top);
	file_of("config", MIB);
	assert_int_equal(copy_of(READER_CONFIG, "config", &size), 0);
	assert_int_equal(size, MIB);
	file_of("config", MIB + 1);
	assert_int_equal(copy_of(READER_CONFIG, "config", &size), -EFBIG);
	file_of("config", 100 * MIB);
	assert_int_equal(copy_of(READER_CONFIG, "config", &size), -EFBIG);
	leave_scratch(top);
}

static void only_files_are_copied(void **state UNUSED)
{
	char top[PATH_MAX];
	off_t size;

	enter_scratch(top);
	assert_int_equal(mkdir("folder", 0700) | mkfifo("pipe", 0600) | symlink("pipe", "link"), 0);
	assert_int_equal(copy_of(READER_CONFIG, "folder", &size), -EFBIG);
	assert_int_equal(copy_of(READER_CONFIG, "pipe", &size), -EFBIG);
	assert_int_equal(copy_of(READER_CONFIG, "link", &size), -ELOOP);
	assert_int_equal(copy_of(READER_CONFIG, "missing", &size), -ENOENT);
	leave_scratch(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_are_copied_up_to_a_mebibyte),
		cmocka_unit_test(only_files_are_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
