/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_paths.c - path text: made absolute, compared, split from mounts, refused as a target.
 */
#include "unit.h"

#include "model/settings/paths.h"
#include "model/settings/spec.h"

static const struct place here = { .cwd = "/work/dir", .home = "/home/me" };

static void paths_become_absolute_and_plain(void **state UNUSED)
{
	static const struct {
		const char *text, *path;
	} all[] = {
		{ "/a/b", "/a/b" },
		{ "/a/b/", "/a/b" },
		{ "//a///b//", "/a/b" },
		{ "/a/./b/.", "/a/b" },
		{ "/a/../b", "/b" },
		{ "/..", "/" },
		{ "/../../..", "/" },
		{ "/a/b/../../../c", "/c" },
		{ "/", "/" },
		{ "//", "/" },
		{ ".", "/work/dir" },
		{ "..", "/work" },
		{ "../..", "/" },
		{ "../../../..", "/" },
		{ "x", "/work/dir/x" },
		{ "./x/", "/work/dir/x" },
		{ "../x", "/work/x" },
		{ "~", "/home/me" },
		{ "~/", "/home/me" },
		{ "~/x", "/home/me/x" },
		{ "~/../you", "/home/you" },
		{ "a~", "/work/dir/a~" },
		{ "/...", "/..." },
		{ "/a/..b/.c", "/a/..b/.c" },
		{ " ", "/work/dir/ " },
		{ "\xc3\xa4\xff", "/work/dir/\xc3\xa4\xff" },
	};
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		const char *path = NULL;
		struct err e;

		print_message("%s\n", all[i].text);
		assert_int_equal(path_resolve(a, &here, all[i].text, &path, &e), 0);
		assert_string_equal(path, all[i].path);
	}
}

static void paths_that_mean_nothing_are_refused(void **state UNUSED)
{
	static const char *const all[] = {
		"", "~root", "~root/x", "a\nb", "\x01", "a\x7f", "/x\t"
	};
	const struct place homeless = { .cwd = "/work" };
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	const char *path = "untouched";
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		assert_int_equal(path_resolve(a, &here, all[i], &path, &e), -EINVAL);
		assert_int_equal(e.kind, ERR_USAGE);
	}
	assert_int_equal(path_resolve(a, &homeless, "~", &path, &e), -EINVAL);
	assert_int_equal(path_resolve(a, &homeless, "~/x", &path, &e), -EINVAL);
	assert_string_equal(path, "untouched");
}

static void a_very_long_path_is_handled_whole(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	CLEANUP(mem) char *text = malloc(100001);
	const char *path;
	struct err e;

	assert_non_null(text);
	for (size_t i = 0; i < 100000; i += 2)
		memcpy(text + i, "/x", 2);
	text[100000] = '\0';
	assert_int_equal(path_resolve(a, &here, text, &path, &e), 0);
	assert_string_equal(path, text);
	for (size_t i = 0; i < 100000; i += 4)
		memcpy(text + i, "/../", 4);
	assert_int_equal(path_resolve(a, &here, text, &path, &e), 0);
	assert_string_equal(path, "/");
}

static void below_is_judged_by_component(void **state UNUSED)
{
	assert_true(path_under("/a/b", "/a"));
	assert_true(path_under("/a", "/a"));
	assert_true(path_under("/a", "/"));
	assert_true(path_under("/", "/"));
	assert_false(path_under("/ab", "/a"));
	assert_false(path_under("/a", "/a/b"));
	assert_false(path_under("/b/a", "/a"));
	assert_false(path_under("/", "/a"));
}

static void mounts_are_split_at_their_colons(void **state UNUSED)
{
	static const struct {
		const char *text, *source, *target;
		bool writable;
	} all[] = {
		{ "/a:/b", "/a", "/b", false },           { "/a:/b:rw", "/a", "/b", true },
		{ "/a:/b:ro", "/a", "/b", false },        { "~/x:/data", "~/x", "/data", false },
		{ "rel:/data:rw", "rel", "/data", true }, { "a b:/c d", "a b", "/c d", false },
	};
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct mount_spec m;
		struct err e;

		assert_int_equal(mount_parse(a, all[i].text, &m, &e), 0);
		assert_string_equal(m.source, all[i].source);
		assert_string_equal(m.target, all[i].target);
		assert_int_equal(m.writable, all[i].writable);
	}
}

