/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <jansson.h>

#include "audit/events.h"
#include "audit/read/export.h"
#include "audit/read/filter.h"
#include "audit/read/runs.h"
#include "audit/read/story.h"
#include "base/text/str.h"

#define RUN "0123456789abcdef0123456789abcdef"
#define LINE(seq, type, own)                                                                       \
	"{\"seq\":" #seq ",\"time\":\"2026-01-02T03:04:0" #seq ".000000Z\",\"type\":\"" type       \
	"\",\"run\":\"" RUN "\",\"policy\":\"00000000000000ff\",\"principal\":\"uid:1000\"," own   \
	",\"prev\":\"00\",\"mac\":\"aa\"}"

static const char *const lines[] = {
	LINE(1, "sandbox.create",
	     "\"backend\":\"native\",\"argv0\":\"=cmd|' /C calc'!A0\",\"access\":\"read_only\","
	     "\"memory\":268435456,\"timeout_ms\":60000"),
	LINE(2, "egress.allow",
	     "\"host\":\"api.example.org\",\"port\":443,\"method\":\"POST\",\"path\":\"/v1\""),
	LINE(3, "egress.deny",
	     "\"host\":\"evil\\u001b[2J.example.net\",\"port\":443,\"reason\":\"a,\\\"b\\\"\""),
	LINE(4, "limit.hit", "\"limit\":\"memory\",\"value\":268435456,\"enforcer\":\"cgroup\""),
	LINE(5, "log.summary", "\"of\":\"egress.deny\",\"count\":7,\"host\":\"b.example.net\""),
	LINE(6, "sandbox.exec",
	     "\"backend\":\"native\",\"argv0\":\"sh\",\"rc\":-1,\"duration_ms\":12.5,"
	     "\"outcome\":\"oom\",\"layers\":\"seccomp landlock\""),
};

static void entry_of(const char *line, struct entry *en)
{
	assert_int_equal(entry_read(line, strlen(line), en), 0);
}

static void write_all(enum format f, struct buf *out)
{
	struct exporter x;
	struct entry en;

	export_begin(&x, f, out);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		entry_of(lines[i], &en);
		export_entry(&x, &en);
	}
	export_end(&x);
	assert_false(out->failed);
}

static json_t *parsed(const struct buf *b)
{
	json_t *j = json_loadb(b->data, b->len, JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(j);
	return j;
}

static void json_has_the_fields_and_not_the_chain(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	json_t *all, *third;

	write_all(FORMAT_JSON, &b);
	all = parsed(&b);
	assert_int_equal(json_array_size(all), ARRAY_LEN(lines));
	third = json_array_get(all, 2);
	assert_string_equal(json_string_value(json_object_get(third, "type")), "egress.deny");
	assert_string_equal(json_string_value(json_object_get(third, "run")), RUN);
	assert_string_equal(json_string_value(json_object_get(third, "time")),
			    "2026-01-02T03:04:03.000000Z");
	assert_string_equal(json_string_value(json_object_get(third, "host")),
			    "evil\x1b[2J.example.net");
	assert_null(json_object_get(third, "mac"));
	assert_null(strchr(buf_str(&b), '\x1b'));
	json_decref(all);
}

static void an_empty_answer_is_still_json(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(100);
	struct exporter x;

	export_begin(&x, FORMAT_JSON, &b);
	export_end(&x);
	assert_string_equal(buf_str(&b), "[]\n");
}

static void raw_is_the_line_itself(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);

	write_all(FORMAT_RAW, &b);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		assert_non_null(strstr(buf_str(&b), lines[i]));
}

static void csv_quotes_and_holds_no_formula(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	size_t rows = 0;

	write_all(FORMAT_CSV, &b);
	for (const char *p = buf_str(&b); (p = strstr(p, "\r\n")); p += 2)
		rows++;
	assert_int_equal(rows, ARRAY_LEN(lines) + 1);
	assert_non_null(strstr(buf_str(&b), ",\"'=cmd|' /C calc'!A0\","));
	assert_non_null(strstr(buf_str(&b), ",\"a,\"\"b\"\"\","));
	assert_non_null(strstr(buf_str(&b), ",evil?[2J.example.net,"));
	assert_non_null(strstr(buf_str(&b), ",oom,-1,12.5,")); /* a number is no formula */
	assert_non_null(strstr(buf_str(&b), "\"{\"\"limit\"\":\"\"memory\"\""));
}

