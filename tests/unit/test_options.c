/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_options.c - the command line. */
#include "unit.h"

#include "cli/cli.h"

static const struct subcommand plain = { .name = "run", .fields = CMD_RUN };
static const struct subcommand mixed = { .name = "exec", .fields = CMD_EXEC, .permute = true };
static const struct subcommand plan = { .name = "plan", .fields = CMD_PLAN };

#define WORDS_MAX 32

struct line {
	struct spec *spec;
	char *argv[WORDS_MAX + 2];
	int argc, rest, result;
	struct err e;
};

static void parse(struct line *l, const struct subcommand *c, const char *const *words)
{
	*l = (struct line){ .argc = 1, .rest = -1 };
	l->spec = spec_new(&l->e);
	assert_non_null(l->spec);
	l->argv[0] = (char *)(uintptr_t)c->name;
	for (; *words; words++)
		l->argv[l->argc++] = (char *)(uintptr_t)*words;
	l->result = options_parse(c, l->spec, l->argc, l->argv, &l->rest, &l->e);
}

static void done(struct line *l)
{
	(void)spec_free(l->spec);
}
#define PARSE(l, c, ...) parse((l), (c), (const char *const[]){ __VA_ARGS__, NULL })

static void options_come_before_the_command(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--memory", "64m", "--policy=readonly", "ls", "--memory", "1g");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.rest, 4);
	assert_string_equal(l.argv[l.rest], "ls");
	assert_int_equal(l.spec->limits.memory, 64 << 20);
	assert_int_equal(l.spec->policy, POLICY_READONLY);
	assert_int_equal(l.spec->origin[FIELD_MEMORY], ORIGIN_FLAG);
	done(&l);
}

static void two_dashes_end_the_options(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--quiet", "--", "--json", "--");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.rest, 3);
	assert_string_equal(l.argv[l.rest], "--json");
	assert_true(l.spec->cli.quiet && !l.spec->cli.json);
	done(&l);
	PARSE(&l, &plain, "--");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.rest, 2);
	done(&l);
}

static void a_single_dash_is_a_word(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "-", "x");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.rest, 1);
	done(&l);
	PARSE(&l, &mixed, "-", "--json");
	assert_int_equal(l.result, 0);
	assert_string_equal(l.argv[1], "-");
	assert_null(l.argv[2]);
	assert_true(l.spec->cli.json);
	done(&l);
}

static void an_empty_word_is_a_word(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "", "--json");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.rest, 1);
	assert_false(l.spec->cli.json);
	done(&l);
}

static void options_may_follow_where_the_command_allows_it(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &mixed, "--json", "ls -la", "--workdir", "/src", "more", "--pids=9", "--",
	      "--quiet");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.rest, 1);
	assert_string_equal(l.argv[1], "ls -la");
	assert_string_equal(l.argv[2], "more");
	assert_string_equal(l.argv[3], "--quiet");
	assert_null(l.argv[4]);
	assert_true(l.spec->cli.json && !l.spec->cli.quiet);
	assert_string_equal(l.spec->workdir, "/src");
	assert_int_equal(l.spec->limits.pids, 9);
	done(&l);
}

static void nothing_at_all_is_not_an_error_of_the_parser(void **state UNUSED)
{
	const char *const none[] = { NULL };
	struct line l;

	parse(&l, &plain, none);
	assert_int_equal(l.result, 0);
	assert_int_equal(l.rest, 1);
	done(&l);
	parse(&l, &mixed, none);
	assert_int_equal(l.result, 0);
	assert_null(l.argv[1]);
	done(&l);
}

static void values_may_be_empty_look_like_options_or_hold_equal_signs(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--env", "A=b=c", "--env=B=--json", "--workdir", "--json", "--env=C=");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.spec->env.n, 3);
	assert_string_equal(l.spec->env.v[0].value, "b=c");
	assert_string_equal(l.spec->env.v[1].value, "--json");
	assert_string_equal(l.spec->env.v[2].value, "");
	assert_string_equal(l.spec->workdir, "--json");
	assert_false(l.spec->cli.json);
	done(&l);
}

static void switches_take_a_value_only_behind_an_equal_sign(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--json", "false");
	assert_int_equal(l.result, 0);
	assert_true(l.spec->cli.json);
	assert_string_equal(l.argv[l.rest], "false");
	done(&l);
	PARSE(&l, &plain, "--json", "--json=false");
	assert_int_equal(l.result, 0);
	assert_false(l.spec->cli.json);
	done(&l);
	PARSE(&l, &plain, "--json=maybe");
	assert_int_equal(l.result, -EINVAL);
	done(&l);
	PARSE(&l, &plain, "--json=");
	assert_int_equal(l.result, -EINVAL);
	done(&l);
}

