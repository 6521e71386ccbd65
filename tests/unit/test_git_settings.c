/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_git_settings.c - which of the caller's git settings are known inside. */
#include "unit.h"

#include <sys/stat.h>

#include "git/git_settings.h"
#include "git/git_syntax.h"

static char top[] = "/tmp/brig-git-settings-XXXXXX";

static const char *in_top(const char *name)
{
	static char path[4][256];
	static unsigned turn;
	char *p = path[turn++ % 4];

	(void)snprintf(p, sizeof(path[0]), "%s/%s", top, name);
	return p;
}

static void save(const char *name, const char *text)
{
	FILE *f = fopen(in_top(name), "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
	if (!*state)
		assert_non_null(mkdtemp(top));
	*state = top;
	(void)mkdir(in_top("home"), 0700);
	(void)mkdir(in_top("ws"), 0700);
	(void)mkdir(in_top("ws/.git"), 0700);
	(void)mkdir(in_top("home/dir"), 0700);
	return 0;
}

static int tear_down(void **state)
{
	static const char *const files[] = { "home/.gitconfig", "home/inc", "home/dir/inc",
					     "ws/inc", "home/fifo" };

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		(void)unlink(in_top(files[i]));
	(void)rmdir(in_top("home/dir"));
	(void)rmdir(in_top("ws/.git"));
	(void)rmdir(in_top("ws"));
	(void)rmdir(in_top("home"));
	return rmdir(top);
}

static struct git_left left;

/* What is shown for a caller with that ~/.gitconfig. */
static const char *shown(const char *config)
{
	static char text[8192];
	char home[256], git[256], ws[256];
	struct arena *a = arena_new(1 << 20);
	struct git_files f = {
		.home = home, .config = "/nonexistent", .git_dir = git, .workspace = ws
	};
	const char *got;

	(void)snprintf(home, sizeof(home), "%s", in_top("home"));
	(void)snprintf(git, sizeof(git), "%s", in_top("ws/.git"));
	(void)snprintf(ws, sizeof(ws), "%s", in_top("ws"));
	save("home/.gitconfig", config);
	assert_non_null(a);
	got = git_settings_text(a, &f, &left);
	assert_non_null(got);
	(void)snprintf(text, sizeof(text), "%s", got);
	(void)arena_free(a);
	return text;
}

static void name_and_habits_are_shown_and_nothing_that_names_a_program(void **state UNUSED)
{
	assert_string_equal(
		shown("[user]\n name = Ada \"the first\"  ; c\n email=ada@example.org\n signingkey "
		      "= x\n"
		      "[core]\n editor = vi\n pager = less\n hooksPath = /h\n autocrlf = input\n"
		      "fsmonitor = x\n sshCommand = s\n[alias]\n st = !sh\n[credential]\n helper = "
		      "store\n"
		      "[url \"x\"]\n insteadOf = y\n[http]\n proxy = z\n[init]\n defaultBranch = "
		      "trunk\n"
		      "[diff \"x\"]\n renames = true\n[diff]\n external = d\n[commit]\n gpgsign\n "
		      "verbose\n"),
		"[user]\n\tname = \"Ada the first\"\n\temail = \"ada@example.org\"\n"
		"[commit]\n\tverbose = \"true\"\n[core]\n\tautocrlf = \"input\"\n"
		"[init]\n\tdefaultbranch = \"trunk\"\n");
	assert_false(left.undecided);
	assert_true(left.signing);
}

static void the_last_value_counts_and_is_quoted(void **state UNUSED)
{
	assert_string_equal(shown("[commit]\ngpgsign = no\n"), "");
	assert_false(left.signing);
	assert_string_equal(shown("[user]\nname = first\n[USER]\nName = \"a\\\\b\\\"c # d\" e\n"),
			    "[user]\n\tname = \"a\\\\b\\\"c # d e\"\n");
	/* A line end in a value could begin a section. */
	assert_string_equal(shown("[user]\nname = \"a\\n[alias]\"\n"), "");
}

static void a_broken_file_gives_no_identity(void **state UNUSED)
{
	assert_string_equal(shown("[user]\nname = me\n[user\n"), "");
	assert_true(left.undecided);
	assert_string_equal(shown("[color]\nui = auto\n[user]\nname = \"me\n"),
			    "[color]\n\tui = \"auto\"\n");
	assert_true(left.undecided);
}

static void includes_are_followed_where_they_apply(void **state UNUSED)
{
	char text[1024];

	save("home/inc", "[user]\nemail = work@example.org\n");
	save("home/dir/inc", "[include]\npath = ../inc\n");
	assert_string_equal(shown("[user]\nemail = home@example.org\n[include]\npath = dir/inc\n"),
			    "[user]\n\temail = \"work@example.org\"\n");
	assert_string_equal(shown("[include]\npath = ~/inc\n[user]\nemail = home@example.org\n"),
			    "[user]\n\temail = \"home@example.org\"\n");
	(void)snprintf(text, sizeof(text),
		       "[user]\nemail = h@x\n[includeIf \"gitdir:%s/ws/\"]\npath = inc\n", top);
	assert_string_equal(shown(text), "[user]\n\temail = \"work@example.org\"\n");
	assert_string_equal(
		shown("[user]\nemail = h@x\n[includeIf \"gitdir:other/\"]\npath = inc\n"),
		"[user]\n\temail = \"h@x\"\n");
	assert_string_equal(shown("[includeIf \"gitdir/i:WS/\"]\npath = inc\n"),
			    "[user]\n\temail = \"work@example.org\"\n");
	assert_false(left.undecided);
}

static void what_cannot_be_decided_leaves_the_identity_out(void **state UNUSED)
{
	static const char *const conditions[] = { "onbranch:main", "hasconfig:remote.*.url:x",
						  "gitdir:[a]/",   "gitdir:a\\\\b",
						  "gitdir:",       "later:x" };

	save("home/inc", "[user]\nemail = work@example.org\n");
	for (size_t i = 0; i < sizeof(conditions) / sizeof(*conditions); i++) {
		char text[256];

		(void)snprintf(
			text, sizeof(text),
			"[user]\nname = me\n[color]\nui = never\n[includeIf \"%s\"]\npath = inc\n",
			conditions[i]);
		assert_string_equal(shown(text), "[color]\n\tui = \"never\"\n");
		assert_true(left.undecided);
	}
}

static void nothing_of_the_commands_is_read(void **state UNUSED)
{
	save("ws/inc", "[user]\nemail = mallory@example.org\n");
	assert_string_equal(shown("[user]\nname = me\n[include]\npath = ../ws/inc\n"), "");
	assert_true(left.undecided);
	(void)unlink(in_top("home/inc"));
	assert_int_equal(symlink("../ws/inc", in_top("home/inc")), 0);
	assert_string_equal(shown("[user]\nname = me\n[include]\npath = inc\n"), "");
	assert_int_equal(unlink(in_top("home/inc")), 0);
	assert_int_equal(mkfifo(in_top("home/fifo"), 0600), 0);
	assert_string_equal(shown("[user]\nname = me\n[include]\npath = fifo\n"), "");
	assert_true(left.undecided);
}

static void an_include_that_is_missing_or_of_itself_is_no_harm(void **state UNUSED)
{
	assert_string_equal(shown("[user]\nname = me\n[include]\npath = nowhere\n"),
			    "[user]\n\tname = \"me\"\n");
	assert_string_equal(shown("[include]\npath = .gitconfig\n[user]\nname = me\n"), "");
	assert_true(left.undecided);
}

static void patterns_match_as_gits_do(void **state UNUSED)
{
	static const struct {
		const char *pattern, *path;
		int want;
	} all[] = {
		{ "/a/b/**", "/a/b/.git", 1 },   { "/a/b/**", "/a/bc/.git", 0 },
		{ "**/b/**", "/a/b/c/.git", 1 }, { "**/b/**", "/b/.git", 1 },
		{ "/a/*/.git", "/a/b/.git", 1 }, { "/a/*/.git", "/a/b/c/.git", 0 },
		{ "/a/**/.git", "/a/.git", 1 },  { "/a/?/.git", "/a/b/.git", 1 },
		{ "/a/?.git", "/a/.git", 0 },    { "/a/b/.git", "/a/b/.git", 1 },
		{ "/A/b", "/a/b", 0 },           { "/a/[b]", "/a/b", -ENOTSUP },
		{ "*/*/*/*/*", "a", -ENOTSUP },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		assert_int_equal(git_dir_matches(all[i].pattern, all[i].path, false), all[i].want);
	assert_int_equal(git_dir_matches("/A/B", "/a/b", true), 1);
}

/* Who commits, for that ~/.gitconfig and that configuration of the repository. */
static const char *who(const char *config, const char *own)
{
	static char text[1024];
	char home[256], file[256];
	struct arena *a = arena_new(1 << 20);
	struct git_files f = { .home = home, .config = "/nonexistent", .own = file };
	const char *got[GIT_WHO_COUNT];

	(void)snprintf(home, sizeof(home), "%s", in_top("home"));
	(void)snprintf(file, sizeof(file), "%s", in_top("ws/inc"));
	f.workspace = in_top("ws");
	save("home/.gitconfig", config);
	save("ws/inc", own);
	assert_non_null(a);
	git_identity(a, &f, got);
	(void)snprintf(text, sizeof(text), "%s|%s|%s|%s", got[GIT_AUTHOR_NAME],
		       got[GIT_AUTHOR_EMAIL], got[GIT_COMMITTER_NAME], got[GIT_COMMITTER_EMAIL]);
	(void)arena_free(a);
	return text;
}

static void the_identity_is_what_git_would_find(void **state UNUSED)
{
	static const char home[] = "[user]\nname = Ada\nemail = ada@home\n";

	for (size_t i = 0; i < GIT_WHO_COUNT; i++)
		(void)unsetenv(git_who_names[i]);
	assert_string_equal(who(home, ""), "Ada|ada@home|Ada|ada@home");
	assert_string_equal(who(home, "[user]\nemail = ada@work\n[committer]\nname = Bot\n"),
			    "Ada|ada@work|Bot|ada@work");
	assert_string_equal(who("", ""), "(null)|(null)|(null)|(null)");
	/* What the repository's file includes is the command's to choose. */
	assert_string_equal(who(home, "[include]\npath = x\n"), "(null)|(null)|(null)|(null)");
	assert_string_equal(who(home, "[includeIf \"gitdir:/no/\"]\npath = x\n"),
			    "(null)|(null)|(null)|(null)");
	assert_int_equal(setenv("GIT_COMMITTER_EMAIL", "by@variable", 1), 0);
	assert_string_equal(who(home, ""), "Ada|ada@home|Ada|by@variable");
	(void)unsetenv("GIT_COMMITTER_EMAIL");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name_and_habits_are_shown_and_nothing_that_names_a_program),
		cmocka_unit_test(the_last_value_counts_and_is_quoted),
		cmocka_unit_test(a_broken_file_gives_no_identity),
		cmocka_unit_test(includes_are_followed_where_they_apply),
		cmocka_unit_test(what_cannot_be_decided_leaves_the_identity_out),
		cmocka_unit_test(nothing_of_the_commands_is_read),
		cmocka_unit_test(an_include_that_is_missing_or_of_itself_is_no_harm),
		cmocka_unit_test(patterns_match_as_gits_do),
		cmocka_unit_test(the_identity_is_what_git_would_find),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
