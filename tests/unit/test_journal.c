/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_journal.c - who holds which placeholder, with several processes and some that die. */
#include "unit.h"

#include "backend/kit/protect/journal.h"
#include "backend/kit/survey/placeholder.h"
#include "base/files/state.h"
#include "base/text/str.h"

#define WORKERS 8
#define ROUNDS 40
#define FILE_OF_7_9 40 /* where the journal of this workspace is */

static char top[PATH_MAX], tree[PATH_MAX + 8];
static const struct ident workspace = { .dev = 7, .ino = 9, .type = S_IFDIR };

static int enter(void **state UNUSED)
{
	enter_scratch(top);
	(void)snprintf(tree, sizeof(tree), "%s/tree", top);
	must(mkdir(tree, 0755) == 0);
	set_below("XDG_STATE_HOME", top, "state");
	set_below("XDG_RUNTIME_DIR", top, "run");
	return 0;
}

static int leave(void **state UNUSED)
{
	leave_scratch(top);
	return 0;
}

static bool exists(const char *name)
{
	char path[PATH_MAX * 2];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/%s", tree, name);
	return lstat(path, &st) == 0;
}

static void make(const char *name)
{
	char path[PATH_MAX * 2];

	(void)snprintf(path, sizeof(path), "%s/%s", tree, name);
	must(mkdir(path, 0755) == 0 || errno == EEXIST);
}

/* Claims names (NULL-terminated) and makes them, as a run does at its start. */
static int claim(const char *const *names)
{
	CLEANUP(journal) struct journal *j = NULL;
	struct err e;
	int fd;

	must(journal_open(&workspace, -1, &j, &e) == 0);
	for (const char *const *n = names; *n; n++)
		journal_add(j, tree, *n);
	fd = journal_claim(j, &e);
	must(fd >= 0);
	for (; *names; names++)
		make(*names);
	return fd;
}
#define CLAIM(...) claim((const char *const[]){ __VA_ARGS__, NULL })

static void clean(void)
{
	CLEANUP(journal) struct journal *j = NULL;
	struct err e;

	must(journal_open(&workspace, -1, &j, &e) == 0);
	journal_clean(j);
}

/* By a run that lives. */
static bool held(const char *name)
{
	CLEANUP(journal) struct journal *j = NULL;
	struct err e;

	must(journal_open(&workspace, -1, &j, &e) == 0);
	return journal_shared(j) && journal_named(j, tree, name);
}

static char found[PATH_MAX + 64];

static const char *journal_path(void)
{
	(void)snprintf(found, sizeof(found), "%s/state/brig/workspaces/journal.%02x", top,
		       FILE_OF_7_9);
	return found;
}

static void expect_no_trace(void)
{
	struct stat st;

	assert_int_equal(lstat(journal_path(), &st), 0);
	assert_int_equal(st.st_size, 0);
}

static void a_name_is_held_while_its_run_lives(void **state UNUSED)
{
	int fd = CLAIM(".envrc", ".husky");

	assert_true(held(".envrc"));
	assert_false(held(".env"));
	assert_false(held("envrc"));
	assert_false(held("rc"));
	assert_false(held(""));
	clean();
	assert_true(exists(".envrc"));
	(void)close(fd);
	assert_false(held(".envrc"));
	clean();
	assert_false(exists(".envrc"));
	expect_no_trace();
}

static const char *kept_path(void)
{
	(void)snprintf(found, sizeof(found), "%s/state/brig/workspaces/kept", top);
	return found;
}

/* An engine was asked to start a container, and all of brig is dead. */
static void a_name_that_is_kept_outlives_its_run(void **state UNUSED)
{
	const struct ident other = { .dev = 7, .ino = 91, .type = S_IFDIR };
	int fd = CLAIM(".envrc");

	assert_int_equal(journal_keep(&workspace, "one"), 0);
	assert_int_equal(journal_keep(&workspace, "two"), 0);
	assert_int_equal(journal_keep(&other, "three"), 0);
	(void)close(fd);
	journal_let_go("one");
	journal_let_go("wo");
	journal_let_go("never kept");
	clean();
	clean();
	assert_true(exists(".envrc"));
	journal_let_go("two"); /* what keeps another workspace keeps nothing here */
	clean();
	assert_false(exists(".envrc"));
	expect_no_trace();
	journal_let_go("three");
	assert_int_equal(access(kept_path(), F_OK), -1);
}

