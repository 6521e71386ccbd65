/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "audit/read/entry.h"
#include "audit/read/segments.h"
#include "audit/read/times.h"
#include "base/text/clean.h"
#include "base/text/str.h"

#define HEAD "{\"seq\":7,\"time\":\"2026-01-02T03:04:05.678901Z\",\"type\":\"limit.hit\""

static int read_text(const char *line, struct entry *en)
{
	return entry_read(line, strlen(line), en);
}

static void a_record_is_taken_apart(void **state UNUSED)
{
	struct entry en;
	struct pair p;

	assert_int_equal(read_text(HEAD
				   ",\"run\":\"0a\",\"principal\":\"uid:1\",\"limit\":\"memory\","
				   "\"value\":-3.5e2,\"argv\":[\"a\",{\"b\":[]}],\"ok\":true,"
				   "\"mac\":\"ff\"}",
				   &en),
			 0);
	assert_int_equal(en.seq, 7);
	assert_true(en.time == INT64_C(1767323045678901));
	assert_true(slice_eq(en.type, "limit.hit"));
	assert_true(slice_eq(en.run, "0a"));
	assert_true(slice_eq(en.principal, "uid:1"));
	assert_true(slice_eq(en.mac, "ff"));
	assert_null(en.host.p);
	assert_true(entry_get(&en, "value", &p) && p.kind == PAIR_NUMBER);
	assert_true(entry_get(&en, "argv", &p) && p.kind == PAIR_NESTED);
	assert_true(slice_eq(p.value, "[\"a\",{\"b\":[]}]"));
	assert_true(entry_get(&en, "ok", &p) && p.kind == PAIR_BOOL);
	assert_false(entry_get(&en, "other", &p));
}

static void what_is_no_record_is_refused(void **state UNUSED)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		HEAD,
		HEAD "}}",
		HEAD "} ",
		HEAD ",}",
		HEAD ",\"a\"}",
		HEAD ",\"a\":}",
		HEAD ",\"a\":01}",
		HEAD ",\"a\":1.}",
		HEAD ",\"a\":tru}",
		HEAD ",\"a\":[1,]}",
		HEAD ",\"a\":[1}",
		HEAD ",\"a\":\"\\x\"}",
		HEAD ",\"a\":\"\\u12g4\"}",
		HEAD ",\"a\":\"\x1b[31m\"}",
		HEAD ",\"a\":\"\xff\"}",
		HEAD ",\"seq\":8}",
		HEAD ", \"a\":1}",
		"{\"time\":\"2026-01-02T03:04:05Z\",\"type\":\"a\"}",
		"{\"seq\":1,\"type\":\"a\"}",
		"{\"seq\":1,\"time\":\"2026-01-02T03:04:05Z\"}",
		"{\"seq\":-1,\"time\":\"2026-01-02T03:04:05Z\",\"type\":\"a\"}",
		"{\"seq\":1,\"time\":\"2026-02-30T03:04:05Z\",\"type\":\"a\"}",
	};
	struct entry en;

	assert_int_equal(read_text(HEAD "}", &en), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(read_text(bad[i], &en), -EINVAL);
}

static void nesting_has_an_end(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	struct entry en;

	buf_puts(&b, HEAD ",\"a\":");
	for (int i = 0; i < 100000; i++)
		buf_putc(&b, '[');
	assert_int_equal(entry_read(b.data, b.len, &en), -EINVAL);
}

static void escapes_are_undone(void **state UNUSED)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain", "plain" },
		{ "a\\\"b\\\\c\\/d", "a\"b\\c/d" },
		{ "\\b\\f\\n\\r\\t", "\b\f\n\r\t" },
		{ "\\u0041\\u00e9\\u20ac", "A\xc3\xa9\xe2\x82\xac" },
		{ "\\ud83d\\ude00", "\xf0\x9f\x98\x80" },
		{ "\\ud83d", "\xef\xbf\xbd" },
		{ "\\ude00x", "\xef\xbf\xbdx" },
		{ "\\ud83d\\u0041", "\xef\xbf\xbd"
				    "A" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(100);

		slice_decode((struct slice){ cases[i].in, strlen(cases[i].in) }, &b);
		assert_string_equal(buf_str(&b), cases[i].out);
	}
}

