/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "egress/rules/allow.h"
#include "egress/rules/questions.h"
#include "sandbox/prompt.h"

#define S ((uint64_t)1000 * 1000)

static struct questions q;
static uint32_t id;

static int fresh(void **state UNUSED)
{
	memset(&q, 0, sizeof(q));
	id = 0;
	return 0;
}

static enum question_found look(const char *name, uint16_t port, uint64_t now, bool asks)
{
	struct host h;

	assert_int_equal(host_parse(egress_text(name, strlen(name)), &h), HOST_OK);
	return questions_look(&q, &h, port, now, asks, &id);
}

static bool answer(uint32_t which, enum question_answer a, uint64_t now)
{
	struct question_entry x;

	return questions_answer(&q, which, a, now, &x);
}

static void one_question_a_name_and_port(void **state UNUSED)
{
	assert_int_equal(look("a.example", 443, 0, false), QUESTION_NONE);
	assert_int_equal(look("a.example", 443, 0, true), QUESTION_NEW);
	assert_int_equal(id, 1);
	assert_int_equal(look("A.Example", 443, 1, true), QUESTION_WAITS);
	assert_int_equal(id, 1);
	assert_int_equal(look("a.example", 8443, 1, true), QUESTION_NEW);
	assert_int_equal(id, 2);
}

static void answers_hold_as_long_as_they_say(void **state UNUSED)
{
	assert_int_equal(look("run.example", 443, 0, true), QUESTION_NEW);
	assert_true(answer(id, ANSWER_RUN, 1));
	assert_false(answer(id, ANSWER_NO, 2)); /* it is closed */
	assert_int_equal(look("run.example", 443, 9999 * S, true), QUESTION_YES);
	assert_int_equal(look("once.example", 443, 2, true), QUESTION_NEW);
	assert_true(answer(id, ANSWER_ONCE, 3));
	assert_int_equal(look("once.example", 443, 4, false), QUESTION_NONE);
	assert_int_equal(look("no.example", 443, 5, true), QUESTION_NEW);
	assert_true(answer(id, ANSWER_NO, 6));
	assert_int_equal(look("no.example", 443, 9999 * S, true), QUESTION_NO);
	assert_false(answer(0, ANSWER_RUN, 7));
	assert_false(answer(77, ANSWER_RUN, 7));
}

static void nobody_s_answer_is_no_and_rests(void **state UNUSED)
{
	const uint64_t late = QUESTION_HOLD_US;

	assert_int_equal(look("a.example", 443, 0, true), QUESTION_NEW);
	assert_int_equal(questions_late(&q, late - 1), 0);
	assert_int_equal(questions_late(&q, late), 1);
	assert_int_equal(questions_late(&q, late), 0);
	assert_false(answer(1, ANSWER_RUN, late + 1)); /* too late */
	assert_int_equal(look("a.example", 443, late + 1, true), QUESTION_LATE);
	assert_int_equal(look("a.example", 443, late + QUESTION_REST_US, true), QUESTION_NEW);
	/* Also where nobody looked meanwhile. */
	assert_int_equal(look("a.example", 443, 2 * late + QUESTION_REST_US, true), QUESTION_LATE);
}

static void floods_end(void **state UNUSED)
{
	char name[32];
	uint64_t now = 0;

	for (int i = 0; i < QUESTIONS_OPEN; i++) {
		(void)snprintf(name, sizeof(name), "n%d.example", i);
		assert_int_equal(look(name, 443, now, true), QUESTION_NEW);
	}
	assert_int_equal(look("more.example", 443, now, true), QUESTION_FLOOD);
	for (uint32_t i = 1; i <= QUESTIONS_OPEN; i++)
		assert_true(answer(i, ANSWER_NO, now));
	/* A handful without a yes: none for a while. */
	assert_int_equal(look("more.example", 443, now, true), QUESTION_FLOOD);
	now += QUESTION_REST_US;
	for (int i = QUESTIONS_OPEN; i < QUESTIONS_MAX; i++) {
		assert_int_equal(look("often.example", 443, now, true), QUESTION_NEW);
		assert_true(answer(id, ANSWER_ONCE, now));
	}
	assert_int_equal(look("often.example", 443, now, true), QUESTION_FLOOD);
}

/* ---- what may be asked ---- */

static struct egress_verdict decide(const struct egress_rules *r, const char *host, uint16_t port,
				    const char *granted)
{
	struct egress_verdict v;

	(void)egress_decide(r,
			    &(struct egress_request){ .via = EGRESS_VIA_TUNNEL,
						      .host = egress_text(host, strlen(host)),
						      .port = port,
						      .granted = granted },
			    &v);
	return v;
}

