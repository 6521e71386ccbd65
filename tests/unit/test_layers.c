/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/layers: what overlay runs have written, found again, held, listed and taken away. */
#include "unit.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/files/fd.h"
#include "base/text/str.h"
#include "sandbox/layers/layer.h"

static char top[PATH_MAX], workspace[PATH_MAX + 8];

static int enter(void **state UNUSED)
{
	enter_scratch(top);
	set_below("XDG_CACHE_HOME", top, "cache");
	must(mkdir("w", 0750) == 0 && mkdir("other", 0755) == 0);
	(void)snprintf(workspace, sizeof(workspace), "%s/w", top);
	return 0;
}

static int leave(void **state UNUSED)
{
	leave_scratch(top);
	return 0;
}

static struct layer make(unsigned n)
{
	char id[CLAIM_ID + 1];
	const struct layer_want want = { .id = id, .workspace = workspace };
	struct layer l = LAYER_NONE;
	struct err e = { 0 };

	(void)snprintf(id, sizeof(id), "%032x", n);
	if (layer_make(&want, &l, &e) < 0)
		fail_msg("%s", e.what);
	return l;
}

static void write_in(const struct layer *l, const char *name)
{
	CLEANUP(fd) int fd = openat(l->upper, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0 && write(fd, "x", 1) == 1);
}

static int mark(int folder, const char *name, const char *key)
{
	CLEANUP(fd) int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -1 : fsetxattr(fd, key, "", 0, 0);
}

static void one_is_held_until_it_is_finished_and_found_afterwards(void **state UNUSED)
{
	struct layer l = make(1), again = LAYER_NONE;
	struct err e = { 0 };
	struct stat st;
	int fd = -1;

	assert_int_equal(fstat(l.upper, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	write_in(&l, "new");
	assert_int_equal(layer_open("last", workspace, LAYER_SHARED, &again, &e), -ENOENT);
	assert_int_equal(layer_open(l.about.id, NULL, LAYER_ALONE, &again, &e), -EBUSY);
	assert_int_equal(layer_finish(&l, &e), 0);
	assert_int_equal(l.about.changed, 1);
	layer_done(&l);
	assert_int_equal(layer_open("last", "/elsewhere", LAYER_SHARED, &again, &e), -ENOENT);
	assert_int_equal(layer_open("last", workspace, LAYER_ALONE, &again, &e), 0);
	assert_true(again.about.finished && again.about.changed == 1);
	assert_string_equal(again.about.workspace, workspace);
	assert_int_equal(layer_workspace(&again, &fd, &e), 0);
	(void)close(fd);
	assert_int_equal(layer_drop(&again, &e), 0);
	assert_int_equal(layer_open("last", workspace, LAYER_SHARED, &again, &e), -ENOENT);
}

static void another_folder_of_that_name_is_not_its_workspace(void **state UNUSED)
{
	struct layer l = make(2);
	struct err e = { 0 };
	int fd = -1;

	assert_int_equal(rename("w", "kept"), 0);
	assert_int_equal(mkdir("w", 0750), 0);
	assert_int_equal(layer_workspace(&l, &fd, &e), -ESTALE);
	assert_int_equal(rmdir("w"), 0);
	assert_int_equal(rename("kept", "w"), 0);
	assert_int_equal(layer_workspace(&l, &fd, &e), 0);
	(void)close(fd);
	assert_int_equal(layer_drop(&l, &e), 0);
}

static void the_last_of_one_second_is_the_one_that_began_last(void **state UNUSED)
{
	struct layer first = make(7), second = make(8), found = LAYER_NONE;
	struct err e = { 0 };

	second.about.began = first.about.began; /* be it that a second has just passed */
	second.about.began_ns = first.about.began_ns + 1;
	assert_int_equal(layer_finish(&first, &e), 0);
	assert_int_equal(layer_finish(&second, &e), 0);
	layer_done(&first);
	layer_done(&second);
	assert_int_equal(layer_open("last", workspace, LAYER_ALONE, &found, &e), 0);
	assert_string_equal(found.about.id, "00000000000000000000000000000008");
	assert_int_equal(layer_drop(&found, &e), 0);
	assert_int_equal(layer_open("last", workspace, LAYER_ALONE, &found, &e), 0);
	assert_int_equal(layer_drop(&found, &e), 0);
}

struct seen {
	size_t n, used, damaged;
};

static int look(void *arg, const struct layer_row *row)
{
	struct seen *s = arg;

	s->n++;
	s->used += row->used;
	s->damaged += row->damaged;
	return 0;
}

static void who_is_gone_without_a_word_is_damaged(void **state UNUSED)
{
	struct layer l = make(3), kept = make(4), found = LAYER_NONE;
	struct seen s = { 0 };
	struct err e = { 0 };

	layer_done(&l);
	assert_int_equal(layer_list(look, &s, &e), 0);
	assert_true(s.n == 2 && s.used == 1 && s.damaged == 1);
	assert_int_equal(layer_open("last", workspace, LAYER_SHARED, &found, &e), -ENOENT);
	assert_int_equal(
		layer_open("00000000000000000000000000000003", NULL, LAYER_ALONE, &found, &e), 0);
	assert_false(found.about.finished);
	assert_int_equal(layer_drop(&found, &e), 0);
	assert_int_equal(layer_drop(&kept, &e), 0);
}

static void only_what_it_changed_is_counted(void **state UNUSED)
{
	struct layer l = make(5);
	uint64_t names, bytes;
	struct err e = { 0 };
	bool more;

	must(mkdirat(l.upper, "was", 0755) == 0 && mkdirat(l.upper, "was/new", 0755) == 0);
	must(mark(l.upper, "was", "user.overlay.origin") == 0);
	write_in(&l, "was/file");
	must(symlinkat("/etc/passwd", l.upper, "link") == 0);
	assert_int_equal(layer_count(&l, LAYER_NAMES, &names, &bytes, &more), 0);
	assert_true(names == 3 && !more);
	assert_int_equal(layer_count(&l, 2, &names, &bytes, &more), 0);
	assert_true(names == 2 && more);
	assert_int_equal(layer_drop(&l, &e), 0);
}

static void what_is_not_as_brig_writes_it_is_no_layer(void **state UNUSED)
{
	static const char *const texts[] = { "", "{", "{}", "[1]",
					     "{\"run\":\"../../x\",\"path\":\"2f\"}" };
	struct layer l = make(6), found = LAYER_NONE;
	struct err e = { 0 };

	assert_int_equal(layer_finish(&l, &e), 0);
	layer_done(&l);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		write_text("cache/brig/layers/00000000000000000000000000000006/about", texts[i]);
		assert_int_equal(layer_open("last", workspace, LAYER_SHARED, &found, &e), -ENOENT);
		assert_int_equal(layer_open("0000", NULL, LAYER_ALONE, &found, &e), 0);
		assert_false(found.about.finished);
		layer_done(&found);
	}
	assert_int_equal(layer_open("0000", NULL, LAYER_ALONE, &found, &e), 0);
	assert_int_equal(layer_drop(&found, &e), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(one_is_held_until_it_is_finished_and_found_afterwards),
	cmocka_unit_test(the_last_of_one_second_is_the_one_that_began_last),
	cmocka_unit_test(another_folder_of_that_name_is_not_its_workspace),
	cmocka_unit_test(who_is_gone_without_a_word_is_damaged),
	cmocka_unit_test(only_what_it_changed_is_counted),
	cmocka_unit_test(what_is_not_as_brig_writes_it_is_no_layer),
};

int main(void)
{
	return cmocka_run_group_tests(tests, enter, leave);
}
