/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "wire/http1_request.h"

static ssize_t take(const char *text, struct http1_request *q)
{
	const char *why = NULL;
	ssize_t n = http1_read_request(text, strlen(text), q, &why);

	assert_true((n < 0) == (why != NULL));
	return n;
}

#define HOST "Host: api.test\r\n"

static void an_ordinary_request_is_taken_apart(void **state UNUSED)
{
	const char *text = "GET /a?b=c HTTP/1.1\r\n" HOST "Accept:  x \r\n\r\nnext";
	struct http1_request q;

	assert_int_equal(take(text, &q), (ssize_t)strlen(text) - 4);
	assert_true(http1_text_is(q.method, "GET") && http1_text_is(q.path, "/a?b=c"));
	assert_true(http1_text_is(q.host, "api.test") && q.form == HTTP1_ORIGIN);
	assert_true(http1_text_is(http1_only(q.fields, q.n_fields, "accept"), "x"));
	assert_true(q.framing == HTTP1_NO_BODY && q.keeps_alive && !q.expects);
}

static void every_byte_less_asks_for_more(void **state UNUSED)
{
	const char *text = "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\n";
	struct http1_request q;
	const char *why;

	for (size_t n = 0; n < strlen(text); n++)
		assert_int_equal(http1_read_request(text, n, &q, &why), 0);
	assert_true(take(text, &q) > 0 && q.framing == HTTP1_LENGTH && q.length == 3);
}

static void the_four_forms_of_a_target(void **state UNUSED)
{
	struct http1_request q;

	assert_true(take("GET http://a.test:81/x HTTP/1.1\r\n" HOST "\r\n", &q) > 0);
	assert_true(q.form == HTTP1_ABSOLUTE && http1_text_is(q.authority, "a.test:81") &&
		    http1_text_is(q.scheme, "http") && http1_text_is(q.path, "/x"));
	assert_true(take("GET http://a.test HTTP/1.1\r\n" HOST "\r\n", &q) > 0 &&
		    http1_text_is(q.path, "/"));
	assert_true(take("CONNECT a.test:443 HTTP/1.1\r\n" HOST "\r\n", &q) > 0 &&
		    q.form == HTTP1_AUTHORITY && http1_text_is(q.authority, "a.test:443"));
	assert_true(take("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", &q) > 0 && q.form == HTTP1_ASTERISK);
	assert_int_equal(take("GET * HTTP/1.1\r\n" HOST "\r\n", &q), -HTTP1_BAD_REQUEST);
	assert_int_equal(take("GET http://a.test?x HTTP/1.1\r\n" HOST "\r\n", &q),
			 -HTTP1_BAD_REQUEST);
}