static long long number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

static void every_type_has_a_shape_in_ocsf(void **state UNUSED)
{
	for (int i = 0; i < EVENT_COUNT; i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
		char line[512];
		struct entry en;
		json_t *o, *meta;

		(void)snprintf(
			line, sizeof(line),
			"{\"seq\":9,\"time\":\"2026-01-02T03:04:05.678901Z\",\"type\":\"%.23s\","
			"\"principal\":\"uid:7\",\"host\":\"h\",\"extra\":[1],\"mac\":\"aa\"}",
			event_types[i].name);
		entry_of(line, &en);
		ocsf_event(&b, &en);
		o = parsed(&b);
		assert_int_equal(number(o, "class_uid"), event_types[i].ocsf_class);
		assert_int_equal(number(o, "category_uid"), event_types[i].ocsf_class / 1000);
		assert_int_equal(number(o, "type_uid"),
				 number(o, "class_uid") * 100 + number(o, "activity_id"));
		assert_int_equal(number(o, "severity_id"), event_types[i].severity);
		assert_true(number(o, "time") == INT64_C(1767323045678));
		meta = json_object_get(o, "metadata");
		assert_string_equal(json_string_value(json_object_get(meta, "version")), "1.1.0");
		assert_int_equal(number(meta, "sequence"), 9);
		assert_non_null(json_object_get(json_object_get(o, "actor"), "user"));
		assert_non_null(json_object_get(json_object_get(o, "unmapped"), "extra"));
		json_decref(o);
	}
}

static void ocsf_tells_an_allowed_request_from_a_denied_one(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	json_t *all, *allowed, *denied;

	write_all(FORMAT_OCSF, &b);
	all = parsed(&b);
	allowed = json_array_get(all, 1);
	denied = json_array_get(all, 2);
	assert_int_equal(number(allowed, "activity_id"), 6); /* POST */
	assert_int_equal(number(allowed, "action_id"), 1);
	assert_int_equal(number(allowed, "status_id"), 1);
	assert_int_equal(number(denied, "action_id"), 2);
	assert_int_equal(number(denied, "disposition_id"), 2);
	assert_int_equal(number(json_object_get(denied, "dst_endpoint"), "port"), 443);
	assert_string_equal(json_string_value(json_object_get(
				    json_object_get(json_array_get(all, 5), "process"), "name")),
			    "sh");
	json_decref(all);
}

static void text_is_a_line_a_record_and_safe(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	size_t rows = 0;

	write_all(FORMAT_TEXT, &b);
	for (const char *p = buf_str(&b); (p = strchr(p, '\n')); p++)
		rows++;
	assert_int_equal(rows, ARRAY_LEN(lines));
	assert_null(strchr(buf_str(&b), '\x1b'));
	assert_non_null(strstr(buf_str(&b), "2026-01-02 03:04:06Z  01234567  sandbox.exec "));
}

static void a_story_has_a_beginning_and_an_end(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	const char *contained, *denied;
	struct story s;
	struct entry en;

	story_begin(&s, &b);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		entry_of(lines[i], &en);
		story_entry(&s, &en);
	}
	story_end(&s);
	contained = strstr(buf_str(&b), "by native: seccomp landlock");
	denied = strstr(buf_str(&b),
			"+2.000 s  network   DENIED  evil?[2J.example.net:443: a,\"b\"");
	assert_true(contained && denied && contained < denied);
	assert_non_null(strstr(buf_str(&b), "read_only, memory 256m, time limit 60s"));
	assert_non_null(strstr(buf_str(&b), "allowed POST api.example.org:443/v1"));
	assert_non_null(strstr(buf_str(&b), "ended by its memory limit after 12.5 ms"));
	assert_non_null(strstr(buf_str(&b), "7 more of egress.deny b.example.net\n"));
	assert_non_null(strstr(buf_str(&b), "denials     1\n"));
}

static void say_live(void *data UNUSED, struct json *j, size_t i UNUSED)
{
	json_kbool(j, "live", true);
}

static struct runs *counted(size_t most)
{
	struct runs *rs = runs_new(most);
	struct entry en;

