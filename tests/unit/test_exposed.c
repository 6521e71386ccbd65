/* SPDX-License-Identifier: Apache-2.0 */
/* base/exposed: which paths a guest may have written, whatever leads there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exposed.h"
#include "base/home.h"

static char top[PATH_MAX];

static const char *in(const char *rest)
{
	static char path[8][PATH_MAX + 256];
	static int at;

	at = (at + 1) % 8;
	(void)snprintf(path[at], sizeof(path[at]), "%s/%s", top, rest);
	return path[at];
}

static void put(const char *rest)
{
	CLEANUP(fd) int fd = open(in(rest), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
}

static void note(const char *rest)
{
	struct err e = { 0 };

	if (exposed_note(in(rest), &e) < 0)
		fail_msg("%s", e.what);
}

static bool asked(const char *path, unsigned flags)
{
	struct err why = { 0 };
	bool r = exposed_path(path, NULL, flags, &why);

	assert_int_equal(r, why.what[0] != '\0');
	return r;
}

static bool is(const char *rest)
{
	return asked(in(rest), EXPOSED_SHARED);
}

static int fresh(void **state)
{
	char template[] = "/tmp/brig-exposed-XXXXXX";

	(void)state;
	if (!mkdtemp(template) || !realpath(template, top) ||
	    setenv("XDG_STATE_HOME", in("state"), 1))
		return -1;
	return mkdir(in("p"), 0700) || mkdir(in("p/sub"), 0700) || mkdir(in("own"), 0700);
}

static int gone(void **state)
{
	char line[PATH_MAX + 16];

	(void)state;
	(void)snprintf(line, sizeof(line), "rm -rf '%s'", top);
	return system(line);
}

static void what_lies_in_a_place_is_exposed_and_what_lies_beside_is_not(void **state)
{
	(void)state;
	put("p/sub/f");
	put("own/f");
	assert_false(is("p/sub/f")); /* nothing was noted yet */
	note("p");
	note("p");
	assert_true(is("p"));
	assert_true(is("p/f"));
	assert_true(is("p/sub/f"));
	assert_true(is("p/sub/none/f"));
	assert_true(is("own/../p/sub/f"));
	assert_false(is("own/f"));
	assert_false(is("own/none"));
	assert_false(asked("/usr/bin/env", 0));
}

/* The list of accounts has one more than this machine's. */
#define OTHER_USER 54321
int __real_home_listed(uid_t uid, char *path, size_t n);
int __wrap_home_listed(uid_t uid, char *path, size_t n);
int __wrap_home_listed(uid_t uid, char *path, size_t n)
{
	if (uid != OTHER_USER)
		return __real_home_listed(uid, path, n);
	return snprintf(path, n, "%s", in("home")) < (int)n ? 0 : -ENAMETOOLONG;
}

static void of_another_users_file_that_users_notes_count_for_root(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	put("p/f");
	put("p/roots");
	put("own/f");
	assert_return_code(chown(in("p/f"), OTHER_USER, OTHER_USER), 0);
	assert_return_code(chown(in("own/f"), OTHER_USER, OTHER_USER), 0);
	assert_false(is("p/f"));
	/* As the other user's brig would have noted it. */
	assert_true(mkdir(in("home"), 0700) == 0 && mkdir(in("home/.local"), 0700) == 0 &&
		    setenv("XDG_STATE_HOME", in("home/.local/state"), 1) == 0);
	note("p");
	assert_return_code(setenv("XDG_STATE_HOME", in("state"), 1), 0);
	assert_true(is("p/f"));
	assert_false(is("p/roots"));
	assert_false(is("own/f"));
}

static void a_link_leads_into_a_place_and_out_of_one(void **state)
{
	(void)state;
	note("p");
	put("p/f");
	put("own/f");
	assert_return_code(symlink("../p/f", in("own/in")), 0);
	assert_return_code(symlink(in("p"), in("own/folder")), 0);
	assert_return_code(symlink(in("own/f"), in("p/out")), 0);
	assert_return_code(symlink("folder/out", in("own/twice")), 0);
	assert_return_code(symlink("loop", in("own/loop")), 0);
	assert_return_code(symlink("f", in("own/near")), 0);
	assert_true(is("own/in"));
	assert_true(is("own/folder/f"));
	assert_true(is("p/out"));
	assert_true(is("own/twice"));
	assert_true(is("own/loop"));
	assert_false(is("own/near"));
}

static void of_links_alone_those_count_that_lie_in_a_place(void **state)
{
	(void)state;
	note("p");
	assert_return_code(symlink(in("own"), in("p/sub/out")), 0);
	assert_return_code(symlink(in("p/sub"), in("own/in")), 0);
	assert_return_code(symlink("in/out", in("own/twice")), 0);
	assert_true(asked(in("p/sub"), 0));
	assert_false(asked(in("p/sub"), EXPOSED_LINKS));
	assert_false(asked(in("own/in"), EXPOSED_LINKS));
	assert_true(asked(in("p/sub/out"), EXPOSED_LINKS));
	assert_true(asked(in("own/in/out"), EXPOSED_LINKS));
	assert_true(asked(in("own/twice"), EXPOSED_LINKS));
}