static void what_two_readers_could_understand_differently_is_refused(void **state UNUSED)
{
	static const struct {
		const char *text;
		enum http1_refusal status;
	} bad[] = {
		{ "\r\nGET / HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD_REQUEST },
		{ "GET /\r\n\r\n", HTTP1_BAD_REQUEST },
		{ "GET  / HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD_REQUEST },
		{ "GET / HTTP/1.1 \r\n" HOST "\r\n", HTTP1_BAD_REQUEST },
		{ "GET /a b HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD_REQUEST },
		{ "GET /# HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD_REQUEST },
		{ "GET /\x80 HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD_REQUEST },
		{ "G(T / HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD_REQUEST },
		{ "GET / HTTP/1.2\r\n" HOST "\r\n", HTTP1_VERSION_UNSUPPORTED },
		{ "GET / HTTP/2.0\r\n" HOST "\r\n", HTTP1_VERSION_UNSUPPORTED },
		{ "connect a.test:443 HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD_REQUEST },
		{ "CONNECT a.test:443 HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\n",
		  HTTP1_BAD_REQUEST },
		{ "CONNECT a.test:443 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
		  HTTP1_BAD_REQUEST },
		{ "GET ht+tp://a.test/ HTTP/1.1\r\n" HOST "\r\n", HTTP1_BAD_REQUEST },
		{ "GET / HTTP/1.1\r\n\r\n", HTTP1_BAD_REQUEST },
		{ "GET / HTTP/1.0\r\n\r\n", HTTP1_BAD_REQUEST },
		{ "GET / HTTP/1.1\r\nHost:\r\n\r\n", HTTP1_BAD_REQUEST },
		{ "GET / HTTP/1.1\r\n" HOST HOST "\r\n", HTTP1_BAD_REQUEST },
		{ "GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", HTTP1_BAD_REQUEST },
		{ "GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", HTTP1_BAD_REQUEST },
		{ "GET / HTTP/1.1\r\n" HOST "A: b\nC: d\r\n\r\n", HTTP1_BAD_REQUEST },
		{ "GET / HTTP/1.1\r\n" HOST "A: b\rc\r\n\r\n", HTTP1_BAD_REQUEST },
		{ "PUT / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
		  HTTP1_BAD_REQUEST },
		{ "PUT / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\n", HTTP1_BAD_REQUEST },
		{ "PUT / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\n", HTTP1_BAD_REQUEST },
		{ "PUT / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n",
		  HTTP1_BAD_REQUEST },
		{ "PUT / HTTP/1.1\r\n" HOST
		  "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		  HTTP1_BAD_REQUEST },
		{ "PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
		  HTTP1_NOT_IMPLEMENTED },
		{ "PUT / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
		  HTTP1_NOT_IMPLEMENTED },
		{ "PUT / HTTP/1.1\r\n" HOST "Expect: cake\r\n\r\n", HTTP1_EXPECTATION_FAILED },
	};
	struct http1_request q;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ssize_t n = take(bad[i].text, &q);

		if (n != -(ssize_t)bad[i].status)
			fail_msg("case %zu gave %zd", i, n);
	}
}

static void sizes_are_bounded(void **state UNUSED)
{
	char *text = malloc(HTTP1_HEAD_MAX + 100);
	struct http1_request q;
	const char *why;
	size_t n;

	assert_non_null(text);
	memset(text, 'a', HTTP1_HEAD_MAX + 100);
	memcpy(text, "GET /", 5);
	assert_int_equal(http1_read_request(text, HTTP1_HEAD_MAX, &q, &why),
			 -HTTP1_FIELDS_TOO_LARGE);
	memcpy(text + 9000, " HTTP/1.1\r\n" HOST "\r\n", 29);
	assert_int_equal(http1_read_request(text, 9029, &q, &why), -HTTP1_URI_TOO_LONG);
	n = (size_t)sprintf(text, "GET / HTTP/1.1\r\n" HOST);
	for (int i = 0; i < HTTP1_FIELDS_MAX; i++)
		n += (size_t)sprintf(text + n, "A: b\r\n");
	n += (size_t)sprintf(text + n, "\r\n");
	assert_int_equal(http1_read_request(text, n, &q, &why), -HTTP1_FIELDS_TOO_LARGE);
	free(text);
}

static void something_else_is_refused_at_its_first_bytes(void **state UNUSED)
{
	struct http1_request q;

	assert_int_equal(take("\x16\x03\x01", &q), -HTTP1_BAD_REQUEST);
	assert_int_equal(take("SSH-2.0-OpenSSH_9\r\n", &q), -HTTP1_BAD_REQUEST);
	assert_int_equal(take("SSH-2.0", &q), 0); /* a method so far */
}

static void keep_alive_and_expectation(void **state UNUSED)
{
	struct http1_request q;

	assert_true(take("GET / HTTP/1.1\r\n" HOST "Connection: x, CLOSE\r\n\r\n", &q) > 0 &&
		    !q.keeps_alive);
	assert_true(take("GET / HTTP/1.0\r\n" HOST "\r\n", &q) > 0 && !q.keeps_alive);
	assert_true(take("PUT / HTTP/1.1\r\n" HOST
			 "Content-Length: 1\r\nExpect: 100-Continue\r\n\r\n",
			 &q) > 0 &&
		    q.expects);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(an_ordinary_request_is_taken_apart),
	cmocka_unit_test(every_byte_less_asks_for_more),
	cmocka_unit_test(the_four_forms_of_a_target),
	cmocka_unit_test(what_two_readers_could_understand_differently_is_refused),
	cmocka_unit_test(sizes_are_bounded),
	cmocka_unit_test(something_else_is_refused_at_its_first_bytes),
	cmocka_unit_test(keep_alive_and_expectation),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