/* The run before it died between the sweep of this one and its start. */
static void what_is_cleaned_and_claimed_at_once_is_written_down_again(void **state UNUSED)
{
	CLEANUP(journal) struct journal *j = NULL;
	int first = CLAIM(".envrc"), second;
	struct err e = { 0 };

	(void)close(first);
	assert_int_equal(journal_open(&workspace, -1, &j, &e), 0);
	journal_clean(j);
	journal_add(j, tree, ".envrc");
	second = journal_claim(j, &e);
	assert_true(second >= 0);
	make(".envrc");
	j = journal_free(j);
	assert_true(held(".envrc"));
	(void)close(second);
	clean();
	assert_false(exists(".envrc"));
	expect_no_trace();
}

static void a_second_holder_outlives_the_first_and_cannot_write(void **state UNUSED)
{
	int first = CLAIM(".envrc"), second = journal_holder(&workspace);

	assert_true(second >= 0);
	assert_int_equal(journal_hold(&workspace, first, second), 0);
	assert_int_equal(write(second, "x", 1), -1);
	(void)close(first);
	assert_true(held(".envrc"));
	clean();
	assert_true(exists(".envrc"));
	(void)close(second);
	assert_false(held(".envrc"));
	clean();
	assert_false(exists(".envrc"));
	expect_no_trace();
}

static void what_several_runs_hold_goes_with_the_last(void **state UNUSED)
{
	int first = CLAIM("both", "mine"), second = CLAIM("both", "yours");

	(void)close(first);
	clean();
	assert_true(exists("both") && exists("mine") && exists("yours"));
	(void)close(second);
	clean();
	assert_false(exists("both") || exists("mine") || exists("yours"));
	expect_no_trace();
}

static void a_run_that_ends_sees_whether_it_is_the_last(void **state UNUSED)
{
	int first = CLAIM("both"), second = CLAIM("both");
	struct journal *j = NULL;
	struct err e;

	assert_int_equal(journal_open(&workspace, first, &j, &e), 0);
	assert_true(journal_shared(j));
	j = journal_free(j);
	assert_int_equal(journal_open(&workspace, second, &j, &e), 0);
	assert_false(journal_shared(j));
	journal_clean(j);
	j = journal_free(j);
	assert_false(exists("both"));
	expect_no_trace();
}

static pid_t start_run(const char *name)
{
	int ready[2];
	char byte;
	pid_t pid;

	must(pipe2(ready, O_CLOEXEC) == 0);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		(void)CLAIM(name);
		must(write(ready[1], "x", 1) == 1);
		for (;;)
			(void)pause();
	}
	(void)close(ready[1]);
	must(read(ready[0], &byte, 1) == 1);
	(void)close(ready[0]);
	return pid;
}

static void kill_run(pid_t pid)
{
	must(kill(pid, SIGKILL) == 0);
	must(waitpid(pid, NULL, 0) == pid);
}

static void what_killed_runs_left_is_swept_after_the_last(void **state UNUSED)
{
	pid_t dead = start_run("left"), alive = start_run("kept");

	kill_run(dead);
	clean();
	assert_true(exists("left") && exists("kept"));
	assert_true(held("kept"));
	kill_run(alive);
	clean();
	assert_false(exists("left") || exists("kept"));
	expect_no_trace();
}

static void a_placeholder_somebody_filled_is_left_alone(void **state UNUSED)
{
	char path[PATH_MAX + 32];
	int fd = CLAIM("filled", "file");

	(void)snprintf(path, sizeof(path), "%s/filled/work", tree);
	write_text(path, "x");
	(void)snprintf(path, sizeof(path), "%s/file", tree);
	assert_int_equal(rmdir(path), 0);
	write_text(path, "x");
	(void)close(fd);
	clean();
	assert_true(exists("filled/work"));
	assert_true(exists("file"));
}

