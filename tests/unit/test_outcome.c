/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_outcome.c - the exit status and the JSON of a run, and the schema of the settings. */
#include "unit.h"

#include "jsoncheck.h"
#include "model/files/schema.h"
#include "model/outcome/outcome.h"
#include "model/settings/fields.h"

static void every_ending_has_the_status_of_the_contract(void **state UNUSED)
{
	static const struct {
		enum outcome_kind kind;
		int exit_code, signal;
		enum err_kind error;
		int status;
	} all[] = {
		{ .kind = OUTCOME_EXITED, .exit_code = 0, .status = 0 },
		{ .kind = OUTCOME_EXITED, .exit_code = 1, .status = 1 },
		{ .kind = OUTCOME_EXITED, .exit_code = 255, .status = 255 },
		{ .kind = OUTCOME_EXITED, .exit_code = 124, .status = 124 },
		{ .kind = OUTCOME_SIGNALLED, .signal = SIGKILL, .status = 137 },
		{ .kind = OUTCOME_SIGNALLED, .signal = SIGSEGV, .status = 139 },
		{ .kind = OUTCOME_SIGNALLED, .signal = 64, .status = 192 },
		{ .kind = OUTCOME_TIMEOUT, .signal = SIGKILL, .status = 124 },
		{ .kind = OUTCOME_OOM, .signal = SIGKILL, .status = 137 },
		{ .kind = OUTCOME_LIMIT, .status = 137 },
		{ .kind = OUTCOME_CANCELLED, .status = 130 },
		{ .kind = OUTCOME_CANCELLED, .signal = SIGTERM, .status = 143 },
		{ .kind = OUTCOME_REFUSED, .error = ERR_POLICY, .status = 125 },
		{ .kind = OUTCOME_REFUSED, .error = ERR_USAGE, .status = 125 },
		{ .kind = OUTCOME_FAILED, .error = ERR_INTERNAL, .status = 125 },
		{ .kind = OUTCOME_FAILED, .error = ERR_UNAVAILABLE, .status = 125 },
		{ .kind = OUTCOME_FAILED, .error = ERR_PERMISSION, .status = 125 },
		{ .kind = OUTCOME_FAILED, .error = ERR_NOT_FOUND, .status = 127 },
		{ .kind = OUTCOME_FAILED, .error = ERR_NOT_EXECUTABLE, .status = 126 },
		{ .kind = OUTCOME_FAILED, .exit_code = 7, .status = 125 },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		CLEANUP(outcome) struct outcome *o = outcome_new();

		o->kind = all[i].kind;
		o->exit_code = all[i].exit_code;
		o->signal = all[i].signal;
		o->error.kind = all[i].error;
		assert_int_equal(outcome_status(o), all[i].status);
	}
}

static void a_run_nobody_knows_about_has_failed(void **state UNUSED)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();

	assert_int_equal(o->kind, OUTCOME_FAILED);
	assert_int_equal(outcome_status(o), 125);
	assert_null(outcome_free(NULL));
}

static void write_json(const struct outcome *o, struct buf *b, bool pretty)
{
	struct json j;

	json_init(&j, b, pretty);
	outcome_json(o, &j);
	assert_false(b->failed);
	if (!json_is_valid(b->data, b->len))
		fail_msg("not JSON: %s", b->data);
}

static void expect(const struct buf *b, const char *part)
{
	if (!strstr(buf_str(b), part))
		fail_msg("no %s in %s", part, buf_str(b));
}

static void the_json_has_every_key_even_of_an_empty_run(void **state UNUSED)
{
	static const char *const keys[] = {
		"schema",
		"id",
		"outcome",
		"exit_code",
		"signal",
		"stdout",
		"stderr",
		"stdout_bytes",
		"stderr_bytes",
		"stdout_truncated",
		"stderr_truncated",
		"duration_ms",
		"setup_ms",
		"backend",
		"isolation",
		"user_ns",
		"pid_ns",
		"net_ns",
		"mount_ns",
		"seccomp",
		"landlock_abi",
		"cgroup",
		"uid_inside",
		"limits",
		"output",
		"limits_hit",
		"denials",
		"egress",
		"requests",
		"allowed",
		"denied",
		"bytes_out",
		"bytes_in",
		"uninspected",
		"error",
	};
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);

	write_json(o, &b, false);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		char part[64];

		(void)snprintf(part, sizeof(part), "\"%s\":", keys[i]);
		expect(&b, part);
	}
	expect(&b, "\"error\":null");
	expect(&b, "\"signal\":null");
}