static void a_place_keeps_its_note_when_it_is_renamed_and_when_it_is_made_again(void **state)
{
	(void)state;
	note("p/sub");
	put("p/sub/f");
	assert_return_code(rename(in("p"), in("q")), 0);
	assert_true(is("q/sub/f"));
	assert_return_code(mkdir(in("p"), 0700), 0);
	assert_return_code(mkdir(in("p/sub"), 0700), 0);
	assert_true(is("p/sub/f"));
	note("q/sub"); /* under its new name */
	assert_return_code(rename(in("q"), in("r")), 0);
	assert_true(is("r/sub/f"));
}

static void a_file_with_two_names_counts_for_settings_alone(void **state)
{
	(void)state;
	put("own/f");
	assert_return_code(link(in("own/f"), in("p/f")), 0);
	assert_true(is("own/f"));
	assert_false(asked(in("own/f"), 0));
	note("p/f"); /* a file alone is written: by its identity, whatever it is called */
	assert_true(asked(in("own/f"), 0));
}

static void the_places_of_the_run_itself_count(void **state)
{
	const char *also[] = { in("own"), in("none"), NULL };
	struct err why = { 0 };

	(void)state;
	put("own/f");
	assert_true(exposed_path(in("own/f"), also, 0, &why));
	assert_non_null(strstr(why.what, "this run"));
	assert_false(exposed_path(in("p/f"), also, 0, &why));
}

static void what_is_open_is_judged_by_its_path_and_a_pipe_by_nothing(void **state)
{
	CLEANUP(fd) int in_place = -1, beside = -1;
	struct err why = { 0 };
	char path[64];
	int ends[2];

	(void)state;
	note("p");
	put("p/f");
	put("own/f");
	in_place = open(in("p/f"), O_RDONLY | O_CLOEXEC);
	beside = open(in("own/f"), O_RDONLY | O_CLOEXEC);
	assert_true(exposed_fd(in_place, NULL, 0, &why));
	assert_false(exposed_fd(beside, NULL, 0, &why));
	assert_return_code(unlink(in("p/f")), 0);
	assert_return_code(unlink(in("own/f")), 0);
	assert_true(exposed_fd(in_place, NULL, 0, &why));
	assert_false(exposed_fd(beside, NULL, 0, &why));
	assert_return_code(pipe2(ends, O_CLOEXEC), 0);
	assert_false(exposed_fd(ends[0], NULL, 0, &why));
	(void)snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	assert_false(exposed_path(path, NULL, 0, &why));
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_false(exposed_path("/proc/self/fd/999", NULL, 0, &why));
}

/* In a mount namespace of its own; 77: it cannot be had. */
static int with_binds(void)
{
	static const struct {
		const char *path;
		bool exposed;
	} seen[] = {
		{ "own/a/deep/f", true }, { "own/a", true },  { "far/deep", true }, { "far", true },
		{ "own/f", true },        { "own/g", false }, { "beside", false },
	};

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 && unshare(CLONE_NEWNS) < 0)
		return 77;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(in("p/sub"), in("own/a"), NULL, MS_BIND, NULL) < 0 || /* a part of a place */
	    mount(in("far"), in("p/m"), NULL, MS_BIND, NULL) < 0 ||     /* carried into one */
	    mount(in("p/f"), in("own/f"), NULL, MS_BIND, NULL) < 0)     /* a file of one */
		return 77;
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		if (is(seen[i].path) != seen[i].exposed)
			return (int)i + 1;
	return 0;
}

static void a_bind_mount_is_a_second_way(void **state)
{
	static const char *const made[] = { "own/a",    "p/m",        "far",
					    "far/deep", "p/sub/deep", "beside" };
	int status;
	pid_t pid;

	(void)state;
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		assert_return_code(mkdir(in(made[i]), 0700), 0);
	put("p/f");
	put("own/f");
	put("own/g");
	note("p");
	pid = fork();
	assert_return_code(pid, 0);
	if (!pid)
		_exit(with_binds());
	assert_return_code(waitpid(pid, &status, 0), 0);
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)
	TEST(what_lies_in_a_place_is_exposed_and_what_lies_beside_is_not),
	TEST(of_another_users_file_that_users_notes_count_for_root),
	TEST(a_link_leads_into_a_place_and_out_of_one),
	TEST(of_links_alone_those_count_that_lie_in_a_place),
	TEST(a_place_keeps_its_note_when_it_is_renamed_and_when_it_is_made_again),
	TEST(a_file_with_two_names_counts_for_settings_alone),
	TEST(the_places_of_the_run_itself_count),
	TEST(what_is_open_is_judged_by_its_path_and_a_pipe_by_nothing),
	TEST(a_bind_mount_is_a_second_way),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