static void repeatable_options_add_up(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--read", "/a", "--read=/b", "--mount", "/c:/d", "--mount=/e:/f:rw");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.spec->read.n, 2);
	assert_int_equal(l.spec->mounts.n, 2);
	assert_true(l.spec->mounts.v[1].writable);
	done(&l);
}

static void the_last_of_a_single_option_counts(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--pids", "10", "--pids", "20");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.spec->limits.pids, 20);
	done(&l);
}

static void any_setting_can_be_set_by_its_key(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--set", "limits.tmp=64m", "--set=env.set=A=B", "--set",
	      "read_only_root=false");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.spec->limits.tmp, 64 << 20);
	assert_string_equal(l.spec->env.v[0].value, "B");
	assert_false(l.spec->read_only_root);
	done(&l);
}

static void fails(const struct subcommand *c, const char *word, const char *what, const char *hint)
{
	struct line l;

	print_message("%.60s\n", word);
	PARSE(&l, c, word);
	assert_int_equal(l.result, -EINVAL);
	assert_int_equal(l.e.kind, ERR_USAGE);
	if (what)
		assert_string_equal(l.e.what, what);
	if (hint)
		assert_string_equal(l.e.hint, hint);
	done(&l);
}

static void a_setting_by_key_must_be_a_pair(void **state UNUSED)
{
	char longer[200];

	memset(longer, 'k', sizeof(longer) - 3);
	memcpy(longer, "--set=", 6);
	memcpy(longer + sizeof(longer) - 3, "=1", 3);
	fails(&plain, "--set=limits.tmp", "--set 'limits.tmp' is not KEY=VALUE", NULL);
	fails(&plain, "--set==1", "--set '=1' is not KEY=VALUE", NULL);
	fails(&plain, "--set=", "--set '' is not KEY=VALUE", NULL);
	fails(&plain, "--set", "option '--set' needs a value", NULL);
	fails(&plain, longer, NULL, NULL);
	fails(&plain, "--set=limits.mem=1g", "unknown setting 'limits.mem'", NULL);
}

static void letters_stand_for_words_alone_or_together(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "-it", "-e", "A=b", "-eC=d", "-tw/x", "-v", "/a:/b:rw", "ls", "-t");
	assert_int_equal(l.result, 0);
	assert_string_equal(l.argv[l.rest], "ls");
	assert_true(l.spec->command.tty);
	assert_int_equal(l.spec->env.n, 2);
	assert_int_equal(l.spec->mounts.n, 1);
	assert_string_equal(l.spec->workdir, "/x");
	done(&l);
	fails(&plain, "-x", "unknown option '-x'", NULL);
	fails(&plain, "-tix", "unknown option '-tix'", NULL);
	fails(&plain, "-te", "option '-e' needs a value", NULL);
	fails(&plan, "-i", "unknown option '-i'", NULL);
}

static void a_switch_is_set_off_by_its_opposite(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--tty", "--no-tty", "--no-audit", "ls");
	assert_int_equal(l.result, 0);
	assert_false(l.spec->command.tty);
	assert_true(l.spec->audit.off && spec_wrote(l.spec, FIELD_TTY));
	done(&l);
	fails(&plain, "--no-memory", "unknown option '--no-memory'", NULL);
	fails(&plain, "--no-tty=x", "unknown option '--no-tty'", NULL);
	fails(&plain, "--net", "unknown option '--net'", "did you mean '--network'?");
}

static void no_time_limit_is_a_word(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--timeout", "none", "ls");
	assert_int_equal(l.result, 0);
	assert_int_equal(l.spec->command.timeout, 0);
	done(&l);
	PARSE(&l, &plain, "--memory", "none", "ls");
	assert_int_equal(l.result, -EINVAL);
	done(&l);
}

static void all_of_the_help_is_asked_for_by_name(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--help=all");
	assert_int_equal(l.result, 2);
	done(&l);
}

static void an_unknown_option_names_the_nearest(void **state UNUSED)
{
	fails(&plain, "--memroy", "unknown option '--memroy'", "did you mean '--memory'?");
	fails(&plain, "--polcy=readonly", "unknown option '--polcy'", "did you mean '--policy'?");
	fails(&plain, "--Memory", NULL, "did you mean '--memory'?");
	fails(&plain, "--hlep", NULL, "did you mean '--help'?");
	fails(&plain, "--stet", NULL, "did you mean '--set'?");
	fails(&plain, "--frobnicate-the-thing", NULL, "brig run --help lists them");
	fails(&plain, "--=x", NULL, "brig run --help lists them");
	fails(&plain, "---memory", NULL, NULL);
	fails(&plain, "-m", "unknown option '-m'", "here it is --memory SIZE");
	fails(&plain, "--name", "unknown option '--name'",
	      "here it is an option of brig sandbox create, whose sandbox stays");
	fails(&plain, "-d", "unknown option '-d'",
	      "here it is an option of brig sandbox create, whose sandbox stays");
	fails(&plain, "-k", "unknown option '-k'", "brig run --help lists them");
	fails(&plain, "-khelp", "unknown option '-khelp'", "brig run --help lists them");
	fails(&plain, "-ihelp=all", "unknown option '-ihelp=all'", "brig run --help lists them");
	fails(&plain, "-memory", "unknown option '-memory'", NULL);
	fails(&plain, "-=", "unknown option '-='", NULL);
	fails(&mixed, "--memroy", NULL, "did you mean '--memory'?");
}

