/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_order.c - one command for an open sandbox, from the monitor's hand to its supervisor's.
 */
#include "unit.h"

#include <sys/mman.h>

#include "base/files/fd.h"
#include "proc/order.h"

static const char *const words[] = { "sh", "-c", "", "a\nb", NULL };
static const char *const variables[] = { "A=b", "EMPTY=", NULL };
static const char *const nothing[] = { NULL };

static void assert_same(const char *const *a, const char *const *b)
{
	for (; *a || *b; a++, b++) {
		assert_true(*a && *b);
		assert_string_equal(*a, *b);
	}
}

static void what_is_written_is_read(void **state UNUSED)
{
	const struct order o = {
		.argv = words, .envp = variables, .path = "/usr/bin:/bin", .cwd = "/workspace"
	};
	CLEANUP(fd) int fd = -1;
	const char *room[16], *data;
	struct order got;
	struct err e = { 0 };
	size_t n;

	assert_int_equal(order_make(&o, &fd, &e), 0);
	assert_true(order_map(fd, &data, &n));
	assert_int_equal(order_words(data, n), 4 + 2 + 2);
	assert_true(order_read(data, n, room, &got));
	assert_same(got.argv, words);
	assert_same(got.envp, variables);
	assert_string_equal(got.path, o.path);
	assert_string_equal(got.cwd, o.cwd);
	/* Nor a byte less. */
	for (size_t cut = 0; cut < n; cut++)
		assert_true(!order_words(data, cut) || !order_read(data, cut, room, &got));
	(void)munmap((void *)(uintptr_t)data, n);
}

static void nobody_can_change_it_any_more(void **state UNUSED)
{
	const struct order o = { .argv = words, .envp = nothing, .path = "/bin", .cwd = "/" };
	CLEANUP(fd) int fd = -1;
	struct err e = { 0 };

	assert_int_equal(order_make(&o, &fd, &e), 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_true(mmap(NULL, 1, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
}

static void what_could_still_be_changed_is_not_read(void **state UNUSED)
{
	CLEANUP(fd) int open_one = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CLEANUP(fd) int plain = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	const char *data;
	size_t n;

	assert_int_equal(write(open_one, "brig-or1", 8), 8);
	assert_false(order_map(open_one, &data, &n));
	assert_int_equal(fcntl(open_one, F_ADD_SEALS, F_SEAL_WRITE), 0);
	assert_false(order_map(open_one, &data, &n));
	assert_false(order_map(plain, &data, &n));
	assert_false(order_map(-1, &data, &n));
}

static void one_that_is_too_long_is_refused(void **state UNUSED)
{
	CLEANUP(mem) char *word = malloc(ORDER_MAX);
	const char *const argv[] = { word, NULL };
	const struct order o = { .argv = argv, .envp = nothing, .path = "/bin", .cwd = "/" };
	struct err e = { 0 };
	int fd = -1;

	must(word != NULL);
	memset(word, 'a', ORDER_MAX - 1);
	word[ORDER_MAX - 1] = '\0';
	assert_int_equal(order_make(&o, &fd, &e), -E2BIG);
	assert_int_equal(fd, -1);
	assert_int_equal(e.kind, ERR_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(nobody_can_change_it_any_more),
		cmocka_unit_test(what_could_still_be_changed_is_not_read),
		cmocka_unit_test(one_that_is_too_long_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