/* The link must be there before its placeholder is claimed. */
static int enter_with_link(void **state)
{
	char path[PATH_MAX + 32];

	(void)enter(state);
	(void)snprintf(path, sizeof(path), "%s/outside", top);
	must(mkdir(path, 0755) == 0);
	(void)snprintf(path, sizeof(path), "%s/link", tree);
	must(symlink("../outside", path) == 0);
	return 0;
}

static void nothing_outside_the_tree_is_removed(void **state UNUSED)
{
	int fd = CLAIM("../outside/empty", "link/empty", "..", ".", "");

	(void)close(fd);
	clean();
	assert_true(exists("../outside/empty"));
	assert_true(exists("../outside"));
	assert_true(exists("."));
}

static void a_journal_of_garbage_harms_nothing(void **state UNUSED)
{
	int fd = CLAIM("a");
	char text[PATH_MAX];

	write_text(journal_path(),
		   "no tab\n\t\n\n/\t\n\t/\nx\ty\tz\n7-9\t\n7-9\t/etc\t..\n7-9\tno tab\n"
		   "7-9\t/nonexistent\tx\n7-9\t/tmp");
	(void)close(fd);
	clean();
	clean();
	assert_true(exists("a"));
	assert_true(fd_read_file(AT_FDCWD, journal_path(), text, sizeof(text)) > 0);
	assert_null(strstr(text, "7-9"));
}

static void a_link_instead_of_the_journal_is_not_read(void **state UNUSED)
{
	CLEANUP(journal) struct journal *j = NULL;
	char text[PATH_MAX * 2];
	int fd = CLAIM("a");
	struct err e;

	make("victim");
	(void)snprintf(text, sizeof(text), "7-9\t%s\tvictim\n", tree);
	write_text("evil", text);
	(void)snprintf(text, sizeof(text), "%s/evil", top);
	assert_int_equal(unlink(journal_path()), 0);
	assert_int_equal(symlink(text, journal_path()), 0);
	(void)close(fd);
	assert_int_equal(journal_open(&workspace, -1, &j, &e), -ELOOP);
	assert_true(exists("victim"));
	assert_true(exists("a"));
}

static void workspaces_do_not_mix(void **state UNUSED)
{
	const struct ident other = { .dev = 8, .ino = 9, .type = S_IFDIR };
	CLEANUP(journal) struct journal *j = NULL;
	CLEANUP(fd) int fd UNUSED = CLAIM("a");
	struct err e;

	assert_int_equal(journal_open(&other, -1, &j, &e), 0);
	assert_false(journal_shared(j) || journal_named(j, tree, "a"));
	journal_clean(j);
	j = journal_free(j);
	assert_true(held("a"));
}

/* Whatever the others do, a name this process holds exists until it lets go. */
static void work(void *arg)
{
	int me = *(int *)arg;

	for (int i = 0; i < ROUNDS; i++) {
		char own[32];
		int fd;

		(void)snprintf(own, sizeof(own), "own-%d", me);
		fd = CLAIM("shared", own);
		if (i % 5 == 0)
			clean();
		must(exists("shared") && exists(own));
		(void)close(fd);
		clean();
	}
}

/* Read while its run still lives, cleaned when it does no more. */
static void a_run_that_ends_between_the_look_and_the_cleaning_is_not_forgotten(void **state UNUSED)
{
	CLEANUP(journal) struct journal *j = NULL;
	int fd = CLAIM("a");
	struct err e;

	assert_int_equal(journal_open(&workspace, -1, &j, &e), 0);
	(void)close(fd);
	journal_clean(j);
	j = journal_free(j);
	clean();
	assert_false(exists("a"));
	expect_no_trace();
}

