/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_send.c - brig-send reads what brig writes, and nothing that could become another
 * request. */
#include "unit.h"

#include "base/bytes/parcel.h"
#include "telemetry/send.h"
#include "telemetry/send/request.h"

static void what_brig_writes_is_read(void **state UNUSED)
{
	const char *const headers[] = { "Content-Type: application/json", "X-A: 1", "X-B:2", NULL };
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	const struct send s = { .url = "https://c.example:4318/v1/traces?x=y",
				.headers = headers,
				.body = "{\n\n\0}",
				.len = 5,
				.timeout_ms = 1234 };
	struct send_request q;
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

/* As brig would write it, if it did not look first. */
static void put(struct buf *b, const char *url, uint64_t timeout_ms, const char *header)
{
	struct parcel p = parcel_to(b, SEND_MARK);
	const char *const headers[] = { header, NULL }, *body = "";
	size_t none = 0;

	parcel_text(&p, &url);
	parcel_number(&p, &timeout_ms);
	(void)parcel_texts(&p, headers, NULL);
	parcel_bytes(&p, &body, &none);
}

static void an_empty_body_is_a_body(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct send_request q;
	struct err e;

	put(&b, "http://c/", 10, NULL);
	assert_int_equal(request_parse(b.data, b.len, &q, &e), 0);
	assert_int_equal(q.len, 0);
	request_done(&q);
}

static void anything_else_is_refused(void **state UNUSED)
{
	static const struct {
		const char *url;
		uint64_t timeout_ms;
		const char *header;
	} wrong[] = {
		{ "http://c/", 0, NULL },          { "http://c/", 600001, NULL },
		{ "http://c/", UINT64_MAX, NULL }, { "ftp://c/", 10, NULL },
		{ "http://u:p@c/", 10, NULL },     { "http://c/", 10, "no field" },
		{ "http://c/", 10, ": y" },        { "http://c/", 10, "X : y" },
		{ "http://c/", 10, "X: y\r" },     { "http://c/", 10, "X: y\nZ: y" },
		{ "http://c/\nX: y", 10, NULL },   { "", 10, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(4096);
		struct send_request q;
		struct err e;

		put(&b, wrong[i].url, wrong[i].timeout_ms, wrong[i].header);
		assert_int_equal(request_parse(b.data, b.len, &q, &e), -EINVAL);
	}
}

static void nor_a_request_that_is_cut_off_or_too_long(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct send_request q;
	struct err e;

	put(&b, "http://c/", 10, "X: y");
	for (size_t n = 0; n < b.len; n++)
		assert_int_equal(request_parse(b.data, n, &q, &e), -EINVAL);
	buf_putc(&b, 'x');
	assert_int_equal(request_parse(b.data, b.len, &q, &e), -EINVAL);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_brig_writes_is_read),
	cmocka_unit_test(an_empty_body_is_a_body),
	cmocka_unit_test(anything_else_is_refused),
	cmocka_unit_test(nor_a_request_that_is_cut_off_or_too_long),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
