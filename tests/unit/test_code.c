/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_code.c - code as a request, and an outcome as the text a model reads. */
#include "unit.h"

#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "model/outcome/outcome.h"
#include "model/request/code.h"

static const struct place here = { .cwd = "/src/project", .home = "/home/me" };

static struct spec *python(enum dialect d, const char *file)
{
	struct err e = { 0 };
	struct spec *s = spec_new(&e);

	assert_non_null(s);
	s->dialect_used = d;
	assert_int_equal(code_set(s, CODE_PYTHON, "print(1)\0x", 10, file, &e), 0);
	return s;
}

static void the_code_appears_where_the_dialect_says(void **state UNUSED)
{
	static const struct {
		enum dialect dialect;
		const char *target, *file, *path;
		bool is_file;
	} all[] = {
		{ DIALECT_BRIG, "/workspace", NULL, "/code/_run.py", true },
		{ DIALECT_BRIG, "/workspace", "/src/project/x.py", "/code/_run.py", true },
		{ DIALECT_INITRUNNER, "/work", NULL, "/work/_run.py", true },
		{ DIALECT_RLM, "/workspace", NULL, "/code/_run.py", true },
		{ DIALECT_RLM, "/workspace", "/elsewhere/x.py", "/code/_run.py", true },
		{ DIALECT_RLM, "/workspace", "/src/project/a/x.py", "/workspace/a/x.py", false },
		{ DIALECT_IRONCLAW, "/workspace", NULL, "/code/_run.py", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		CLEANUP(spec) struct spec *s = python(all[i].dialect, all[i].file);
		struct err e = { 0 };

		s->target = all[i].target;
		if (spec_check(s, &here, &e) < 0)
			fail_msg("%s", e.what);
		assert_string_equal(s->command.argv[0], "python3");
		assert_string_equal(s->command.argv[1], all[i].path);
		assert_int_equal(code_is_file(s), all[i].is_file);
		assert_int_equal(s->command.code.size, 10);
		assert_memory_equal(s->command.code.text, "print(1)\0x", 10);
	}
}

static void no_other_place_can_hold_it(void **state UNUSED)
{
	static const char *const bad[] = { "relative",  "/etc/x",         "/code",      "/code/",
					   "/code/a/b", "/workspace/a/b", "/code/../x", "/tmp/x" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CLEANUP(spec) struct spec *s = python(DIALECT_BRIG, NULL);
		struct err e = { 0 };

		assert_int_equal(spec_set_key(s, "code.path", bad[i], ORIGIN_FLAG, &e), 0);
		if (spec_check(s, &here, &e) == 0)
			fail_msg("'%s' was taken", bad[i]);
	}
}

static void parameters_become_upper_case_variables(void **state UNUSED)
{
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = spec_new(&e);

	assert_int_equal(code_set(s, CODE_SCRIPT, "true", 4, NULL, &e), 0);
	assert_int_equal(spec_set(s, FIELD_PARAM, "file_name=a=b", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_check(s, &here, &e), 0);
	assert_int_equal(spec_check(s, &here, &e), 0); /* twice is no different */
	assert_int_equal(s->env.n, 1);
	assert_string_equal(s->env.v[0].name, "FILE_NAME");
	assert_string_equal(s->env.v[0].value, "a=b");
	assert_string_equal(s->command.argv[0], "/bin/sh");
	assert_null(s->command.argv[1]);
}

static void code_too_long_is_refused(void **state UNUSED)
{
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = spec_new(&e);

	assert_int_equal(code_set(s, CODE_PYTHON, "", CODE_MAX + 1, NULL, &e), -E2BIG);
}

static void text_is(struct outcome *o, size_t max, const char *want)
{
	char *text = outcome_text(o, max);

	assert_string_equal(text, want);
	free(text);
}

static void a_result_reads_as_initrunner_documents(void **state UNUSED)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();

	o->kind = OUTCOME_EXITED;
	o->out.data.max = o->err.data.max = 1000;
	text_is(o, 0, "(no output)");
	buf_puts(&o->out.data, "a\n");
	text_is(o, 0, "STDOUT:\na\n");
	o->exit_code = 3;
	buf_puts(&o->err.data, "\xc3\xa9\n");
	text_is(o, 0, "Exit code: 3\nSTDOUT:\na\n\nSTDERR:\n\xc3\xa9\n");
	text_is(o, 12, "Exit code: 3\n[truncated]");
	text_is(o, 33, "Exit code: 3\nSTDOUT:\na\n\nSTDERR:\n\xc3\xa9\n[truncated]");
	text_is(o, 34, "Exit code: 3\nSTDOUT:\na\n\nSTDERR:\n\xc3\xa9\n");
	o->kind = OUTCOME_TIMEOUT;
	o->duration_us = 30001000;
	o->out.data.len = o->err.data.len = 0;
	text_is(o, 0, "Command timed out after 30 seconds");
}

static void rlm_code_has_its_own_words_for_what_did_not_end(void **state UNUSED)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();

	o->kind = OUTCOME_TIMEOUT;
	o->dialect = DIALECT_RLM;
	o->timeout_ms = 30000;
	o->duration_us = 31001000;
	text_is(o, 0, "Execution timeout after 30 seconds");
	o->kind = OUTCOME_REFUSED;
	(void)err_set(&o->error, ERR_UNAVAILABLE, ENOENT, "no engine");
	text_is(o, 0, "Execution error: no engine");
	o->dialect = DIALECT_INITRUNNER;
	text_is(o, 0, "Error: no engine");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_code_appears_where_the_dialect_says),
		cmocka_unit_test(no_other_place_can_hold_it),
		cmocka_unit_test(parameters_become_upper_case_variables),
		cmocka_unit_test(code_too_long_is_refused),
		cmocka_unit_test(a_result_reads_as_initrunner_documents),
		cmocka_unit_test(rlm_code_has_its_own_words_for_what_did_not_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
