/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_bwrap.c - what is told to bubblewrap and to brig inside it, without starting either. */
#include "unit.h"

#include "backend/backend.h"
#include "backend/bwrap/bwrap_program.h"
#include "backend/bwrap/letter.h"
#include "base/text/str.h"

static const char old_enough[] = "x\0--size\0--perms\0--clearenv\0--info-fd\0"
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

/* What each release has added, from its notes; 0.12 took setuid mode away and no option. */
static const struct {
	const char *name, *options;
	bool bind_fd;
} releases[] = {
	{ "0.8",
	  "--help --version --args --unshare-all --share-net --unshare-user "
	  "--unshare-user-try --unshare-ipc --unshare-pid --unshare-net --unshare-uts "
	  "--unshare-cgroup --unshare-cgroup-try --userns --userns2 --disable-userns "
	  "--assert-userns-disabled --pidns --uid --gid --hostname --chdir --clearenv "
	  "--setenv --unsetenv --lock-file --sync-fd --bind --bind-try --dev-bind "
	  "--dev-bind-try --ro-bind --ro-bind-try --remount-ro --exec-label --file-label "
	  "--proc --dev --tmpfs --mqueue --dir --file --bind-data --ro-bind-data --symlink "
	  "--seccomp --add-seccomp-fd --block-fd --userns-block-fd --info-fd "
	  "--json-status-fd --new-session --die-with-parent --as-pid-1 --cap-add "
	  "--cap-drop --perms --size --chmod ",
	  false },
	{ "0.9", "--argv0 ", false },
	{ "0.10", "--bind-fd --ro-bind-fd ", true },
	{ "0.11", "--overlay --tmp-overlay --ro-overlay --overlay-src --level-prefix ", true },
	{ "0.12", "", true },
};

static bool knows(const char *options, const char *option)
{
	char word[64];

	return snprintf(word, sizeof(word), "%s ", option) < (int)sizeof(word) &&
	       strstr(options, word);
}

/* With a door, code and a tree of the user's, so that every kind of argument is among them. */
static struct box_plan *plan_of_everything(struct spec *s, struct err *e)
{
	const struct place at = { .cwd = "/", .home = "/" };
	char *words[] = { "true", NULL };
	struct box_plan *p = NULL;

	assert_int_equal(spec_set_key(s, "network", "proxy", ORIGIN_FLAG, e), 0);
	assert_int_equal(spec_set_key(s, "read", "/var/lib", ORIGIN_FLAG, e), 0);
	assert_int_equal(spec_set_argv(s, 1, words, e), 0);
	assert_int_equal(spec_check(s, &at, e), 0);
	assert_int_equal(box_plan_new(s, "bwrap", &p, e), 0);
	return p;
}

static void no_release_is_told_an_option_it_lacks(void **state UNUSED)
{
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = spec_new(&e);
	CLEANUP(box_plan) struct box_plan *p = plan_of_everything(s, &e);
	char options[2048] = "";

	for (size_t r = 0; r < ARRAY_LEN(releases); r++) {
		struct bwrap_features has = { 0 };
		struct bwrap_args args;
		size_t by_fd = 0, shown = 0;

		strcat(options, releases[r].options); /* NOLINT: bounded by the table */
		assert_int_equal(bwrap_read_features(options, strlen(options), &has), 0);
		assert_int_equal(has.bind_fd, releases[r].bind_fd);
		assert_int_equal(bwrap_args(p, &has, &args, &e), 0);
		for (size_t i = 0; i < args.n; i++) {
			const char *word = args.v[i].text;

			if (str_starts(word, "--") && !knows(options, word))
				fail_msg("%s has no '%s'", releases[r].name, word);
			by_fd += str_eq(word, "--bind-fd") || str_eq(word, "--ro-bind-fd");
			shown += str_eq(word, "FD:" DOOR_ROOTS);
		}
		assert_int_equal(by_fd > 0, releases[r].bind_fd);
		assert_true(shown > 0);
	}
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
			    .layered = "/workspace",
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
	assert_string_equal(l.inside.layered, "/workspace");
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
	assert_int_equal(backend_bwrap.check(s, &e), 0);
	assert_int_equal(spec_set_key(s, "read_only_root", "true", ORIGIN_FLAG, &e), 0);
	assert_int_equal(backend_bwrap.check(s, &e), 0);
	assert_int_equal(spec_set_key(s, "read_only_root", "false", ORIGIN_FLAG, &e), 0);
	assert_int_equal(backend_bwrap.check(s, &e), -ENOTSUP);
	assert_non_null(strstr(e.hint, "native"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_program_that_lacks_an_option_is_too_old),
	cmocka_unit_test(both_options_for_descriptors_are_needed),
	cmocka_unit_test(no_release_is_told_an_option_it_lacks),
	cmocka_unit_test(a_letter_arrives_as_it_was_written),
	cmocka_unit_test(a_letter_cut_short_anywhere_is_refused),
	cmocka_unit_test(only_what_somebody_wrote_is_refused),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