static void an_abbreviation_is_not_guessed(void **state UNUSED)
{
	fails(&plain, "--mem", NULL, NULL);
	fails(&plain, "--i-know", NULL, NULL);
}

static void an_option_of_another_command_is_unknown(void **state UNUSED)
{
	fails(&plan, "--tty", "unknown option '--tty'", NULL);
}

static void a_word_of_any_length_is_unknown(void **state UNUSED)
{
	for (size_t n = 50; n < 80; n++) {
		char word[128] = "--";

		memset(word + 2, 'a', n);
		word[2 + n] = '\0';
		fails(&plain, word, NULL, NULL);
	}
	/* The first 63 bytes are a flag's only by chance: all of the word counts. */
	fails(&plain, "--jsonjsonjsonjsonjsonjsonjsonjsonjsonjsonjsonjsonjsonjsonjsonjsonjson",
	      NULL, NULL);
}

static void a_missing_value_is_told(void **state UNUSED)
{
	fails(&plain, "--memory", "option '--memory' needs a value", NULL);
	fails(&mixed, "--env", "option '--env' needs a value", NULL);
	fails(&mixed, "--env=NOBODY_HAS_IT", "env 'NOBODY_HAS_IT': you have no such variable",
	      "write --env NAME=VALUE, or --env-pass NAME, which passes it where you have it");
}

static void help_is_asked_for_in_two_ways(void **state UNUSED)
{
	struct line l;

	PARSE(&l, &plain, "--memory", "1g", "-h");
	assert_int_equal(l.result, 1);
	done(&l);
	PARSE(&l, &plain, "--help", "--garbage");
	assert_int_equal(l.result, 1);
	done(&l);
	PARSE(&l, &plain, "ls", "--help");
	assert_int_equal(l.result, 0);
	done(&l);
	PARSE(&l, &plain, "--", "-h");
	assert_int_equal(l.result, 0);
	done(&l);
}

static void every_flag_of_the_table_is_taken(void **state UNUSED)
{
	for (int i = 0; i < FIELD_COUNT; i++) {
		const struct field *f = &fields[i];
		char word[128];
		struct line l;

		if (!f->flag || !(f->commands & CMD_RUN) || !f->fallback)
			continue;
		(void)snprintf(word, sizeof(word), "--%s=%s", f->flag, f->fallback);
		PARSE(&l, &plain, word);
		assert_int_equal(l.result, 0);
		assert_true(spec_wrote(l.spec, (enum field_id)i));
		done(&l);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(options_come_before_the_command),
	cmocka_unit_test(two_dashes_end_the_options),
	cmocka_unit_test(a_single_dash_is_a_word),
	cmocka_unit_test(an_empty_word_is_a_word),
	cmocka_unit_test(options_may_follow_where_the_command_allows_it),
	cmocka_unit_test(nothing_at_all_is_not_an_error_of_the_parser),
	cmocka_unit_test(values_may_be_empty_look_like_options_or_hold_equal_signs),
	cmocka_unit_test(switches_take_a_value_only_behind_an_equal_sign),
	cmocka_unit_test(repeatable_options_add_up),
	cmocka_unit_test(the_last_of_a_single_option_counts),
	cmocka_unit_test(any_setting_can_be_set_by_its_key),
	cmocka_unit_test(a_setting_by_key_must_be_a_pair),
	cmocka_unit_test(letters_stand_for_words_alone_or_together),
	cmocka_unit_test(a_switch_is_set_off_by_its_opposite),
	cmocka_unit_test(no_time_limit_is_a_word),
	cmocka_unit_test(all_of_the_help_is_asked_for_by_name),
	cmocka_unit_test(an_unknown_option_names_the_nearest),
	cmocka_unit_test(an_abbreviation_is_not_guessed),
	cmocka_unit_test(an_option_of_another_command_is_unknown),
	cmocka_unit_test(a_word_of_any_length_is_unknown),
	cmocka_unit_test(a_missing_value_is_told),
	cmocka_unit_test(help_is_asked_for_in_two_ways),
	cmocka_unit_test(every_flag_of_the_table_is_taken),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
