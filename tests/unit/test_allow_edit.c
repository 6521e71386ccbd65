/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/files/allow_edit.h"

static void edits_to(const char *before, const char *rule, const char *after)
{
	CLEANUP(buf) struct buf out = BUF_INIT(1 << 16);
	struct allow_edit x;
	struct err e = { 0 };

	assert_int_equal(allow_edit("f", before, strlen(before), rule, &out, &x, &e), 0);
	assert_string_equal(buf_str(&out), after);
}

static void refuses(const char *before, const char *rule)
{
	CLEANUP(buf) struct buf out = BUF_INIT(1 << 16);
	struct allow_edit x;
	struct err e = { 0 };

	assert_int_not_equal(allow_edit("f", before, strlen(before), rule, &out, &x, &e), 0);
	assert_true(e.what[0]);
}

static void a_rule_comes_behind_the_last(void **state)
{
	(void)state;
	edits_to("", "a.example.org", "egress:\n  allow:\n    - \"a.example.org\"\n");
	edits_to("# mine\nnetwork: none", "a.example.org",
		 "# mine\nnetwork: none\negress:\n  allow:\n    - \"a.example.org\"\n");
	edits_to("egress:\n    https_only: true\n", "a.example.org",
		 "egress:\n    allow:\n      - \"a.example.org\"\n    https_only: true\n");
	edits_to("egress:\n  allow:\n  - b.example.org # why\n\n  https_only: true\n",
		 "a.example.org:8443",
		 "egress:\n  allow:\n  - b.example.org # why\n  - \"a.example.org:8443\"\n\n"
		 "  https_only: true\n");
	edits_to("egress:\n  allow:\n    - '@pypi'", "*.example.org",
		 "egress:\n  allow:\n    - '@pypi'\n    - \"*.example.org\"\n");
	edits_to("egress:\n  allow: [a.example.org]\n", "a.example.org",
		 "egress:\n  allow: [a.example.org]\n");
}

static void what_is_written_otherwise_is_left_to_people(void **state)
{
	(void)state;
	refuses("egress: {https_only: true}\n", "a.example.org");
	refuses("{network: none}\n", "a.example.org");
	refuses("egress:\n  allow: [b.example.org]\n", "a.example.org");
	refuses("egress:\n  allow: []\n", "a.example.org");
	refuses("egress:\n", "a.example.org");
	refuses("- a\n", "a.example.org");
	refuses("a: b: c\n", "a.example.org");
	/* A last item of several lines would get the new one in its middle. */
	refuses("egress:\n  allow:\n    - \"b.example\\\n      .org\"\n", "a.example.org");
}

static void what_is_no_rule_is_refused(void **state)
{
	static const char *const bad[] = { "",
					   "*",
					   "*.co.uk",
					   "localhost",
					   "a b c",
					   "a\"b",
					   "a\nb",
					   "\xe2\x80\xae"
					   "a.org",
					   "npm",
					   NULL };

	(void)state;
	for (size_t i = 0; bad[i]; i++)
		refuses("", bad[i]);
}

static void the_difference_is_as_diff_has_it(void **state)
{
	static const char before[] =
		"a: 1\nb: 2\nc: 3\negress:\n  allow:\n    - b.example.org\nd: 4\n";
	CLEANUP(buf) struct buf out = BUF_INIT(1 << 16), diff = BUF_INIT(1 << 16);
	struct allow_edit x;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(allow_edit("f", before, sizeof(before) - 1, "a.example.org", &out, &x, &e),
			 0);
	assert_int_equal(allow_edit_diff("f", out.data, out.len, &x, &diff, &e), 0);
	assert_string_equal(buf_str(&diff),
			    "--- f\n+++ f\n@@ -4,4 +4,5 @@\n egress:\n   allow:\n"
			    "     - b.example.org\n+    - \"a.example.org\"\n d: 4\n");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_rule_comes_behind_the_last),
	cmocka_unit_test(what_is_written_otherwise_is_left_to_people),
	cmocka_unit_test(what_is_no_rule_is_refused),
	cmocka_unit_test(the_difference_is_as_diff_has_it),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