static void the_json_says_how_it_went(void **state UNUSED)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);

	(void)snprintf(o->id, sizeof(o->id), "%s", "0123456789abcdef0123456789abcdef");
	o->kind = OUTCOME_OOM;
	o->signal = SIGKILL;
	o->duration_us = 1500;
	o->setup_us = 2000;
	o->backend = "native";
	outcome_contain(o, &(struct isolation){ .seccomp = "strict",
						.limits = { [LIMIT_MEMORY] = ENFORCER_CGROUP } });
	outcome_hit(o, LIMIT_MEMORY);
	outcome_hit(o, LIMIT_MEMORY);
	outcome_hit(o, LIMIT_TIMEOUT);
	outcome_deny(o, "protected-path", ".git/\"hooks\"", "made\nduring the run");
	(void)err_set(&o->error, ERR_POLICY, EPERM, "no '%s'", "\xff");
	write_json(o, &b, false);
	expect(&b, "\"outcome\":\"oom\",\"exit_code\":137,\"signal\":9,");
	expect(&b, "\"duration_ms\":1.5,\"setup_ms\":2,");
	expect(&b, "\"seccomp\":\"strict\"");
	expect(&b, "\"memory\":\"cgroup\"");
	expect(&b, "\"limits_hit\":[\"memory\",\"timeout\"]");
	expect(&b, "\"target\":\".git/\\\"hooks\\\"\",\"reason\":\"made\\nduring the run\"");
	expect(&b, "\"error\":{\"code\":\"policy\",\"what\":\"no '\xef\xbf\xbd'\",\"hint\":null}");
}

static void output_with_every_byte_is_valid_json(void **state UNUSED)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);

	o->out.data.max = 1000;
	for (int c = 0; c < 256; c++)
		buf_putc(&o->out.data, (char)c);
	o->out.bytes = UINT64_MAX;
	o->out.truncated = true;
	write_json(o, &b, true);
	expect(&b, "\"stdout_bytes\": 18446744073709551615");
	expect(&b, "\"stdout_truncated\": true");
}

static size_t listed(const struct outcome *o, enum denial_class class)
{
	size_t n = 0;

	for (size_t i = 0; i < o->denial_count; i++)
		n += o->denials[i].class == class;
	return n;
}

static void the_same_denial_again_is_counted(void **state UNUSED)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);

	for (int i = 0; i < 10000; i++)
		outcome_deny(o, "kind", "target", "reason");
	assert_int_equal(o->denial_count, 1);
	assert_int_equal(o->denials[0].count, 10000);
	assert_int_equal(outcome_denied(o), 10000);
	write_json(o, &b, false);
	expect(&b, "\"reason\":\"reason\",\"count\":10000}]");
	expect(&b, "\"denials_dropped\":{}");
}

/* What a command can make up without end must not push out what it wants to hide. */
static void no_kind_of_denial_crowds_out_another(void **state UNUSED)
{
	static const char *const floods[] = { "network", "process", "made-up", "protected-path" };

	for (size_t f = 0; f < ARRAY_LEN(floods); f++) {
		CLEANUP(outcome) struct outcome *o = outcome_new();
		char text[8000], kind[32];

		memset(text, 'x', sizeof(text) - 1);
		text[sizeof(text) - 1] = '\0';
		for (unsigned i = 0; i < 20000; i++) {
			(void)snprintf(text, 24, "d%u/name%u", i, i);
			text[strlen(text)] = 'x';
			(void)snprintf(kind, sizeof(kind), "%s%u", floods[f],
				       f == 2 ? i : 0); /* a new kind each time, too */
			outcome_deny(o, f == 2 ? kind : floods[f], text, text);
		}
		assert_int_equal(outcome_denied(o), 20000);
		outcome_deny(o, "network", "last.test:443", "not-allowed: no");
		outcome_deny_as(o, DENIAL_LEAK, "network", "last.test:443", "leak: a token");
		outcome_deny(o, "protected-path", ".git/hooks/post-checkout",
			     "made during the run");
		outcome_deny(o, "process", "host", "may still be there");
		assert_int_equal(outcome_denied(o), 20004);
		assert_int_equal(listed(o, DENIAL_LEAK), 1);
		assert_true(listed(o, DENIAL_NETWORK) >= 1 && listed(o, DENIAL_PATH) >= 1 &&
			    listed(o, DENIAL_OTHER) >= 1);
		assert_true(f == 0 || o->denials_dropped[DENIAL_NETWORK] == 0);
		assert_true(f == 3 || (listed(o, DENIAL_PATH) == 1 && !listed(o, DENIAL_FOLDER)));
	}
}

