/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_record.c - the record of a tree's git folders: what is read of it, and who may write
 * it.
 */
#include "unit.h"

#include <sys/wait.h>

#include "backend/kit/survey/git_record.h"
#include "base/files/lives.h"
#include "base/text/str.h"

static char top[PATH_MAX];

static int enter(void **state UNUSED)
{
	enter_scratch(top);
	set_below("XDG_STATE_HOME", top, "state");
	return 0;
}

static int leave(void **state UNUSED)
{
	leave_scratch(top);
	return 0;
}

static const struct stat some = { .st_dev = 0xfe00,
				  .st_ino = 42,
				  .st_mode = S_IFREG | 0644,
				  .st_size = 7,
				  .st_mtim = { 1, 2 },
				  .st_ctim = { 3, 4 } };

static void what_was_put_is_found_again_and_nothing_else(void **state UNUSED)
{
	struct known_list l = KNOWN_LIST_NONE;
	struct stat other = some;

	known_put(&l.text, RECORD_PART, "b/.git/config", &some);
	known_put(&l.text, RECORD_GIT, "b/.git", &some);
	known_put(&l.text, RECORD_MADE, "a b\tc/.git", &some);
	assert_true(known_read(&l) && l.n == 3 && !known_partial(&l));
	known_put_partial(&l.text);
	assert_true(known_read(&l) && l.n == 4 && known_partial(&l));
	assert_true(known_find(&l, "b/.git")->kind == RECORD_GIT);
	assert_true(known_find(&l, "a b\tc/.git")->kind == RECORD_MADE);
	assert_null(known_find(&l, "b"));
	known_put_name(&l.text, "b/.git/config", NULL); /* beside what is known of it as a part */
	assert_true(known_read(&l) && l.n == 5 && !known_name(&l, "b/.git"));
	assert_int_equal(known_name(&l, "b/.git/config")->was.ident.type, 0);
	assert_true(known_same(&l, "b/.git/config", &some));
	assert_false(known_same(&l, "b/.git", &some)); /* a folder is never believed by its stamp */
	other.st_ctim.tv_nsec++;
	assert_false(known_same(&l, "b/.git/config", &other));
	other = some;
	other.st_ino++;
	assert_false(known_same(&l, "b/.git/config", &other));
	known_done(&l);
}

static void a_text_that_brig_does_not_write_is_no_list(void **state UNUSED)
{
	static const char *const bad[] = { "x 1 2 3 4 5.6 7.8|p|",
					   "p 1 2 3 4 5.6 7.8|/p|",
					   "n 1 2 3 4 5.6 7.8|p|",
					   "p 1 2 3 4 5.6 7.8|",
					   "p 1 2 3 4 5.6 7|p|",
					   "p 1 2 3 4 5.6 7.8 9|p|",
					   "p -1 2 3 4 5.6 7.8|p|",
					   "p 0x1 2 3 4 5.6 7.8|p|",
					   "p  1 2 3 4 5.6 7.8|p|",
					   "p 1 2 3 4 5.6 7.8|p|p|",
					   "|p|",
					   "p A 2 3 4 5.6 7.8|p|",
					   "p 1 2 3 4 5.6 7.8|p",
					   "p 11112222333344445 2 3 4 5.6 7.8|p|" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct known_list l = KNOWN_LIST_NONE;

		for (const char *c = bad[i]; *c; c++)
			buf_putc(&l.text, *c == '|' ? '\0' : *c);
		assert_false(known_read(&l));
		assert_int_equal(l.n, 0);
		known_done(&l);
	}
}

static void a_record_is_whole_or_none(void **state UNUSED)
{
	const struct ident tree = { .dev = 1, .ino = 2 };
	struct known_list l = KNOWN_LIST_NONE, back = KNOWN_LIST_NONE;
	CLEANUP(buf) struct buf path = BUF_INIT(PATH_MAX);
	CLEANUP(fd) int live = -1, life = -1, record = -1;
	bool whole = false;
	struct stat st;
	struct err e;

	live = record_live(&life, &e);
	record = record_open(live, &tree, &e);
	assert_true(live >= 0 && record >= 0);
	assert_false(record_load(record, &back, &whole, NULL)); /* empty */
	known_put(&l.text, RECORD_GIT, ".git", &some);
	assert_int_equal(record_store(record, -1, "/some/where", &l.text, true), 0);
	assert_true(record_load(record, &back, &whole, &path) && whole && back.n == 1);
	assert_string_equal(buf_str(&path), "/some/where");
	assert_int_equal(record_store(record, -1, "/some/where", &l.text, false), 0);
	assert_true(record_load(record, &back, &whole, NULL) && !whole);
	assert_int_equal(fstat(record, &st), 0);
	for (off_t n = 0; n < st.st_size; n++) { /* parts of two */
		char c;

		assert_int_equal(pread(record, &c, 1, n), 1);
		c ^= 1;
		assert_int_equal(pwrite(record, &c, 1, n), 1);
		assert_false(record_load(record, &back, &whole, NULL));
		c ^= 1;
		assert_int_equal(pwrite(record, &c, 1, n), 1);
	}
	assert_true(record_load(record, &back, &whole, NULL));
	for (off_t n = st.st_size - 1; n >= 0; n--) { /* a machine that went down */
		assert_int_equal(ftruncate(record, n), 0);
		assert_false(record_load(record, &back, &whole, NULL));
	}
	known_done(&l);
	known_done(&back);
}

