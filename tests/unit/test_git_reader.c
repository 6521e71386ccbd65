/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_git_reader.c - what git is not asked about: what is too large, or no file, and what was
 * asked about before. */
#include "unit.h"

#include "base/bytes/sha256.h"
#include "base/files/state.h"
#include "base/text/str.h"
#include "git/git_reader.h"

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

static void write_to(const char *name, const char *text, size_t n)
{
	CLEANUP(fd) int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(fd < 0 ? -1 : fd_write_all(fd, text, n), 0);
}

/* As an earlier question has left it. */
static void know(const char *text)
{
	int folder = state_open("git", NULL, 0, &(struct err){ 0 });
	char sum[SHA256_HEX], name[64], answer[256];
	int n;

	assert_true(folder >= 0);
	(void)close(folder);
	sha256_of(text, strlen(text), sum);
	(void)snprintf(name, sizeof(name), "state/brig/git/%03x",
		       (unsigned)(mem_hash(0, sum, sizeof(sum)) % 1024));
	n = snprintf(answer, sizeof(answer), "5 %d %s%cplain%c", (int)READER_CONFIG, sum, 0, 0);
	write_to(name, answer, (size_t)n);
}

static void set_time(const char *name)
{
	const struct timespec times[] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	assert_int_equal(utimensat(AT_FDCWD, name, times, 0), 0);
}

static bool is_answered(const char *name)
{
	struct reader_asker late = { .avoid = "/", .until = 1 };
	CLEANUP(buf) struct buf facts = BUF_INIT(READER_ANSWER_MAX);
	CLEANUP(fd) int fd = open(name, O_RDONLY | O_CLOEXEC);

	return reader_config(READER_CONFIG, fd, &late, &facts) == READER_PLAIN;
}

/* Where stamps are coarse, or can be set, the same stamp says nothing. */
static void an_answer_is_that_of_the_same_bytes(void **state UNUSED)
{
	static const char plain[] = "[core]\n\tbare = false\n#",
			  evil[] = "[core]\n\tfsmonitor = ./x\n";
	char top[PATH_MAX];

	enter_scratch(top);
	set_below("XDG_STATE_HOME", top, "state");
	know(plain);
	write_to("config", plain, strlen(plain));
	write_to("other", plain, strlen(plain));
	assert_true(is_answered("config") && is_answered("other"));
	set_time("config");
	write_to("config", evil, strlen(evil));
	set_time("config");
	assert_false(is_answered("config"));
	leave_scratch(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_are_asked_about_up_to_a_mebibyte),
		cmocka_unit_test(only_files_are_asked_about),
		cmocka_unit_test(an_answer_is_that_of_the_same_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