static void mounts_of_another_form_are_refused(void **state UNUSED)
{
	static const char *const all[] = {
		"",        ":",      "::",      "a",        "/a",       ":/b",
		"a:",      "a:/b:",  "a:/b:RW", "a:/b:rwx", "a:/b:rw:", "a:/b:rw:rw",
		"a:/b:/c", "a:/b:z", ":/b:rw",  "a:/b: rw",
	};
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct mount_spec m = { .source = "untouched" };
		struct err e;

		print_message("%s\n", all[i]);
		assert_int_equal(mount_parse(a, all[i], &m, &e), -EINVAL);
		assert_string_equal(m.source, "untouched");
		assert_true(e.hint[0]);
	}
}

static void targets_that_take_a_protection_away_are_refused(void **state UNUSED)
{
	static const char *const all[] = {
		"/",         "/bin",           "/sbin",
		"/lib",      "/lib32",         "/lib64",
		"/libx32",   "/usr",           "/etc",
		"/tmp",      "/home",          "/work",
		"/code",     "/role",          "/workspace",
		"/proc",     "/proc/self",     "/proc/sys/kernel",
		"/sys",      "/sys/fs/cgroup", "/dev",
		"/dev/null", "/dev/shm/x",     "/mine",
	};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		print_message("%s\n", all[i]);
		assert_int_equal(target_check(all[i], "/mine", &e), -EPERM);
		assert_int_equal(e.kind, ERR_POLICY);
	}
}

static void targets_must_be_written_plainly(void **state UNUSED)
{
	static const char *const all[] = {
		"",        "x",          "./x",     "../x",        "/x/",         "//x",
		"/x//y",   "/x/./y",     "/x/../y", "/.",          "/..",         "/x/..",
		"/./proc", "/x/../proc", "//proc",  "/proc/",      "~",           "~/x",
		"/x\n",    "/\x1b[0m",   "/x\x7f",  "/tmp/../etc", "/workspace/", "/workspace/..",
	};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		print_message("%s\n", all[i]);
		assert_int_equal(target_check(all[i], "/workspace", &e), -EINVAL);
	}
	assert_int_equal(target_check("/x/../y", "/w", &e), -EINVAL);
	assert_string_equal(e.hint, "write it as '/y'");
}

static void ordinary_targets_are_taken(void **state UNUSED)
{
	static const char *const all[] = {
		"/data",        "/opt/x",     "/workspace/sub", "/proceed", "/devel", "/system",
		"/usr/local/x", "/home/me/x", "/tmp/x",         "/ ",       "/...",
	};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_int_equal(target_check(all[i], "/workspace", &e), 0);
}

static void a_target_of_any_length_stays_in_bounds(void **state UNUSED)
{
	char text[PATH_MAX + 16];
	struct err e;

	for (size_t n = PATH_MAX - 8; n < PATH_MAX + 8; n++) {
		memset(text, 'x', n);
		text[0] = '/';
		text[n] = '\0';
		assert_int_equal(target_check(text, "/w", &e),
				 n > PATH_MAX - 2 ? -ENAMETOOLONG : 0);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(paths_become_absolute_and_plain),
	cmocka_unit_test(paths_that_mean_nothing_are_refused),
	cmocka_unit_test(a_very_long_path_is_handled_whole),
	cmocka_unit_test(below_is_judged_by_component),
	cmocka_unit_test(mounts_are_split_at_their_colons),
	cmocka_unit_test(mounts_of_another_form_are_refused),
	cmocka_unit_test(targets_that_take_a_protection_away_are_refused),
	cmocka_unit_test(targets_must_be_written_plainly),
	cmocka_unit_test(ordinary_targets_are_taken),
	cmocka_unit_test(a_target_of_any_length_stays_in_bounds),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