	assert_non_null(rs);
	entry_of("{\"seq\":0,\"time\":\"2026-01-02T03:04:00.000000Z\",\"type\":\"sandbox.create\","
		 "\"run\":\"ffffffffffffffffffffffffffffffff\"}",
		 &en);
	assert_int_equal(runs_add(rs, &en), 0);
	for (int twice = 0; twice < 2; twice++) {
		entry_of(lines[0], &en);
		assert_int_equal(runs_add(rs, &en), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		entry_of(lines[i], &en);
		assert_int_equal(runs_count(rs, &en), 0);
	}
	entry_of(lines[2], &en);
	assert_int_equal(runs_count(rs, &en), 0);
	return rs;
}

static void a_run_is_told_in_a_few_words(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	CLEANUP(runs) struct runs *rs = counted(2);
	json_t *all, *run, *denied;
	struct json j;

	assert_int_equal(runs_n(rs), 2);
	assert_string_equal(runs_id(rs, 0), RUN);
	assert_null(runs_id(rs, 2));
	json_init(&j, &b, false);
	runs_json(rs, &j, say_live, NULL);
	all = parsed(&b);
	run = json_array_get(all, 0);
	assert_string_equal(json_string_value(json_object_get(run, "outcome")), "oom");
	assert_string_equal(json_string_value(json_object_get(run, "access")), "read_only");
	assert_int_equal(json_integer_value(json_object_get(run, "requests")), 1);
	assert_int_equal(json_integer_value(json_object_get(run, "denials")), 9);
	assert_true(json_is_true(json_object_get(run, "live")));
	denied = json_array_get(json_object_get(run, "denied"), 0);
	assert_int_equal(json_array_size(json_object_get(run, "denied")), 1);
	assert_int_equal(json_integer_value(json_object_get(denied, "count")), 2);
	assert_string_equal(json_string_value(json_object_get(denied, "host")),
			    "evil\x1b[2J.example.net");
	assert_null(json_object_get(json_array_get(all, 1), "outcome"));
	json_decref(all);
}

static void the_oldest_run_makes_room(void **state UNUSED)
{
	CLEANUP(runs) struct runs *rs = counted(1);

	assert_int_equal(runs_n(rs), 1);
	assert_string_equal(runs_id(rs, 0), RUN);
}

static void a_filter_decides(void **state UNUSED)
{
	static const struct {
		struct filter f;
		unsigned want; /* bits of the lines */
	} cases[] = {
		{ { .limit = 0 }, 63 },
		{ { .types = { "egress.*" }, .type_count = 1 }, 6 },
		{ { .types = { "egress.deny", "limit.hit" }, .type_count = 2 }, 12 },
		{ { .types = { "egress" }, .type_count = 1 }, 0 },
		{ { .security = true }, 60 },
		{ { .security = true, .types = { "sandbox.create" }, .type_count = 1 }, 1 },
		{ { .run = "0123" }, 63 },
		{ { .run = "0124" }, 0 },
		{ { .host = "API.example.org" }, 2 },
		{ { .host = "*.example.org" }, 2 },
		{ { .host = "*.api.example.org" }, 0 },
		{ { .outcome = "oom" }, 32 },
		{ { .principal = "uid:1000" }, 63 },
		{ { .principal = "uid:100" }, 0 },
		{ { .agent = "a" }, 0 },
		{ { .since = INT64_C(1767323043000000) }, 60 },
		{ { .until = INT64_C(1767323043000000) }, 7 },
	};
	struct entry en;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned got = 0;

		for (size_t k = 0; k < ARRAY_LEN(lines); k++) {
			entry_of(lines[k], &en);
			got |= (unsigned)filter_match(&cases[i].f, &en) << k;
		}
		assert_int_equal(got, cases[i].want);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(json_has_the_fields_and_not_the_chain),
	cmocka_unit_test(an_empty_answer_is_still_json),
	cmocka_unit_test(raw_is_the_line_itself),
	cmocka_unit_test(csv_quotes_and_holds_no_formula),
	cmocka_unit_test(every_type_has_a_shape_in_ocsf),
	cmocka_unit_test(ocsf_tells_an_allowed_request_from_a_denied_one),
	cmocka_unit_test(text_is_a_line_a_record_and_safe),
	cmocka_unit_test(a_story_has_a_beginning_and_an_end),
	cmocka_unit_test(a_run_is_told_in_a_few_words),
	cmocka_unit_test(the_oldest_run_makes_room),
	cmocka_unit_test(a_filter_decides),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