static void one_target_does_not_use_up_the_list(void **state UNUSED)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	char reason[64];

	for (int i = 0; i < 5000; i++) {
		(void)snprintf(reason, sizeof(reason), "method: M%d is not allowed", i);
		outcome_deny(o, "network", "api.test:443", reason);
	}
	outcome_deny(o, "network", "evil.test:443", "not-allowed: no");
	assert_int_equal(listed(o, DENIAL_NETWORK), 5);
	assert_int_equal(o->denials_dropped[DENIAL_NETWORK], 4996);
	assert_string_equal(o->denials[4].target, "evil.test:443");
}

static void names_past_a_thousand_are_counted_by_folder(void **state UNUSED)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	char path[64];

	for (int i = 0; i < 1500; i++) {
		(void)snprintf(path, sizeof(path), ".git/hooks/h%d", i);
		outcome_deny(o, "protected-path", path, "made during the run");
	}
	outcome_deny(o, "protected-path", ".envrc", "made during the run");
	assert_int_equal(listed(o, DENIAL_PATH), 1000);
	assert_int_equal(listed(o, DENIAL_FOLDER), 2);
	write_json(o, &b, false);
	expect(&b, "\"target\":\".git/hooks/\",\"reason\":\"further names in this folder\","
		   "\"count\":500");
	expect(&b, "\"target\":\"./\",\"reason\":\"further names in this folder\"}");
	for (int i = 0; i < 1000; i++) {
		(void)snprintf(path, sizeof(path), "d%d/.envrc", i);
		outcome_deny(o, "protected-path", path, "made during the run");
	}
	assert_int_equal(listed(o, DENIAL_FOLDER), 256);
	assert_int_equal(o->denials_dropped[DENIAL_FOLDER], 746);
	b.len = 0;
	write_json(o, &b, false);
	expect(&b, "\"denials_dropped\":{\"protected-path\":746}");
}

static void every_name_is_different(void **state UNUSED)
{
	for (int a = 0; a < OUTCOME_KINDS; a++)
		for (int b = 0; b < a; b++)
			assert_string_not_equal(outcome_name((enum outcome_kind)a),
						outcome_name((enum outcome_kind)b));
	for (int a = 0; a < LIMIT_COUNT; a++)
		for (int b = 0; b < a; b++)
			assert_string_not_equal(limit_name((enum limit)a),
						limit_name((enum limit)b));
	for (int a = 0; a < ENFORCER_COUNT; a++)
		for (int b = 0; b < a; b++)
			assert_string_not_equal(enforcer_name((enum enforcer)a),
						enforcer_name((enum enforcer)b));
}

static void the_schema_is_json_and_mentions_every_setting(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	struct json j;

	json_init(&j, &b, true);
	schema_json(&j, "#");
	assert_false(b.failed);
	assert_true(json_is_valid(b.data, b.len));
	for (int i = 0; i < FIELD_COUNT; i++) {
		const char *key = fields[i].key, *dot = key ? strrchr(key, '.') : NULL;
		char part[64];

		if (!key)
			continue;
		(void)snprintf(part, sizeof(part), "\"%s\": {", dot ? dot + 1 : key);
		expect(&b, part);
		for (unsigned w = 0; fields[i].words && fields[i].words[w] &&
				     (!fields[i].offered || w < fields[i].offered);
		     w++) {
			(void)snprintf(part, sizeof(part), "\"%s\"", fields[i].words[w]);
			expect(&b, part);
		}
	}
}

static void the_schema_opens_each_group_once(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	struct json j;

	json_init(&j, &b, true);
	schema_json(&j, "#");
	for (int i = 0; i < FIELD_COUNT; i++) {
		const char *key = fields[i].key, *dot = key ? strchr(key, '.') : NULL;
		const char *first;
		char part[64];

		if (!dot)
			continue;
		(void)snprintf(part, sizeof(part), "\n    \"%.*s\": {", (int)(dot - key), key);
		first = strstr(buf_str(&b), part);
		assert_non_null(first);
		assert_null(strstr(first + 1, part));
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_ending_has_the_status_of_the_contract),
	cmocka_unit_test(a_run_nobody_knows_about_has_failed),
	cmocka_unit_test(the_json_has_every_key_even_of_an_empty_run),
	cmocka_unit_test(the_json_says_how_it_went),
	cmocka_unit_test(output_with_every_byte_is_valid_json),
	cmocka_unit_test(the_same_denial_again_is_counted),
	cmocka_unit_test(no_kind_of_denial_crowds_out_another),
	cmocka_unit_test(one_target_does_not_use_up_the_list),
	cmocka_unit_test(names_past_a_thousand_are_counted_by_folder),
	cmocka_unit_test(every_name_is_different),
	cmocka_unit_test(the_schema_is_json_and_mentions_every_setting),
	cmocka_unit_test(the_schema_opens_each_group_once),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
