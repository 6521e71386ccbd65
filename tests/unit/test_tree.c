/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_tree.c - trees that somebody hostile made: their size, and their end. */
#include "unit.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/files/fd.h"
#include "base/files/tree.h"

#define ANY ((uint64_t)1 << 40)
#define DEEP 1500 /* no path leads to its end */

static char top[PATH_MAX];

static int enter(void **state UNUSED)
{
	enter_scratch(top);
	must(mkdir("tree", 0700) == 0);
	return 0;
}

static int leave(void **state UNUSED)
{
	leave_scratch(top);
	return 0;
}

static int open_tree_folder(void)
{
	int fd = open("tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	must(fd >= 0);
	return fd;
}

static uint64_t size_of(uint64_t most)
{
	CLEANUP(fd) int fd = open_tree_folder();
	uint64_t n = 0;

	assert_int_equal(tree_size(fd, most, &n), 0);
	return n;
}

static void fill(const char *path, size_t n)
{
	CLEANUP(fd) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char block[4096];

	must(fd >= 0);
	memset(block, 'x', sizeof(block));
	for (; n; n -= sizeof(block))
		must(fd_write_all(fd, block, sizeof(block)) == 0);
	must(fsync(fd) == 0); /* some file systems count blocks only then */
}

static int end(const char *name)
{
	CLEANUP(fd) int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	must(here >= 0);
	return tree_remove(here, name);
}

static void end_tree(void)
{
	struct stat st;

	assert_int_equal(end("tree"), 0);
	assert_int_equal(lstat("tree", &st), -1);
}

static void bytes_are_those_on_disk_and_every_name_counts(void **state UNUSED)
{
	assert_int_equal(size_of(ANY), 0);
	fill("tree/large", 1 << 20);
	assert_true(size_of(ANY) >= 1 << 20);
	assert_true(size_of(ANY) < 3 << 20);
	for (int i = 0; i < 100; i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "tree/%d", i);
		must(symlink("nowhere", path) == 0);
	}
	assert_true(size_of(ANY) >= (1 << 20) + 100 * TREE_LEAST);
	assert_true(size_of(1 << 16) > 1 << 16);
	end_tree();
}

static void a_file_with_two_names_counts_once(void **state UNUSED)
{
	fill("tree/a", 4 << 20);
	must(link("tree/a", "tree/b") == 0);
	assert_true(size_of(ANY) < 6 << 20);
	end_tree();
}

/* Neither looked at nor removed: what links lead to, and what they are in the way of. */
static void no_link_is_followed(void **state UNUSED)
{
	struct stat st;

	must(mkdir("out", 0700) == 0);
	fill("out/file", 1 << 20);
	must(symlink("../out", "tree/folder") == 0);
	must(symlink("../out/file", "tree/file") == 0);
	must(symlink("/", "tree/root") == 0);
	assert_true(size_of(ANY) < 1 << 20);
	end_tree();
	assert_int_equal(stat("out/file", &st), 0);
	assert_int_equal(end("out"), 0);
}

/* A pipe that nobody writes to would keep whoever opens it waiting. */
static void what_is_no_file_is_not_opened(void **state UNUSED)
{
	must(mkfifo("tree/pipe", 0666) == 0);
	must(mknod("tree/socket", S_IFSOCK | 0666, 0) == 0);
	if (geteuid() == 0)
		must(mknod("tree/null", S_IFCHR | 0666, makedev(1, 3)) == 0);
	assert_true(size_of(ANY) >= 2 * TREE_LEAST);
	end_tree();
}

static void folders_that_were_closed_are_opened(void **state UNUSED)
{
	must(mkdir("tree/a", 0700) == 0);
	must(mkdir("tree/a/b", 0700) == 0);
	fill("tree/a/b/hidden", 1 << 20);
	must(chmod("tree/a/b", 0) == 0);
	must(chmod("tree/a", 0) == 0);
	assert_true(size_of(ANY) >= 1 << 20);
	must(chmod("tree/a/b", 0555) == 0); /* as Go leaves its modules */
	assert_true(size_of(ANY) >= 1 << 20);
	must(chmod("tree/a/b", 0) == 0);
	must(chmod("tree/a", 0) == 0);
	end_tree();
}

static void make_deep(void)
{
	int at = open_tree_folder();

	for (int i = 0; i < DEEP; i++) {
		int next;

		must(mkdirat(at, "deeper-than-any-program-makes-its-folders", 0700) == 0);
		next = openat(at, "deeper-than-any-program-makes-its-folders",
			      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		must(next >= 0);
		must(i % 7 || fchmod(at, 0) == 0);
		(void)fd_close(at);
		at = next;
	}
	(void)fd_close(at);
	must(chmod("tree", 0700) == 0);
}

static void a_tree_without_end_is_told_and_removed(void **state UNUSED)
{
	CLEANUP(fd) int fd = -1;
	uint64_t n = 0;

	make_deep();
	fd = open_tree_folder();
	assert_int_equal(tree_size(fd, ANY, &n), -ELOOP);
	end_tree();
}

/* Few descriptors are no reason to leave anything. */
static void a_deep_tree_is_removed_with_few_descriptors(void **state UNUSED)
{
	struct rlimit was, few;
	CLEANUP(fd) int fd = -1;
	uint64_t n = 0;
	int r;

	make_deep();
	fd = open_tree_folder();
	must(getrlimit(RLIMIT_NOFILE, &was) == 0);
	few = was;
	few.rlim_cur = (rlim_t)fd + 20;
	must(setrlimit(RLIMIT_NOFILE, &few) == 0);
	assert_int_equal(tree_size(fd, ANY, &n), -EMFILE);
	r = end("tree");
	must(setrlimit(RLIMIT_NOFILE, &was) == 0);
	assert_int_equal(r, 0);
	assert_int_equal(access("tree", F_OK), -1);
}

static void many_names_and_nothing_is_left(void **state UNUSED)
{
	for (int i = 0; i < 3000; i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "tree/%d", i);
		must(mknod(path, S_IFREG | 0, 0) == 0);
	}
	end_tree();
}

static void what_is_not_there_is_gone(void **state UNUSED)
{
	end_tree();
	assert_int_equal(end("tree"), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_are_those_on_disk_and_every_name_counts,
						enter, leave),
		cmocka_unit_test_setup_teardown(a_file_with_two_names_counts_once, enter, leave),
		cmocka_unit_test_setup_teardown(no_link_is_followed, enter, leave),
		cmocka_unit_test_setup_teardown(what_is_no_file_is_not_opened, enter, leave),
		cmocka_unit_test_setup_teardown(folders_that_were_closed_are_opened, enter, leave),
		cmocka_unit_test_setup_teardown(a_tree_without_end_is_told_and_removed, enter,
						leave),
		cmocka_unit_test_setup_teardown(a_deep_tree_is_removed_with_few_descriptors, enter,
						leave),
		cmocka_unit_test_setup_teardown(many_names_and_nothing_is_left, enter, leave),
		cmocka_unit_test_setup_teardown(what_is_not_there_is_gone, enter, leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
