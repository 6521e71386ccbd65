/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_gitsay.c - what is made of git's words about a configuration, and how long it is asked.
 */
#include "unit.h"

#include "base/text/str.h"
#include "git/git_reader.h"
#include "git/gitsay.h"

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

/* A list as git prints it: '|' ends a record, '=' stands for the line end in it. */
static void list(struct buf *b, const char *text)
{
	for (; *text; text++)
		buf_putc(b, *text == '|' ? '\0' : *text == '=' ? '\n' : *text);
}

static void facts_name_places_and_say_what_is_plain(void **state UNUSED)
{
	CLEANUP(buf) struct buf text = BUF_INIT(4096);
	CLEANUP(buf) struct buf facts = BUF_INIT(4096);

	list(&text,
	     "core.hookspath=h|include.path=../a|includeif.gitdir:x.path=b|core.worktree=../w|");
	assert_true(gitsay_config(&text, &facts));
	assert_true(gitsay_has(&facts, "hooks=h") && gitsay_has(&facts, "include=../a") &&
		    gitsay_has(&facts, "include=b") && gitsay_has(&facts, "worktree=../w") &&
		    !gitsay_has(&facts, "plain"));
}

static enum gitsay_change change(const char *was, const char *is)
{
	CLEANUP(buf) struct buf one = BUF_INIT(4096);
	CLEANUP(buf) struct buf other = BUF_INIT(4096);

	list(&one, was);
	list(&other, is);
	return gitsay_change(&one, &other);
}

static void a_list_differs_by_plain_settings_by_where_they_lead_or_by_others(void **state UNUSED)
{
	static const char was[] =
		"core.bare=false|core.pager=less|remote.up.url=https://a|user.name=a|"
		"branch.m.merge=refs/heads/m|branch.m.remote=up|";
	static const struct {
		const char *is;
		enum gitsay_change want;
	} rows[] = {
		{ was, GITSAY_PLAIN },
		{ "core.bare=false|core.pager=less|remote.up.url=https://a|remote.b.url=https://b|"
		  "remote.b.fetch=+x:y|",
		  GITSAY_PLAIN },
		{ "user.name=me|core.bare=false|core.pager=less|", GITSAY_PLAIN },
		{ "core.bare=false|core.pager=less|user.name=b|branch.m.merge=refs/heads/n|",
		  GITSAY_PLAIN },
		/* More of what is there, or another value. */
		{ "core.bare=false|core.pager=less|remote.up.url=https://a|remote.up.url=https://"
		  "b|",
		  GITSAY_LED },
		{ "core.bare=false|core.pager=less|remote.up.url=https://b|", GITSAY_LED },
		{ "core.bare=false|core.pager=less|branch.m.remote=https://b|", GITSAY_LED },
		{ "core.bare=true|core.pager=less|", GITSAY_LED },
		/* Something else than plain, less of that, not as git prints it. */
		{ "core.bare=false|core.pager=less|core.fsmonitor=x|", GITSAY_HOSTILE },
		{ "core.bare=false|core.pager=more|remote.up.url=https://a|", GITSAY_HOSTILE },
		{ "core.bare=false|core.pager=less|remote.b.url=ext::sh|", GITSAY_HOSTILE },
		{ "core.bare=false|core.pager=less|remote.up.url=ext::sh|", GITSAY_HOSTILE },
		{ "core.bare=false|remote.up.url=https://a|", GITSAY_HOSTILE },
		{ "", GITSAY_HOSTILE },
		{ "core.bare=false|core.pager=less", GITSAY_HOSTILE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(change(was, rows[i].is), rows[i].want);
	/* In another order. */
	assert_int_equal(change("core.pager=a|core.editor=b|", "core.editor=b|core.pager=a|"),
			 GITSAY_HOSTILE);
	assert_int_equal(change("core.pager=a|core.pager=b|", "core.pager=b|core.pager=a|"),
			 GITSAY_HOSTILE);
	assert_int_equal(change("", "user.name|"), GITSAY_HOSTILE);
	assert_int_equal(change("", "user.name=me|"), GITSAY_PLAIN);
}

static void words_are_found_however_they_are_written(void **state UNUSED)
{
	static const char *const named[] = { "[core]\nhooksPath=x", "[CORE]\n\tHOOKSPATH = x",
					     "[inClude]\npath=x", "[includeIf \"gitdir:x\"]path=y",
					     "[a \"b\\\"]\n[core]hookspath\n" };
	struct reader_asker late = { .avoid = top, .until = 1 };
	CLEANUP(buf) struct buf facts = BUF_INIT(4096);

	for (size_t i = 0; i < ARRAY_LEN(named); i++) {
		write_text("config", named[i]);
		assert_int_equal(reader_facts("config", READER_PLACES, &late, &facts),
				 READER_HOSTILE);
		assert_int_equal(late.unasked, i + 1);
	}
}

/* What counts is the time that git computes; a machine that is busy otherwise has its own. */
static void nobody_is_asked_when_the_time_is_spent(void **state UNUSED)
{
	struct reader_asker spent = { .avoid = top,
				      .until = UINT64_MAX,
				      .spent = READER_BUDGET_US };
	CLEANUP(buf) struct buf facts = BUF_INIT(4096);

	write_text("config", "[core]\nhooksPath=x");
	assert_int_equal(reader_facts("config", READER_PLACES, &spent, &facts), READER_HOSTILE);
	assert_int_equal(spent.unasked, 1);
}

static void what_names_no_place_asks_nobody(void **state UNUSED)
{
	static const char *const plain[] = { "", "[core]\n\tbare = false\n",
					     "[user]\nname=hooks path" };
	struct reader_asker late = { .avoid = top, .until = 1 };
	CLEANUP(buf) struct buf facts = BUF_INIT(4096);

	for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
		write_text("config", plain[i]);
		assert_int_equal(reader_facts("config", READER_PLACES, &late, &facts),
				 READER_PLAIN);
	}
	assert_int_equal(reader_facts("missing", READER_PLACES, &late, &facts), READER_PLAIN);
	assert_int_equal(mkfifo("pipe", 0600), 0);
	assert_int_equal(reader_facts("pipe", READER_PLACES, &late, &facts), READER_PLAIN);
	assert_true(late.unasked == 0 && facts.len == 0);
}

static void a_configuration_too_large_to_look_through_is_hostile(void **state UNUSED)
{
	struct reader_asker late = { .avoid = top };
	CLEANUP(buf) struct buf facts = BUF_INIT(4096);
	int fd = open("config", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0 && ftruncate(fd, (off_t)2 << 20) == 0 && close(fd) == 0);
	assert_int_equal(reader_facts("config", READER_PLACES, &late, &facts), READER_HOSTILE);
}

#define HERE(f) cmocka_unit_test_setup_teardown(f, enter, leave)
static const struct CMUnitTest tests[] = {
	cmocka_unit_test(facts_name_places_and_say_what_is_plain),
	cmocka_unit_test(a_list_differs_by_plain_settings_by_where_they_lead_or_by_others),
	HERE(words_are_found_however_they_are_written),
	HERE(nobody_is_asked_when_the_time_is_spent),
	HERE(what_names_no_place_asks_nobody),
	HERE(a_configuration_too_large_to_look_through_is_hostile),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