static void an_answer_stands_in_for_a_rule_and_nothing_else(void **state UNUSED)
{
	static const char *const never[] = {
		"192.0.2.1",   "0x7f.1",     "localhost",    "a.local",           "intranet",
		"db.internal", "nas.lan",    "x.home.arpa",  "no.example.org",    "a_b.example",
		"[::1]",       "2130706433", "x.denied.org", "host.brig.internal"
	};
	struct err e;
	struct spec *s = spec_new(&e);
	struct egress_rules *r = NULL;
	struct egress_verdict v;

	assert_non_null(s);
	assert_int_equal(spec_set(s, FIELD_EGRESS_ALLOW, "yes.example.org", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set(s, FIELD_EGRESS_ALLOW, "GET narrow.example.org", ORIGIN_FLAG, &e),
			 0);
	assert_int_equal(spec_set(s, FIELD_EGRESS_DENY, "*.denied.org", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set(s, FIELD_EGRESS_DENY, "no.example.org", ORIGIN_FLAG, &e), 0);
	assert_int_equal(egress_rules_new(&s->egress, &r, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(never); i++) {
		v = decide(r, never[i], 443, "somebody");
		assert_int_not_equal(v.reason, EGRESS_OK);
		assert_false(v.askable);
	}
	v = decide(r, "new.example.org", 443, NULL);
	assert_true(v.reason == EGRESS_NOT_ALLOWED && v.askable);
	v = decide(r, "new.example.org", 443, "somebody");
	assert_int_equal(v.reason, EGRESS_OK);
	assert_string_equal(v.rule, "somebody");
	assert_true(decide(r, "yes.example.org", 8443, NULL).askable);
	assert_string_equal(decide(r, "yes.example.org", 443, "somebody").rule, "yes.example.org");
	(void)egress_rules_free(r);
	(void)spec_free(s);
}

/* ---- the terminal ---- */

static enum prompt_word type(struct prompt *p, const char *text, uint64_t now)
{
	CLEANUP(buf) struct buf echo = BUF_INIT(4096);

	return prompt_type(p, text, strlen(text), now, &echo);
}

static void an_answer_is_a_whole_word_and_enter(void **state UNUSED)
{
	static const struct {
		const char *text;
		enum prompt_word word;
	} rows[] = { { "once\r", PROMPT_ONCE },
		     { "run\n", PROMPT_RUN },
		     { "always\r", PROMPT_ALWAYS },
		     { "no\r", PROMPT_NO },
		     { "n\r", PROMPT_NO },
		     { "y\r", PROMPT_NONE },
		     { "\r", PROMPT_NONE },
		     { "onc\r", PROMPT_NONE },
		     { "rux\bn\r", PROMPT_RUN },
		     { "please run\r", PROMPT_NONE },
		     { "xx\025run\r", PROMPT_RUN },
		     { "runrunrunrunrun\r", PROMPT_NONE },
		     { "RUN\r", PROMPT_RUN }, /* Caps Lock */
		     { "Once\r", PROMPT_ONCE },
		     { " no \r", PROMPT_NO },
		     { "r u n\r", PROMPT_NONE },
		     { "1run\r", PROMPT_NONE },
		     { "n0\r", PROMPT_NONE },
		     { "\003", PROMPT_NO },
		     { "run", PROMPT_NONE },
		     { "\033[M !run\r", PROMPT_NONE },
		     { "r\033]l\033\\un\r", PROMPT_NONE } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct prompt p;

		prompt_begin(&p, false, 0);
		assert_int_equal(type(&p, rows[i].text, PROMPT_QUIET_US), rows[i].word);
	}
}

static void what_was_typed_before_does_not_count(void **state UNUSED)
{
	const uint64_t quiet = PROMPT_QUIET_US;
	CLEANUP(buf) struct buf echo = BUF_INIT(4096);
	struct prompt p;

	prompt_begin(&p, false, 0);
	assert_int_equal(type(&p, "ru", quiet - 1), PROMPT_NONE);
	assert_int_equal(type(&p, "n\r", quiet + 1), PROMPT_NONE); /* the time began anew */
	assert_int_equal(type(&p, "run\r", 3 * quiet), PROMPT_RUN);
	/* Whoever typed it is told, once. */
	prompt_begin(&p, false, 0);
	(void)prompt_type(&p, "ru", 2, 1, &echo);
	(void)prompt_type(&p, "n\r", 2, 2, &echo);
	assert_non_null(strstr(buf_str(&echo), "type it again"));
	assert_null(strstr(strstr(buf_str(&echo), "type it again") + 1, "type it again"));
	echo.len = 0;
	prompt_begin(&p, false, 0);
	(void)prompt_type(&p, "\033[Mxyz", 6, quiet, &echo); /* but not a mouse */
	assert_int_equal(echo.len, 0);
	prompt_begin(&p, false, 0);
	assert_int_equal(type(&p, "\033", quiet), PROMPT_NONE);
	assert_int_equal(type(&p, "run\r", quiet + 1), PROMPT_NONE);
	prompt_begin(&p, true, 0);
	assert_int_equal(type(&p, "run\r", quiet), PROMPT_NO);
	prompt_begin(&p, true, 0);
	assert_int_equal(type(&p, "yes\r", quiet), PROMPT_YES);
}

static void a_name_is_shown_with_whom_it_belongs_to(void **state UNUSED)
{
	static const struct {
		const char *host, *has, *lacks;
	} rows[] = { { "pypi.org", "    pypi.org  port 443\r\n", "belongs" },
		     { "pypi.org.evil.example.co.uk", "belongs to  example.co.uk\r\n", "xn--" },
		     { "a.xn--pyp-tma.org", "may look like another name", "follow" },
		     { "me.github.io", "    me.github.io  port", "belongs" } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(4096);

		prompt_text(rows[i].host, 443, 0, &b);
		assert_non_null(strstr(buf_str(&b), rows[i].has));
		assert_null(strstr(buf_str(&b), rows[i].lacks));
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(one_question_a_name_and_port, fresh),
	cmocka_unit_test_setup(answers_hold_as_long_as_they_say, fresh),
	cmocka_unit_test_setup(nobody_s_answer_is_no_and_rests, fresh),
	cmocka_unit_test_setup(floods_end, fresh),
	cmocka_unit_test(an_answer_stands_in_for_a_rule_and_nothing_else),
	cmocka_unit_test(an_answer_is_a_whole_word_and_enter),
	cmocka_unit_test(what_was_typed_before_does_not_count),
	cmocka_unit_test(a_name_is_shown_with_whom_it_belongs_to),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