static void times_are_read_and_written(void **state UNUSED)
{
	static const struct {
		const char *text;
		int64_t us;
	} cases[] = {
		{ "1970-01-01", 0 },
		{ "2000-02-29T00:00:00Z", INT64_C(951782400000000) },
		{ "2026-01-02T03:04:05.678901Z", INT64_C(1767323045678901) },
		{ "2026-01-02 03:04:05.6Z", INT64_C(1767323045600000) },
		{ "2026-01-02T05:04:05+02:00", INT64_C(1767323045000000) },
		{ "2026-01-01T22:34:05-04:30", INT64_C(1767323045000000) },
	};
	static const char *const bad[] = { "",
					   "2026",
					   "2026-13-01",
					   "2026-02-29",
					   "26-01-01",
					   "2026-01-02T",
					   "2026-01-02T03:04",
					   "2026-01-02T03:04:05",
					   "2026-01-02T24:00:00Z",
					   "2026-01-02T03:04:05.Z",
					   "2026-01-02T03:04:05Zx" };
	char text[32];
	int64_t us;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(time_parse(cases[i].text, strlen(cases[i].text), &us), 0);
		assert_true(us == cases[i].us);
		time_text(us, text, sizeof(text));
		assert_int_equal(time_parse(text, strlen(text), &us), 0);
		assert_true(us == cases[i].us);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(time_parse(bad[i], strlen(bad[i]), &us), -EINVAL);
	time_text(INT64_C(1767323045678901), text, sizeof(text));
	assert_string_equal(text, "2026-01-02T03:04:05.678901Z");
	assert_int_equal(time_when("2h", INT64_C(10000000000), &us), 0);
	assert_true(us == INT64_C(2800000000));
	assert_int_equal(time_when("7d", INT64_C(1767323045678901), &us), 0);
	assert_true(us == INT64_C(1766718245678901));
	assert_int_equal(time_when("soon", 0, &us), -EINVAL);
}

static void nothing_a_terminal_obeys_gets_through(void **state UNUSED)
{
	/* CSI as two bytes and as one, a bell, DEL, right-to-left override, a byte that is no text
	 */
	static const char hostile[] = "a\x1b[31mb\xc2\x9b"
				      "31mc\a\x7f\xe2\x80\xae"
				      "d\xff\xc3\xa9";
	CLEANUP(buf) struct buf text = BUF_INIT(100);
	CLEANUP(buf) struct buf json = BUF_INIT(200);

	clean_put(&text, hostile, strlen(hostile));
	assert_string_equal(buf_str(&text), "a?[31mb?31mc???d?\xc3\xa9");
	clean_put_json(&json, hostile, strlen(hostile));
	assert_string_equal(buf_str(&json), "a\\u001b[31mb\\u009b31mc\\u0007\\u007f\\u202ed\\ufffd"
					    "\xc3\xa9");
}

static void lines_come_whole_and_later_ones_are_found(void **state UNUSED)
{
	char dir[PATH_MAX];
	CLEANUP(fd) int fd = -1;
	CLEANUP(lines) struct lines *l = NULL;
	CLEANUP(mem) char *big = calloc(1, 3 << 20);
	const char *p;
	size_t n;

	enter_scratch(dir);
	fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	l = lines_new(fd, 0);
	assert_int_equal(lines_next(l, &p, &n), 0);
	assert_int_equal(write(fd, "one\ntw", 6), 6);
	assert_int_equal(lines_next(l, &p, &n), 1);
	assert_true(n == 3 && memcmp(p, "one", 3) == 0);
	assert_int_equal(lines_next(l, &p, &n), 0);
	assert_int_equal(lines_at(l), 4);
	/* The half line is cut off and another written in its place. */
	assert_int_equal(pwrite(fd, "three\n", 6, 4), 6);
	assert_int_equal(lines_next(l, &p, &n), 1);
	assert_true(n == 5 && memcmp(p, "three", 5) == 0);
	/* A line longer than any record is passed over. */
	memset(big, 'x', 3 << 20);
	big[(3 << 20) - 1] = '\n';
	assert_int_equal(lseek(fd, 0, SEEK_END), 10);
	assert_int_equal(write(fd, big, 3 << 20), 3 << 20);
	assert_int_equal(write(fd, "last\n", 5), 5);
	assert_int_equal(lines_next(l, &p, &n), 1);
	assert_null(p);
	assert_int_equal(lines_next(l, &p, &n), 1);
	assert_true(n == 4 && memcmp(p, "last", 4) == 0);
	leave_scratch(dir);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_record_is_taken_apart),
	cmocka_unit_test(what_is_no_record_is_refused),
	cmocka_unit_test(nesting_has_an_end),
	cmocka_unit_test(escapes_are_undone),
	cmocka_unit_test(times_are_read_and_written),
	cmocka_unit_test(nothing_a_terminal_obeys_gets_through),
	cmocka_unit_test(lines_come_whole_and_later_ones_are_found),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
