/* SPDX-License-Identifier: Apache-2.0 */
/* base/taken: what was taken from a workspace, and who says where it came from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/taken.h"
#include "base/text/cleanup.h"

static char top[PATH_MAX];

static const char *in(const char *rest)
{
	static char path[8][PATH_MAX + 256];
	static int at;

	at = (at + 1) % 8;
	(void)snprintf(path[at], sizeof(path[at]), "%s/%s", top, rest);
	return path[at];
}

static void put(const char *rest, const char *text)
{
	CLEANUP(fd) int fd = open(in(rest), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0);
}

/* A folder of a command's, which looks as one of the quarantine's own. */
static int fresh(void **state)
{
	char template[] = "/tmp/brig-taken-XXXXXX", about[2 * PATH_MAX];

	(void)state;
	if (!mkdtemp(template) || !realpath(template, top) ||
	    setenv("XDG_STATE_HOME", in("state"), 1) || mkdir(in("w"), 0700) ||
	    mkdir(in("w/.husky"), 0700) || mkdir(in("w/.husky/refs"), 0700))
		return -1;
	(void)snprintf(
		about, sizeof(about),
		"{\"from\":\"%s\",\"why\":\"made during the run\",\"mode\":33188,\"when\":1}",
		in("profile"));
	put("w/.husky/thing", "evil");
	put("w/.husky/about", about);
	put("w/.husky/HEAD", "ref: refs/heads/x\n");
	return 0;
}

static int gone(void **state)
{
	char line[2 * PATH_MAX + 64];

	(void)state;
	(void)snprintf(line, sizeof(line), "chmod -R u+rwx '%s'; rm -rf '%s'", top, top);
	return system(line);
}

static void take(const char *id, char place[PATH_MAX])
{
	CLEANUP(fd) int dir = open(in("w"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_return_code(
		taken_put(dir, ".husky", id, in("w/.husky"), "it was made", place, PATH_MAX), 0);
	assert_int_equal(access(in("w/.husky"), F_OK), -1);
}

struct row {
	char id[NAME_MAX + 1], from[PATH_MAX];
	mode_t mode;
	int n;
};

static int keep(void *arg, const struct taken_row *r)
{
	struct row *row = arg;

	(void)snprintf(row->id, sizeof(row->id), "%s", r->id);
	(void)snprintf(row->from, sizeof(row->from), "%s", r->from ? r->from : "");
	row->mode = r->mode;
	row->n++;
	return 0;
}

static struct row only(void)
{
	struct row row = { .n = 0 };
	struct err e = { 0 };

	assert_int_equal(taken_each(keep, &row, &e), 0);
	assert_int_equal(row.n, 1);
	return row;
}

static void it_comes_back_to_where_it_was(void **state)
{
	char place[PATH_MAX];
	struct err e = { 0 };
	struct row row;

	(void)state;
	take("a-0", place);
	row = only();
	assert_string_equal(row.id, "a-0");
	assert_string_equal(row.from, in("w/.husky"));
	assert_true(S_ISDIR(row.mode));
	assert_int_equal(taken_restore("a-0", &e), 0);
	assert_int_equal(access(in("w/.husky/HEAD"), F_OK), 0);
	assert_int_equal(access(in("profile"), F_OK), -1);
}

/* As it is on a full disk: no folder can be made there. */
static void what_has_no_folder_of_ours_says_nothing_about_itself(void **state)
{
	char place[PATH_MAX];
	struct err e = { 0 };
	struct stat st;
	struct row row;

	(void)state;
	assert_true(mkdir(in("state"), 0700) == 0 && mkdir(in("state/brig"), 0700) == 0 &&
		    mkdir(in("state/brig/quarantine"), 0700) == 0 &&
		    mkdir(in("state/brig/quarantine/a-0"), 0700) == 0);
	take("a-0", place);
	row = only();
	assert_string_equal(row.from, "");
	assert_true(S_ISDIR(row.mode));
	assert_string_equal(row.id, "bare-a-0");
	assert_string_equal(place, in("state/brig/quarantine/bare-a-0"));
	assert_return_code(stat(place, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0); /* and is no repository */
	assert_true(taken_restore(row.id, &e) < 0);
	assert_int_equal(access(in("profile"), F_OK), -1);
	assert_int_equal(taken_clear(row.id, &e), 0);
	assert_int_equal(access(place, F_OK), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_comes_back_to_where_it_was),
		TEST(what_has_no_folder_of_ours_says_nothing_about_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
