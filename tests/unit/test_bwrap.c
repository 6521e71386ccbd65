/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_bwrap.c - what is told to bubblewrap and to brig inside it, without starting either. */
#include "unit.h"

#include "backend/bwrap/bwrap.h"
#include "backend/bwrap/letter.h"
#include "backend/bwrap/program.h"
#include "base/str.h"

static const char old_enough[] = "x\0--size\0--perms\0--add-seccomp-fd\0--clearenv\0--info-fd\0"
				 "--disable-userns\0";

static void a_program_that_lacks_an_option_is_too_old(void **state UNUSED)
{
	struct bwrap_features f = { 0 };
	char less[sizeof(old_enough)];

	assert_int_equal(bwrap_read_features(old_enough, sizeof(old_enough), &f), 0);
	assert_false(f.bind_fd);
	memcpy(less, old_enough, sizeof(less));
	*(char *)memmem(less, sizeof(less), "--clearenv", 10) = '+';
	assert_int_equal(bwrap_read_features(less, sizeof(less), &f), -ENOTSUP);
	assert_int_equal(bwrap_read_features("", 0, &f), -ENOTSUP);
}

static void both_options_for_descriptors_are_needed(void **state UNUSED)
{
	struct bwrap_features f = { 0 };
	char more[256];
	size_t n = sizeof(old_enough);

	memcpy(more, old_enough, n);
	memcpy(more + n, "--bind-fd", sizeof("--bind-fd"));
	assert_int_equal(bwrap_read_features(more, n + sizeof("--bind-fd"), &f), 0);
	assert_false(f.bind_fd);
	memcpy(more + n + sizeof("--bind-fd"), "--ro-bind-fd", sizeof("--ro-bind-fd"));
	assert_int_equal(
		bwrap_read_features(more, n + sizeof("--bind-fd") + sizeof("--ro-bind-fd"), &f), 0);
	assert_true(f.bind_fd);
}

static const char *const argv[] = { "sh", "-c", "", NULL };
static const char *const envp[] = { "A=b", "EMPTY=", NULL };
static const char *const writable[] = { "/tmp", "/workspace" };

static void write_sample(struct buf *b)
{
	const struct letter_check checks[] = { { "/workspace", { .dev = 3, .ino = 7 } },
					       { "/usr", { .dev = 4, .ino = 8 } } };
	struct inside c = { .argv = argv,
			    .envp = envp,
			    .path = "/bin:/usr/bin",
			    .cwd = "/workspace",
			    .uid = 1000,
			    .writable = writable,
			    .writable_count = 2,
			    .tmpfs = { "/tmp", "/home/x" },
			    .tmpfs_count = 2,
			    .control = 5,
			    .in = -1,
			    .cpus = 2 };

	letter_write(&c, checks, 2, b);
	assert_false(b->failed);
}

static void a_letter_arrives_as_it_was_written(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 16);
	struct letter l;
	struct err e = { 0 };

	write_sample(&b);
	assert_int_equal(letter_read(b.data, b.len, &l, &e), 0);
	assert_string_equal(l.inside.argv[1], "-c");
	assert_string_equal(l.inside.argv[2], "");
	assert_null(l.inside.argv[3]);
	assert_string_equal(l.inside.envp[1], "EMPTY=");
	assert_null(l.inside.envp[2]);
	assert_string_equal(l.inside.path, "/bin:/usr/bin");
	assert_string_equal(l.inside.cwd, "/workspace");
	assert_string_equal(l.inside.writable[1], "/workspace");
	assert_string_equal(l.inside.tmpfs[1], "/home/x");
	assert_true(l.inside.uid == 1000 && l.inside.in == -1 && l.inside.cpus == 2);
	assert_true(l.check_count == 2 && l.checks[1].ident.ino == 8);
	assert_string_equal(l.checks[1].path, "/usr");
	letter_done(&l);
}

static void a_letter_cut_short_anywhere_is_refused(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 16);
	struct letter l;
	struct err e = { 0 };

	write_sample(&b);
	for (size_t n = 0; n < b.len; n++)
		assert_int_equal(letter_read(b.data, n, &l, &e), -EPROTO);
	b.data[0] ^= 1;
	assert_int_equal(letter_read(b.data, b.len, &l, &e), -EPROTO);
}

static void only_what_somebody_wrote_is_refused(void **state UNUSED)
{
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = spec_new(&e);

	assert_non_null(s);
	s->read_only_root = false; /* as a dialect's default */
	assert_int_equal(bwrap_honours(s, &e), 0);
	assert_int_equal(spec_set_key(s, "read_only_root", "true", ORIGIN_FLAG, &e), 0);
	assert_int_equal(bwrap_honours(s, &e), 0);
	assert_int_equal(spec_set_key(s, "read_only_root", "false", ORIGIN_FLAG, &e), 0);
	assert_int_equal(bwrap_honours(s, &e), -ENOTSUP);
	assert_non_null(strstr(e.hint, "native"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_program_that_lacks_an_option_is_too_old),
	cmocka_unit_test(both_options_for_descriptors_are_needed),
	cmocka_unit_test(a_letter_arrives_as_it_was_written),
	cmocka_unit_test(a_letter_cut_short_anywhere_is_refused),
	cmocka_unit_test(only_what_somebody_wrote_is_refused),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
