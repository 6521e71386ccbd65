/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_tool_settings.c - tastes enter a kept HOME, logins and whatever names programs do not.
 */
#include "unit.h"

#include "base/text/str.h"
#include "model/known/tool_settings.h"

/* What of that text enters; "" for nothing, NULL for a text that is refused. */
static const char *taken(const char *program, size_t file, const char *text, struct buf *out)
{
	const struct tool_settings *t = tool_settings_find(program);

	buf_done(out);
	if (tool_settings_take(&t->files[file], text, strlen(text), out) < 0)
		return NULL;
	return buf_str(out);
}

static void of_json_only_listed_names_with_plain_values(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);

	assert_string_equal(
		taken("claude", 0,
		      "{\"model\":\"opus\",\"verbose\":true,\"cleanupPeriodDays\":9,"
		      "\"apiKeyHelper\":"
		      "\"/x\",\"hooks\":{\"Stop\":[]},\"env\":{\"A\":\"b\"},\"theme\":{\"a\":1}}",
		      &b),
		"{\"cleanupPeriodDays\":9,\"model\":\"opus\",\"verbose\":true}\n");
	assert_string_equal(
		taken("gemini", 0,
		      "{\"ui\":{\"theme\":\"x\",\"footer\":{}},\"mcpServers\":{\"a\":{}},"
		      "\"model\":{\"name\":\"m\"},\"tools\":{\"sandbox\":\"d\"}}",
		      &b),
		"{\"model\":{\"name\":\"m\"},\"ui\":{\"theme\":\"x\"}}\n");
	assert_string_equal(taken("claude", 0, "{\"hooks\":{}}", &b), "");
	assert_string_equal(taken("claude", 0, "{\"model\":[\"a\"],\"theme\":\"a\\nb\"}", &b), "");
	assert_null(taken("claude", 0, "{\"model\":\"a\",", &b));
	assert_null(taken("claude", 0, "[]", &b));
}

#define AGREED "\"customApiKeyResponses\":{\"approved\":[\"0123456789abcdefghij\"],\"rejected\":[]}"

static void a_key_that_is_a_placeholder_is_agreed_to(void **state UNUSED)
{
	static const char placeholder[] = "brig-000000000000"
					  "0123456789abcdefghij";
	const struct settings_file *f = &tool_settings_find("claude")->files[1];
	static const struct {
		const char *text, *out;
	} rows[] = {
		{ "{\"theme\":\"dark\",\"customApiKeyResponses\":{\"approved\":[\"secret\"]}}",
		  "{\"theme\":\"dark\"," AGREED "}\n" },
		{ "{}", "{" AGREED "}\n" },
		{ "", "{" AGREED "}\n" },
		{ "{\"theme\":", "{" AGREED "}\n" },
	};

	assert_string_equal(f->key, "ANTHROPIC_API_KEY");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(4096);

		assert_int_equal(tool_settings_answer(f, rows[i].text, strlen(rows[i].text),
						      placeholder, &b),
				 0);
		assert_string_equal(buf_str(&b), rows[i].out);
	}
}

static void a_way_of_logging_in_is_answered(void **state UNUSED)
{
	const struct settings_file *f = &tool_settings_find("gemini")->files[0];
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	static const char text[] = "{\"ui\":{\"theme\":\"x\"},\"security\":{\"auth\":{"
				   "\"selectedType\":\"vertex-ai\"}}}";

	assert_int_equal(tool_settings_answer(f, text, strlen(text), f->logins[1], &b), 0);
	assert_string_equal(buf_str(&b), "{\"ui\":{\"theme\":\"x\"},\"security\":{\"auth\":{"
					 "\"selectedType\":\"gemini-api-key\"}}}\n");
}

static void its_folder_is_known_by_its_whole_name(void **state UNUSED)
{
	assert_true(tool_settings_in("claude", ".claude") && tool_settings_in("codex", ".codex"));
	assert_true(tool_settings_in("gemini", ".gemini"));
	assert_false(tool_settings_in("claude", ".codex") || tool_settings_in("claude", ".cla"));
	assert_false(tool_settings_in("claude", ".mcp.json") ||
		     tool_settings_in("aider", ".aider"));
	assert_false(tool_settings_in("nobody", ".claude"));
}

static void a_long_text_is_no_taste(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	char text[400], value[200];

	memset(value, 'x', sizeof(value));
	value[129] = '\0';
	(void)snprintf(text, sizeof(text), "{\"model\":\"%s\"}", value);
	assert_string_equal(taken("claude", 0, text, &b), "");
	value[128] = '\0';
	(void)snprintf(text, sizeof(text), "{\"model\":\"%s\"}", value);
	assert_true(str_starts(taken("claude", 0, text, &b), "{\"model\":\"xxx"));
}

static void of_toml_only_lines_before_the_tables(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);

	assert_string_equal(
		taken("codex", 0,
		      "model = \"gpt-5\" # why\nnotify = [\"x\"]\r\nmodel_verbosity=\"low\"\r\n"
		      "personality = \"a b\"\nhide_agent_reasoning = true\n"
		      "[profiles.x]\nmodel_reasoning_effort = \"high\"\n",
		      &b),
		"model = \"gpt-5\"\nmodel_verbosity = \"low\"\nhide_agent_reasoning = "
		"true\n");
	assert_null(taken("codex", 0, "notify = \"\"\"\nmodel = \"x\"\n\"\"\"\n", &b));
	assert_null(taken("codex", 0, "notify = '''\nmodel = \"x\"\n'''\n", &b));
}

static void of_yaml_only_lines_that_begin_with_the_name(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);

	assert_string_equal(taken("aider", 0,
				  "model: sonnet\ntest-cmd: make\n  model: x\nvim: true\n"
				  "weak-model: !x y\nopenai-api-key: sk-1\n",
				  &b),
			    "model: sonnet\nvim: true\n");
}

/* No list has a name that is known to lead to a program, a login or a server. */
static void no_list_names_programs_or_secrets(void **state UNUSED)
{
	static const char *const words[] = { "hook", "mcp",    "plugin", "command", "helper",
					     "key",  "token",  "url",    "env",     "permission",
					     "cmd",  "notify", "status", "sandbox", "proxy" };

	for (const struct tool_settings *t = tool_settings; t->name; t++)
		for (size_t i = 0; i < 2 && t->files[i].path; i++)
			for (const char *const *n = t->files[i].names; *n; n++)
				for (size_t k = 0; k < ARRAY_LEN(words); k++)
					if (!str_eq(*n, "map-tokens"))
						assert_null(strcasestr(*n, words[k]));
}

static void an_unknown_program_is_refused_by_name(void **state UNUSED)
{
	const struct tool_settings *t = NULL;
	struct err e = { 0 };

	assert_int_equal(tool_settings_get("vim", &t, &e), -EINVAL);
	assert_non_null(strstr(e.what, "'vim'"));
	assert_int_equal(tool_settings_get("codex", &t, &e), 0);
	assert_string_equal(t->name, "codex");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(of_json_only_listed_names_with_plain_values),
	cmocka_unit_test(a_key_that_is_a_placeholder_is_agreed_to),
	cmocka_unit_test(a_way_of_logging_in_is_answered),
	cmocka_unit_test(its_folder_is_known_by_its_whole_name),
	cmocka_unit_test(a_long_text_is_no_taste),
	cmocka_unit_test(of_toml_only_lines_before_the_tables),
	cmocka_unit_test(of_yaml_only_lines_that_begin_with_the_name),
	cmocka_unit_test(no_list_names_programs_or_secrets),
	cmocka_unit_test(an_unknown_program_is_refused_by_name),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
