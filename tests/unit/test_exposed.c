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

#include "base/files/exposed.h"
#include "base/files/exposed_notes.h"
#include "base/files/fd.h"
#include "base/files/home.h"
#include "base/text/cleanup.h"

static char top[PATH_MAX];

static const char *in(const char *rest)
{
	static char path[8][PATH_MAX + 512];
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

	if (exposed_note(in(rest), EXPOSED_AS_WRITE, &e) < 0)
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

static void a_way_that_leaves_a_place_at_once_has_passed_nothing_of_a_guests(void **state)
{
	(void)state;
	put("p/sub/f");
	put("own/f");
	note("p");
	assert_false(is("p/../own/f"));
	assert_false(is("p/.//./../own/none"));
	assert_true(is("p/sub/../../own/f")); /* where sub is, a command says */
	assert_true(is("p/../own/../p/sub/f"));
	assert_true(is("p/./"));
	assert_return_code(chdir(in("p")), 0);
	assert_false(asked("../own/f", EXPOSED_SHARED));
	assert_true(asked("../p/sub/f", EXPOSED_SHARED));
	assert_return_code(chdir("sub"), 0);
	assert_true(asked("../../own/f", EXPOSED_SHARED));
	assert_return_code(chdir("/"), 0);
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

/* What it leads to is root's own, and the link is the guest's. */
static void a_link_of_another_users_guest_counts_for_root_wherever_it_leads(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	put("own/f");
	assert_return_code(symlink(in("own/f"), in("p/out")), 0);
	assert_return_code(symlink(in("own/none"), in("p/none")), 0);
	assert_return_code(lchown(in("p/out"), OTHER_USER, OTHER_USER), 0);
	assert_return_code(lchown(in("p/none"), OTHER_USER, OTHER_USER), 0);
	assert_true(mkdir(in("home"), 0700) == 0 && mkdir(in("home/.local"), 0700) == 0 &&
		    setenv("XDG_STATE_HOME", in("home/.local/state"), 1) == 0);
	note("p");
	assert_return_code(setenv("XDG_STATE_HOME", in("state"), 1), 0);
	assert_true(is("p/out"));
	assert_true(is("p/none"));
	assert_false(is("p/sub")); /* root's alone, on the whole way */
	assert_return_code(chown(in("p"), OTHER_USER, OTHER_USER), 0);
	assert_true(is("p/sub"));
	assert_true(is("p/sub/none")); /* what is not there yet, too */
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

/* A guest makes what is missing, and opens what it has closed, as soon as nobody looks. */
static void what_cannot_be_reached_is_judged_by_what_is_on_the_way(void **state)
{
	char longer[NAME_MAX + 64];
	bool root = geteuid() == 0;

	(void)state;
	memset(longer, 'a', sizeof(longer));
	memcpy(longer, "own/", 4);
	longer[sizeof(longer) - 1] = '\0';
	note("p");
	put("own/file");
	put("p/file");
	assert_int_equal(mkdir(in("own/closed"), 0), 0);
	assert_int_equal(mkdir(in("p/closed"), 0), 0);
	assert_false(asked(in("own/none"), EXPOSED_REACHED));
	assert_true(asked(in("p/none"), EXPOSED_REACHED));
	assert_false(asked(in("own/file/x"), EXPOSED_REACHED));
	assert_true(asked(in("p/file/x"), EXPOSED_REACHED));
	assert_int_equal(asked(in("own/closed/x"), 0), !root);
	assert_false(asked(in("own/closed/x"), EXPOSED_REACHED));
	assert_true(asked(in("p/closed/x"), EXPOSED_REACHED));
	assert_true(asked(in(longer), 0));
	assert_false(asked(in(longer), EXPOSED_REACHED));
	memcpy(longer, "p/aa", 4);
	assert_true(asked(in(longer), EXPOSED_REACHED));
	assert_int_equal(chmod(in("own/closed"), 0700) | chmod(in("p/closed"), 0700), 0);
}

static int forgotten(const char *rest)
{
	struct err e = { 0 };
	int r = exposed_forget(in(rest), &e);

	if (r < 0)
		fail_msg("%s", e.what);
	return r;
}

static void a_place_is_taken_back_and_what_has_a_note_of_its_own_keeps_it(void **state)
{
	(void)state;
	put("p/f");
	put("p/sub/f");
	assert_int_equal(forgotten("p"), 0); /* nothing was noted yet */
	note("p");
	note("p/sub");
	assert_int_equal(forgotten("p/f"), 0);
	assert_true(is("p/f"));
	assert_int_equal(forgotten("p"), 1);
	assert_false(is("p/f"));
	assert_true(is("p/sub/f"));
	assert_int_equal(forgotten("p"), 0);
	note("p"); /* the next run that may write there */
	assert_true(is("p/f"));
	assert_int_equal(forgotten("p/sub"), 1);
	assert_true(is("p/sub/f"));
}

static void what_was_moved_away_is_not_taken_back_by_the_name_it_had(void **state)
{
	char was[PATH_MAX];
	struct err e = { 0 };

	(void)state;
	note("p");
	assert_return_code(rename(in("p"), in("q")), 0);
	assert_return_code(mkdir(in("p"), 0700), 0);
	assert_int_equal(forgotten("p"), 1);
	assert_false(is("p/f"));
	assert_true(is("q/f"));
	assert_int_equal(forgotten("q"), 1);
	assert_false(is("q/f"));
	/* Nor where nothing is: nobody sees from the name where it went. */
	note("p");
	assert_return_code(rename(in("p"), in("r")), 0);
	assert_int_equal(exposed_forget(in("p"), &e), -ENOENT);
	assert_true(is("r/f"));
	assert_false(exposed_was(in("p"), was));
	assert_true(exposed_was(in("r"), was));
	assert_string_equal(was, in("p"));
	assert_int_equal(forgotten("r"), 1);
	assert_false(is("r/f"));
	assert_return_code(mkdir(in("p"), 0700), 0);
	assert_true(is("p/f")); /* by its name */
}

static void a_reason_names_the_way_back_by_the_name_of_today(void **state)
{
	struct err why = { 0 }, e = { 0 };

	(void)state;
	note("p");
	assert_return_code(rename(in("p"), in("q")), 0);
	put("q/f");
	assert_true(exposed_path(in("q/f"), NULL, 0, &why));
	assert_non_null(strstr(why.hint, in("q")));
	assert_non_null(strstr(why.hint, "brig exposed forget "));
	assert_true(exposed_check("it", in("q/f"), NULL, 0, &e) < 0);
	assert_non_null(strstr(e.hint, "no sandbox may write"));
	assert_non_null(strstr(e.hint, why.hint));
	/* A name that a shell would take for more than a name is not put into a line. */
	assert_return_code(mkdir(in("$(id)"), 0700), 0);
	note("$(id)");
	assert_true(exposed_path(in("$(id)"), NULL, 0, &why));
	assert_null(strstr(why.hint, "$("));
	assert_non_null(strstr(why.hint, "brig exposed"));
}

static int keep_row(void *arg, const struct exposed_row *r)
{
	char(*said)[PATH_MAX] = arg;
	size_t n = strlen(*said);

	if (strncmp(r->path, top, strlen(top)) != 0) /* of this user's other states */
		return 0;
	assert_true(r->since > 0 && r->used);
	(void)snprintf(*said + n, PATH_MAX - n, "%s %s%s%s;", r->path + strlen(top) + 1, r->as,
		       r->there ? "" : " gone", r->same ? "" : " other");
	return 0;
}

static void the_list_says_what_was_noted_and_how(void **state)
{
	char said[PATH_MAX] = "";
	struct err e = { 0 };

	(void)state;
	assert_int_equal(exposed_each(keep_row, &said, &e), 0);
	assert_string_equal(said, "");
	note("p");
	assert_int_equal(exposed_note(in("p"), EXPOSED_AS_WORKSPACE, &e), 0);
	assert_int_equal(exposed_note(in("p"), EXPOSED_AS_WRITE, &e), 0);
	assert_int_equal(exposed_note(in("own"), EXPOSED_AS_COPY, &e), 0);
	note("p/sub");
	assert_return_code(rename(in("p/sub"), in("sub")), 0);
	assert_return_code(mkdir(in("p/sub"), 0700), 0);
	assert_int_equal(exposed_each(keep_row, &said, &e), 0);
	assert_string_equal(said, "own c;p gw;p/sub g other;");
	assert_return_code(rmdir(in("p/sub")), 0);
	said[0] = '\0';
	assert_int_equal(exposed_each(keep_row, &said, &e), 0);
	assert_string_equal(said, "own c;p gw;p/sub g gone other;");
	assert_string_equal(exposed_as_word('c'), "sandbox cp");
	assert_null(exposed_as_word('?'));
}

/* Notes had no letters once. */
static void a_note_of_an_earlier_version_counts_and_is_taken_back(void **state)
{
	char name[96], text[PATH_MAX + 64], said[PATH_MAX] = "";
	CLEANUP(fd) int fd = open(in("own"), O_PATH | O_CLOEXEC);
	struct statx x;
	struct err e = { 0 };

	(void)state;
	note("p"); /* makes the folder */
	assert_return_code(exposed_look_at(fd, &x), 0);
	(void)snprintf(name, sizeof(name), "state/brig/exposed/i-%x:%x-%llx", x.stx_dev_major,
		       x.stx_dev_minor, (unsigned long long)x.stx_ino);
	(void)snprintf(text, sizeof(text), "- %s", in("own"));
	assert_return_code(symlink(text, in(name)), 0);
	assert_true(is("own/f"));
	assert_int_equal(exposed_each(keep_row, &said, &e), 0);
	assert_string_equal(said, "own ;p g;");
	assert_int_equal(forgotten("own"), 1);
	assert_false(is("own/f"));
}

static void nothing_is_locked_while_a_run_lives_and_no_run_begins_meanwhile(void **state)
{
	CLEANUP(fd) int first = -1, second = -1, lock = -1;
	struct err e = { 0 };
	char seen = 0;
	int ends[2], status;
	pid_t pid;

	(void)state;
	first = exposed_hold(&e);
	second = exposed_hold(&e);
	assert_true(first >= 0 && second >= 0);
	assert_int_equal(exposed_lock(&e), -EBUSY);
	assert_non_null(strstr(e.hint, "brig sandbox list"));
	first = fd_close(first);
	assert_int_equal(exposed_lock(&e), -EBUSY);
	/* One that lives by another state, of the same user. */
	assert_return_code(setenv("XDG_STATE_HOME", in("other"), 1), 0);
	assert_return_code(setenv("XDG_RUNTIME_DIR", in("state"), 1), 0);
	assert_int_equal(exposed_lock(&e), -EBUSY);
	assert_return_code(unsetenv("XDG_RUNTIME_DIR"), 0);
	assert_return_code(setenv("XDG_STATE_HOME", in("state"), 1), 0);
	second = fd_close(second);
	lock = exposed_lock(&e);
	assert_return_code(lock, 0);
	assert_return_code(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_return_code(pid, 0);
	if (!pid)
		_exit(write(ends[1], "a", 1) == 1 && exposed_hold(&e) >= 0 &&
				      write(ends[1], "b", 1) == 1
			      ? 0
			      : 1);
	/* The child has the lock's descriptor, too, until it has gone: it waits for itself, and is
	 * let go by another descriptor of the same lock. */
	assert_int_equal(read(ends[0], &seen, 1), 1);
	assert_int_equal(seen, 'a');
	(void)usleep(20000);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	{
		struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_len = 1 };

		assert_return_code(fcntl(lock, F_OFD_SETLK, &all), 0);
	}
	assert_int_equal(read(ends[0], &seen, 1), 1);
	assert_int_equal(seen, 'b');
	assert_return_code(waitpid(pid, &status, 0), 0);
	assert_int_equal(status, 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)
	TEST(what_lies_in_a_place_is_exposed_and_what_lies_beside_is_not),
	TEST(a_way_that_leaves_a_place_at_once_has_passed_nothing_of_a_guests),
	TEST(of_another_users_file_that_users_notes_count_for_root),
	TEST(a_link_of_another_users_guest_counts_for_root_wherever_it_leads),
	TEST(a_link_leads_into_a_place_and_out_of_one),
	TEST(of_links_alone_those_count_that_lie_in_a_place),
	TEST(a_place_keeps_its_note_when_it_is_renamed_and_when_it_is_made_again),
	TEST(a_file_with_two_names_counts_for_settings_alone),
	TEST(the_places_of_the_run_itself_count),
	TEST(what_is_open_is_judged_by_its_path_and_a_pipe_by_nothing),
	TEST(what_cannot_be_reached_is_judged_by_what_is_on_the_way),
	TEST(a_bind_mount_is_a_second_way),
	TEST(a_place_is_taken_back_and_what_has_a_note_of_its_own_keeps_it),
	TEST(what_was_moved_away_is_not_taken_back_by_the_name_it_had),
	TEST(a_reason_names_the_way_back_by_the_name_of_today),
	TEST(the_list_says_what_was_noted_and_how),
	TEST(a_note_of_an_earlier_version_counts_and_is_taken_back),
	TEST(nothing_is_locked_while_a_run_lives_and_no_run_begins_meanwhile),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