/* Both have one device and inode to whoever looks for the record. */
static void a_record_is_of_the_folder_it_was_written_for_alone(void **state UNUSED)
{
	const struct ident tree = { .dev = 1, .ino = 2 };
	struct known_list back = KNOWN_LIST_NONE;
	CLEANUP(buf) struct buf none = BUF_INIT(1);
	CLEANUP(fd) int live = -1, life = -1, record = -1, one = -1, other = -1;
	bool whole;
	struct err e;

	assert_int_equal(mkdir("one", 0755), 0);
	one = open("one", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	live = record_live(&life, &e);
	record = record_open(live, &tree, &e);
	assert_int_equal(record_store(record, one, "/some/where", &none, true), 0);
	assert_int_equal(mkdir("one/more", 0755), 0); /* no time but that of its birth counts */
	assert_true(record_load(record, &back, &whole, NULL));
	assert_true(record_is_of(&back, one, false));
	do { /* until the kernel's clock has gone on */
		other = fd_close(other);
		assert_true((rmdir("other") == 0 || errno == ENOENT) && mkdir("other", 0755) == 0);
		other = open("other", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} while (record_is_of(&back, other, false));
	known_done(&back);
}

static void the_first_writes_and_the_last_closes(void **state UNUSED)
{
	const struct ident tree = { .dev = 0xfe00, .ino = 0xabc };
	CLEANUP(fd) int live = -1, life = -1, one = -1, two = -1, third = -1;
	struct ident named;
	int status;
	pid_t pid;
	bool alone;
	struct err e;

	live = record_live(&life, &e);
	one = record_open(live, &tree, &e);
	two = record_open(live, &tree, &e);
	assert_true(record_join(one, &alone) == 0 && alone);
	assert_true(record_locked(two));
	record_share(one);
	assert_true(record_join(two, &alone) == 0 && !alone);
	assert_false(record_alone(one));
	two = fd_close(two);
	assert_true(record_alone(one) && !lives_others(live, life));
	assert_true(lives_others(live, -1));
	assert_false(lives_others(live, life));
	pid = fork(); /* who has the descriptor has the lock */
	if (pid == 0)
		_exit(!lives_others(live, -1) || lives_others(live, life));
	assert_true(waitpid(pid, &status, 0) == pid && status == 0);
	third = lives_join(live);
	assert_true(third >= 0 && lives_others(live, life) && lives_others(live, third));
	life = fd_close(life);
	assert_true(lives_others(live, -1) && !lives_others(live, third));
	third = fd_close(third);
	assert_false(lives_others(live, -1));
	assert_true(record_mark(live, RECORD_LIVE, &tree));
	assert_false(record_mark(live, RECORD_LIVE, &tree));
	assert_false(record_is_open(live, &tree));
	assert_true(record_mark(live, RECORD_OPEN, &tree));
	assert_true(record_is_open(live, &tree));
	assert_int_equal(access("state/brig/records/open/fe00-abc", F_OK), 0);
	assert_true(record_ident("fe00-abc", &named) && named.ino == 0xabc);
	assert_false(record_ident("fe00", &named) || record_ident("../x-1", &named));
	record_unmark(live, RECORD_OPEN, &tree);
	assert_false(record_is_open(live, &tree));
	assert_int_equal(access("state/brig/records/live/fe00-abc", F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_is_found_again_and_nothing_else),
		cmocka_unit_test(a_text_that_brig_does_not_write_is_no_list),
		cmocka_unit_test_setup_teardown(a_record_is_whole_or_none, enter, leave),
		cmocka_unit_test_setup_teardown(a_record_is_of_the_folder_it_was_written_for_alone,
						enter, leave),
		cmocka_unit_test_setup_teardown(the_first_writes_and_the_last_closes, enter, leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