static void many_runs_at_once_leave_nothing(void **state UNUSED)
{
	pid_t pids[WORKERS];

	for (int i = 0; i < WORKERS; i++) {
		pids[i] = fork();
		must(pids[i] >= 0);
		if (pids[i] == 0) {
			(void)alarm(60);
			work(&i);
			_exit(0);
		}
	}
	for (int i = 0; i < WORKERS; i++) {
		int status;

		must(waitpid(pids[i], &status, 0) == pids[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	clean();
	expect_no_trace();
	assert_int_equal(rmdir(tree), 0);
}

static void state_that_others_may_write_to_is_not_used(void **state UNUSED)
{
	char path[PATH_MAX + 64];
	struct err e;
	int fd;

	assert_int_equal(mkdir("state", 0700), 0);
	assert_int_equal(mkdir("state/brig", 0700), 0);
	assert_int_equal(chmod("state/brig", 0777), 0);
	assert_int_equal(mkdir("run", 0700), 0);
	fd = state_open("x", path, sizeof(path), &e);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_non_null(strstr(path, "/run/brig/x"));
}

static void state_behind_a_link_is_not_used(void **state UNUSED)
{
	char path[PATH_MAX + 64];
	struct err e;
	int fd;

	assert_int_equal(mkdir("state", 0700), 0);
	assert_int_equal(mkdir("elsewhere", 0700), 0);
	assert_int_equal(mkdir("run", 0700), 0);
	assert_int_equal(symlink("../elsewhere", "state/brig"), 0);
	fd = state_open("x", path, sizeof(path), &e);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_non_null(strstr(path, "/run/brig/x"));
	assert_int_equal(rmdir("elsewhere"), 0);
}

static void a_placeholder_is_something_nobody_can_open_or_fill(void **state UNUSED)
{
	CLEANUP(fd) int dir = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	assert_int_equal(placeholder_put(dir, "a", true, false), 0);
	assert_int_equal(placeholder_put(dir, "a", true, false), -EEXIST);
	assert_true(placeholder_is(dir, "a"));
	assert_int_equal(fstatat(dir, "a", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISSOCK(st.st_mode) && st.st_nlink == 1 && st.st_uid == geteuid());
	assert_int_equal(st.st_mode & 07777, 0);
	assert_int_equal(openat(dir, "a", O_RDONLY | O_CLOEXEC), -1);
	assert_int_equal(fchmodat(dir, "a", 0777, 0), 0);
	assert_int_equal(openat(dir, "a", O_RDWR | O_CREAT | O_CLOEXEC, 0600), -1);
	assert_int_equal(errno, ENXIO);
	assert_int_equal(mkdirat(dir, "a/b", 0700), -1);
	assert_int_equal(errno, ENOTDIR);
	assert_int_equal(fchmodat(dir, "a", 0, 0), 0);
	assert_true(placeholder_take(dir, "a"));
	assert_false(exists("a"));
}

static void what_is_no_placeholder_is_not_taken(void **state UNUSED)
{
	CLEANUP(fd) int dir = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	static const char *const names[] = { "file", "full", "link", "pipe", "absent" };

	write_text("tree/file", "");
	make("full");
	make("full/b");
	must(symlinkat("nowhere", dir, "link") == 0);
	must(mknodat(dir, "pipe", S_IFIFO, 0) == 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_false(placeholder_is(dir, names[i]) || placeholder_take(dir, names[i]));
		assert_true(str_eq(names[i], "absent") || exists(names[i]));
	}
	assert_true(exists("full/b"));
}

/* All names of a run are one node: who changes its mode takes none of them from us. */
static void a_placeholder_whose_mode_was_changed_is_taken(void **state UNUSED)
{
	CLEANUP(fd) int dir = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(placeholder_put(dir, "a", true, false), 0);
	must(fchmodat(dir, "a", 0777, 0) == 0);
	assert_true(placeholder_is(dir, "a") && placeholder_take(dir, "a"));
	assert_false(exists("a"));
}

/* One link more, which only somebody else can have made, is no reason to leave ours. */
static void a_placeholder_with_a_second_name_is_taken(void **state UNUSED)
{
	CLEANUP(fd) int dir = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(placeholder_put(dir, "a", true, false), 0);
	must(linkat(dir, "a", dir, "b", 0) == 0);
	assert_true(placeholder_take(dir, "a"));
	assert_false(exists("a"));
	assert_true(exists("b"));
}

static void further_names_of_a_placeholder_are_placeholders(void **state UNUSED)
{
	CLEANUP(fd) int dir = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(fd) int node = -1;

	assert_int_equal(placeholder_put(dir, "a", true, false), 0);
	node = placeholder_node(dir, "a");
	assert_true(node >= 0);
	assert_int_equal(placeholder_link(node, dir, "b"), 0);
	assert_int_equal(placeholder_link(node, dir, "b"), -EEXIST);
	assert_true(placeholder_is(dir, "a") && placeholder_is(dir, "b"));
	assert_true(placeholder_take(dir, "a"));
	assert_int_equal(placeholder_link(node, dir, "a"), 0);
	assert_true(placeholder_take(dir, "b") && placeholder_take(dir, "a"));
	/* Gone for good: nothing brings it back. */
	assert_true(placeholder_link(node, dir, "a") < 0);
	assert_false(exists("a"));
}

/* It was swapped for something else, or has a second name already. */
static void only_a_node_of_our_own_gets_further_names(void **state UNUSED)
{
	CLEANUP(fd) int dir = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	static const char *const names[] = { "file", "link", "socket", "twice", "absent" };

	write_text("tree/file", "");
	must(chmod("tree/file", 0) == 0);
	must(mknodat(dir, "twice", S_IFSOCK, 0) == 0 && linkat(dir, "twice", dir, "x", 0) == 0);
	must(symlinkat("twice", dir, "link") == 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(placeholder_node(dir, names[i]), -1);
	assert_int_equal(placeholder_link(-1, dir, "a"), -EBADF);
	assert_false(exists("a"));
}

static void an_empty_folder_or_file_is_a_placeholder_too(void **state UNUSED)
{
	CLEANUP(fd) int dir = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int file = 0; file < 2; file++) {
		assert_int_equal(placeholder_put(dir, "a", false, file), 0);
		assert_int_equal(placeholder_put(dir, "a", false, file), -EEXIST);
		assert_int_equal(openat(dir, "a/b", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0,
				 file);
		assert_int_equal(placeholder_is(dir, "a"), file);
		(void)unlinkat(dir, "a/b", 0);
		assert_true(placeholder_is(dir, "a"));
		assert_true(placeholder_take(dir, "a"));
		assert_false(exists("a"));
	}
}

static void a_place_that_cannot_take_one_is_told(void **state UNUSED)
{
	CLEANUP(fd) int dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(placeholder_put(dir, "a", true, false) < 0);
	assert_int_equal(placeholder_put(-1, "a", true, false), -EBADF);
}

#define HERE(f) cmocka_unit_test_setup_teardown(f, enter, leave)
static const struct CMUnitTest tests[] = {
	HERE(a_name_is_held_while_its_run_lives),
	HERE(a_name_that_is_kept_outlives_its_run),
	HERE(what_is_cleaned_and_claimed_at_once_is_written_down_again),
	HERE(a_second_holder_outlives_the_first_and_cannot_write),
	HERE(what_several_runs_hold_goes_with_the_last),
	HERE(a_run_that_ends_sees_whether_it_is_the_last),
	HERE(what_killed_runs_left_is_swept_after_the_last),
	HERE(a_placeholder_somebody_filled_is_left_alone),
	cmocka_unit_test_setup_teardown(nothing_outside_the_tree_is_removed, enter_with_link,
					leave),
	HERE(a_journal_of_garbage_harms_nothing),
	HERE(a_link_instead_of_the_journal_is_not_read),
	HERE(workspaces_do_not_mix),
	HERE(a_run_that_ends_between_the_look_and_the_cleaning_is_not_forgotten),
	HERE(many_runs_at_once_leave_nothing),
	HERE(a_placeholder_is_something_nobody_can_open_or_fill),
	HERE(what_is_no_placeholder_is_not_taken),
	HERE(a_placeholder_whose_mode_was_changed_is_taken),
	HERE(a_placeholder_with_a_second_name_is_taken),
	HERE(further_names_of_a_placeholder_are_placeholders),
	HERE(only_a_node_of_our_own_gets_further_names),
	HERE(an_empty_folder_or_file_is_a_placeholder_too),
	HERE(a_place_that_cannot_take_one_is_told),
	HERE(state_that_others_may_write_to_is_not_used),
	HERE(state_behind_a_link_is_not_used),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
