/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_seen.c - folders that need no second listing. */
#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "backend/kit/survey/seen.h"
#include "base/text/str.h"

static char top[PATH_MAX];
static int tree = -1;

static int enter(void **state UNUSED)
{
	enter_scratch(top);
	tree = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return tree < 0;
}

static int leave(void **state UNUSED)
{
	tree = fd_close(tree);
	leave_scratch(top);
	return 0;
}

static struct stat make(const char *name)
{
	struct stat st;

	assert_int_equal(mkdirat(tree, name, 0700), 0);
	assert_int_equal(fstatat(tree, name, &st, 0), 0);
	return st;
}

static struct stat look(const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(tree, name, &st, 0), 0);
	return st;
}

static void put(struct seen_folders *s, const char *name, const struct stat *st, const char *in)
{
	CLEANUP(buf) struct buf names = BUF_INIT(64);

	buf_add(&names, in, strlen(in) + 1);
	seen_put(s, name, false, st, &names);
}

/* As old as it must be. */
static void wait_for_clock(struct seen_folders *s)
{
	(void)usleep(60000);
	seen_begin(s);
}

static void one_that_is_as_it_was_needs_no_listing(void **state UNUSED)
{
	struct stat st = make("a");
	struct seen_folders *s = seen_new(tree);

	if (!s)
		skip(); /* not on this file system */
	wait_for_clock(s);
	put(s, "a", &st, "db");
	assert_true(seen_has(s, "a", false) && !seen_has(s, "a", true) && !seen_has(s, "b", false));
	st = look("a");
	assert_string_equal(seen_names(s, "a", false, &st), "db");
	assert_null(seen_names(s, "a", true, &st));
	(void)seen_free(s);
}

static void every_change_of_names_is_noticed(void **state UNUSED)
{
	static const char *const by[] = { "touch a/x",
					  "rm a/x",
					  "mv a/b a/c",
					  "ln -s x a/y",
					  "rmdir a/c",
					  "rm a/y && touch -d 2001-01-01 a",
					  "mv a z && mkdir a && touch -r z a",
					  "rmdir a && mv z a" };
	struct stat st = make("a");
	struct seen_folders *s = seen_new(tree);

	if (!s)
		skip();
	(void)make("a/b");
	for (size_t i = 0; i < ARRAY_LEN(by); i++) {
		char line[PATH_MAX + 64];

		wait_for_clock(s);
		st = look("a");
		put(s, "a", &st, "db");
		assert_non_null(seen_names(s, "a", false, &st));
		(void)snprintf(line, sizeof(line), "cd '%s' && %s", top, by[i]);
		assert_int_equal(system(line), 0); /* NOLINT */
		st = look("a");
		assert_null(seen_names(s, "a", false, &st));
	}
	(void)seen_free(s);
}

/* Another change in the same tick would not be seen. */
static void what_is_too_young_is_not_believed(void **state UNUSED)
{
	struct seen_folders *s = seen_new(tree);
	struct stat st;

	if (!s)
		skip();
	seen_begin(s);
	st = make("a");
	put(s, "a", &st, "db");
	assert_false(seen_has(s, "a", false));
	(void)seen_free(s);
}

static void many_are_kept_and_none_when_frozen(void **state UNUSED)
{
	struct stat st = make("a");
	struct seen_folders *s = seen_new(tree);
	size_t kept = 0;
	char name[32];

	if (!s)
		skip();
	wait_for_clock(s);
	for (int i = 0; i < 20000; i++) {
		(void)snprintf(name, sizeof(name), "a/%d", i);
		put(s, name, &st, name);
	}
	for (int i = 0; i < 20000; i++) {
		const char *in;

		(void)snprintf(name, sizeof(name), "a/%d", i);
		in = seen_names(s, name, false, &st);
		kept += in != NULL;
		assert_true(!in || str_eq(in, name));
	}
	assert_true(kept > 19000);
	seen_freeze(s);
	put(s, "b", &st, "dc");
	assert_true(!seen_wants(s) && !seen_has(s, "b", false));
	(void)seen_free(s);
}

static struct seen_folders *loaded(const char *name)
{
	CLEANUP(fd) int fd = openat(tree, name, O_RDONLY | O_CLOEXEC);
	struct seen_folders *s = seen_new(tree);

	assert_true(fd >= 0 && s);
	seen_load(s, fd);
	return s;
}

static void a_file_brings_all_of_it_or_nothing(void **state UNUSED)
{
	struct stat st = make("a"), file;
	struct seen_folders *s = seen_new(tree), *again;
	CLEANUP(fd) int fd = openat(tree, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (!s)
		skip();
	wait_for_clock(s);
	assert_false(seen_is_new(s));
	put(s, "a", &st, "db");
	assert_true(seen_is_new(s));
	assert_int_equal(seen_store(s, fd), 0);
	again = loaded("file");
	assert_string_equal(seen_names(again, "a", false, &st), "db");
	assert_false(seen_is_new(again) || seen_is_new(s));
	again = seen_free(again);
	file = look("file");
	for (off_t at = 0; at < file.st_size; at++) {
		char was, other;

		assert_int_equal(pread(fd, &was, 1, at), 1);
		other = (char)(was ^ 1);
		assert_int_equal(pwrite(fd, &other, 1, at), 1);
		again = loaded("file");
		assert_false(seen_has(again, "a", false));
		again = seen_free(again);
		assert_int_equal(pwrite(fd, &was, 1, at), 1);
	}
	for (off_t len = file.st_size; len-- > 0;) {
		assert_int_equal(ftruncate(fd, len), 0);
		again = loaded("file");
		assert_false(seen_has(again, "a", false));
		again = seen_free(again);
	}
	(void)seen_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_that_is_as_it_was_needs_no_listing, enter,
						leave),
		cmocka_unit_test_setup_teardown(every_change_of_names_is_noticed, enter, leave),
		cmocka_unit_test_setup_teardown(what_is_too_young_is_not_believed, enter, leave),
		cmocka_unit_test_setup_teardown(a_file_brings_all_of_it_or_nothing, enter, leave),
		cmocka_unit_test_setup_teardown(many_are_kept_and_none_when_frozen, enter, leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
