/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_send.c - brig-send reads what brig writes, and nothing that could become another
 * request. */
#include "unit.h"

#include "audit/send.h"
#include "send/request.h"

static void what_brig_writes_is_read(void **state UNUSED)
{
	const char *const headers[] = { "Content-Type: application/json", "X-A: 1", "X-B:2", NULL };
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	const struct send s = { .url = "https://c.example:4318/v1/traces?x=y",
				.headers = headers,
				.body = "{\n\n\0}",
				.len = 5,
				.timeout_ms = 1234 };
	struct request q;
	struct err e;

	assert_int_equal(send_encode(&s, &b, &e), 0);
	assert_int_equal(request_parse(b.data, b.len, &q, &e), 0);
	assert_true(q.url.tls);
	assert_string_equal(q.url.host, "c.example");
	assert_string_equal(q.url.target, "/v1/traces?x=y");
	assert_int_equal(q.timeout_ms, 1234);
	assert_string_equal(q.type, "application/json");
	assert_string_equal(buf_str(&q.fields), "X-A: 1\r\nX-B:2\r\n");
	assert_int_equal(q.len, 5);
	assert_memory_equal(q.body, "{\n\n\0}", 5);
	request_done(&q);
}

static void an_empty_body_is_a_body(void **state UNUSED)
{
	char text[] = "http://c/\n10\n\n";
	struct request q;
	struct err e;

	assert_int_equal(request_parse(text, strlen(text), &q, &e), 0);
	assert_int_equal(q.len, 0);
	request_done(&q);
}

static void anything_else_is_refused(void **state UNUSED)
{
	static const char *const wrong[] = {
		"",
		"http://c/",
		"http://c/\n",
		"http://c/\n10",
		"http://c/\n10\n",
		"http://c/\n10\nX: y\n",
		"http://c/\n0\n\n",
		"http://c/\n600001\n\n",
		"http://c/\n-1\n\n",
		"ftp://c/\n10\n\n",
		"http://u:p@c/\n10\n\n",
		"http://c/\n10\nno field\n\n",
		"http://c/\n10\n: y\n\n",
		"http://c/\n10\nX : y\n\n",
		"http://c/\n10\nX: y\r\n\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		char text[64];
		struct request q;
		struct err e;

		(void)snprintf(text, sizeof(text), "%s", wrong[i]);
		assert_int_equal(request_parse(text, strlen(text), &q, &e), -EINVAL);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_brig_writes_is_read),
	cmocka_unit_test(an_empty_body_is_a_body),
	cmocka_unit_test(anything_else_is_refused),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
