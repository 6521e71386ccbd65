/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_http1.c - answers that are read, and those nobody may guess at. */
#include "unit.h"

#include <ctype.h>

#include "base/text/buf.h"
#include "wire/http1.h"

#define OK_LINE "HTTP/1.1 200 OK\r\n"

static ssize_t read_as(const char *text, enum http1_asked asked, struct http1_answer *a)
{
	struct err e = { 0 };
	ssize_t n = http1_read_answer(text, strlen(text), asked, a, &e);

	assert_true((n < 0) == (e.code != 0));
	return n;
}

static void reads(const char *text, struct http1_answer *a)
{
	assert_int_equal(read_as(text, HTTP1_ASKED_PLAIN, a), strlen(text));
}

static void a_head_is_taken_when_it_is_whole(void **state)
{
	const char *text = OK_LINE "Api-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK";
	struct http1_answer a;
	struct err e = { 0 };

	(void)state;
	for (size_t n = 0; n < strlen(text) - 2; n++)
		assert_int_equal(http1_read_answer(text, n, HTTP1_ASKED_PLAIN, &a, &e), 0);
	assert_int_equal(read_as(text, HTTP1_ASKED_PLAIN, &a), strlen(text) - 2);
	assert_int_equal(a.status, 200);
	assert_int_equal(a.framing, HTTP1_LENGTH);
	assert_int_equal(a.length, 2);
	assert_true(a.keeps_alive);
	assert_true(http1_text_is(http1_field(&a, "api-version"), "1.41"));
	assert_null(http1_field(&a, "Server").p);
}

/* What is told apart by number must be what the names say. */
static void each_name_has_its_number_in_any_case(void **state)
{
	(void)state;
	for (unsigned i = HTTP1_NAME_OTHER + 1; i < HTTP1_NAMES; i++) {
		char text[64], head[192];
		size_t n = strlen(http1_name_text(i));
		struct http1_answer a;

		assert_in_range(n, 1, sizeof(text) - 2);
		for (size_t k = 0; k <= n; k++)
			text[k] = k % 2 ? (char)tolower(http1_name_text(i)[k])
					: (char)toupper(http1_name_text(i)[k]);
		assert_int_equal(http1_name((struct http1_text){ text, n }), i);
		text[n] = 'x';
		assert_int_equal(http1_name((struct http1_text){ text, n + 1 }), HTTP1_NAME_OTHER);
		assert_int_not_equal(http1_name((struct http1_text){ text, n - 1 }), i);
		text[n] = '\0';
		text[n - 1] ^= 0x20;
		assert_int_equal(http1_name((struct http1_text){ text, n }), i);
		if (i == HTTP1_NAME_TRANSFER_ENCODING || i == HTTP1_NAME_CONTENT_LENGTH)
			continue;
		(void)snprintf(head, sizeof(head), OK_LINE "%s: a\r\nx-%s: b\r\n\r\n", text, text);
		reads(head, &a);
		assert_int_equal(a.fields[0].is, i);
		assert_int_equal(a.fields[1].is, HTTP1_NAME_OTHER);
		assert_true(http1_text_is(http1_field(&a, http1_name_text(i)), "a"));
		assert_int_equal(http1_count(a.fields, a.n_fields, text), 1);
	}
}

static void a_sign_of_a_name_is_a_token(void **state)
{
	(void)state;
	for (int c = 1; c < 256; c++) {
		bool may = isalnum(c) || strchr("!#$%&'*+-.^_`|~", c);
		char head[64];
		struct http1_answer a;

		(void)snprintf(head, sizeof(head), OK_LINE "A%cA: b\r\n\r\n", c);
		if (c != ':' && c < 128)
			assert_int_equal(read_as(head, HTTP1_ASKED_PLAIN, &a) > 0, may);
		else if (c >= 128)
			assert_true(read_as(head, HTTP1_ASKED_PLAIN, &a) < 0);
	}
}

static void what_may_be_missing_may_be_missing(void **state)
{
	struct http1_answer a;

	(void)state;
	reads("HTTP/1.1 200\r\n\r\n", &a);
	assert_int_equal(a.reason.n, 0);
	assert_int_equal(a.framing, HTTP1_UNTIL_CLOSE);
	assert_false(a.keeps_alive);
	reads("HTTP/1.1 200 \r\nX:\r\nY: \t a b\t \r\n\r\n", &a);
	assert_true(http1_text_is(http1_field(&a, "y"), "a b"));
	assert_int_equal(http1_field(&a, "x").n, 0);
}

static void what_was_asked_frames_the_answer(void **state)
{
	const char *hijack = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
	struct http1_answer a;

	(void)state;
	assert_true(read_as(hijack, HTTP1_ASKED_UPGRADE, &a) > 0);
	assert_int_equal(a.framing, HTTP1_UPGRADED);
	assert_true(a.asks_upgrade);
	assert_int_equal(read_as(hijack, HTTP1_ASKED_PLAIN, &a), -EBADMSG);
	assert_true(read_as(OK_LINE "Content-Type: x\r\n\r\n", HTTP1_ASKED_UPGRADE, &a) > 0);
	assert_int_equal(a.framing, HTTP1_UPGRADED);
	assert_true(read_as("HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\n", HTTP1_ASKED_UPGRADE,
			    &a) > 0);
	assert_int_equal(a.framing, HTTP1_LENGTH);
	assert_true(read_as(OK_LINE "Content-Length: 7\r\n\r\n", HTTP1_ASKED_HEAD, &a) > 0);
	assert_int_equal(a.framing, HTTP1_NO_BODY);
	reads("HTTP/1.1 204 No\r\n\r\n", &a);
	assert_int_equal(a.framing, HTTP1_NO_BODY);
	assert_true(a.keeps_alive);
	reads("HTTP/1.1 100 Continue\r\n\r\n", &a);
	assert_int_equal(a.framing, HTTP1_NO_BODY);
}

static void a_connection_says_when_it_is_over(void **state)
{
	struct http1_answer a;

	(void)state;
	reads(OK_LINE "Content-Length: 0\r\nConnection: foo, Close\r\n\r\n", &a);
	assert_false(a.keeps_alive);
	reads("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", &a);
	assert_false(a.keeps_alive);
}

static void what_readers_could_differ_on_is_refused(void **state)
{
	static const char *const bad[] = {
		"HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.2 200 OK\r\n\r\n",
		"http/1.1 200 OK\r\n\r\n",
		" HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/1.1 200 O\rK\r\n\r\n",
		"HTTP/1.1 200 O\x01K\r\n\r\n",
		"HTTP/1.1 200 OK\nA: b\r\n\r\n",
		OK_LINE "A: b\nC: d\r\n\r\n",
		OK_LINE "A : b\r\n\r\n",
		OK_LINE " A: b\r\n\r\n",
		OK_LINE "A: b\r\n folded\r\n\r\n",
		OK_LINE ": b\r\n\r\n",
		OK_LINE "A\r\n\r\n",
		OK_LINE "A: b\rc\r\n\r\n",
		OK_LINE "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
		OK_LINE "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		OK_LINE "Content-Length: +1\r\n\r\n",
		OK_LINE "Content-Length: 1, 1\r\n\r\n",
		OK_LINE "Content-Length: 0x1\r\n\r\n",
		OK_LINE "Content-Length:\r\n\r\n",
		OK_LINE "Content-Length: 1111111111111111111\r\n\r\n",
		OK_LINE "Transfer-Encoding: gzip, chunked\r\n\r\n",
		OK_LINE "Transfer-Encoding: chunked, chunked\r\n\r\n",
		OK_LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		OK_LINE "Transfer-Encoding: identity\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	};
	struct http1_answer a;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (read_as(bad[i], HTTP1_ASKED_PLAIN, &a) != -EBADMSG)
			fail_msg("read: %s", bad[i]);
}

static void a_head_has_a_largest_size(void **state)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	struct http1_answer a;

	(void)state;
	buf_puts(&b, OK_LINE);
	for (int i = 0; i <= HTTP1_FIELDS_MAX; i++)
		buf_puts(&b, "A: b\r\n");
	buf_puts(&b, "\r\n");
	assert_int_equal(read_as(b.data, HTTP1_ASKED_PLAIN, &a), -EMSGSIZE);
	b.len = 0;
	buf_puts(&b, OK_LINE "A: ");
	while (b.len <= HTTP1_HEAD_MAX)
		buf_putc(&b, 'x');
	assert_int_equal(read_as(b.data, HTTP1_ASKED_PLAIN, &a), -EMSGSIZE);
}

/* The whole text through the decoder, `step` bytes at a time; -EBADMSG or the bytes left over. */
static ssize_t decode(const char *head, const char *text, size_t step, struct buf *out)
{
	size_t n = strlen(text), at = 0;
	struct http1_answer a;
	struct http1_body b;

	reads(head, &a);
	http1_body_init(&b, &a);
	while (at < n && !http1_body_done(&b)) {
		struct http1_text data;
		size_t give = n - at < step ? n - at : step;
		ssize_t took = http1_body_read(&b, text + at, give, &data);

		if (took < 0)
			return took;
		assert_in_range(took, 1, give);
		if (data.n)
			buf_add(out, data.p, data.n);
		at += (size_t)took;
	}
	if (http1_body_end(&b) < 0)
		return -EAGAIN;
	return (ssize_t)(n - at);
}

#define CHUNKED OK_LINE "Transfer-Encoding: chunked\r\n\r\n"

static void a_body_is_the_same_however_it_is_cut(void **state)
{
	(void)state;
	for (size_t step = 1; step < 30; step++) {
		CLEANUP(buf) struct buf b = BUF_INIT(4096);

		assert_int_equal(decode(CHUNKED,
					"4\r\nwiki\r\n00A\r\n0123456789\r\n0\r\nA: b\r\n\r\nHTTP",
					step, &b),
				 4);
		assert_string_equal(buf_str(&b), "wiki0123456789");
		b.len = 0;
		assert_int_equal(decode(OK_LINE "Content-Length: 5\r\n\r\n", "hello!!", step, &b),
				 2);
		assert_string_equal(buf_str(&b), "hello");
		b.len = 0;
		assert_int_equal(decode(OK_LINE "\r\n", "to the end", step, &b), 0);
		assert_string_equal(buf_str(&b), "to the end");
	}
}

static void chunks_are_exact_or_refused(void **state)
{
	static const char *const bad[] = {
		"0\r\nno colon\r\n\r\n",
		"0\r\n5\r\n\r\n",
		"0\r\n: x\r\n\r\n",
		"0\r\nA : x\r\n\r\n",
		"\r\n",
		"4;a=b\r\nwiki\r\n0\r\n\r\n",
		"4 \r\nwiki\r\n0\r\n\r\n",
		" 4\r\nwiki\r\n0\r\n\r\n",
		"+4\r\nwiki\r\n0\r\n\r\n",
		"0x4\r\nwiki\r\n0\r\n\r\n",
		"4\nwiki\n0\n\n",
		"4\r\nwikipedia\r\n0\r\n\r\n",
		"4\r\nwiki\n0\r\n\r\n",
		"4\r\nwiki\r\n0\r\n\n",
		"1111111111111111\r\n",
		"0\r\n : x\r\n\r\n",
		"0\r\nA: \x01\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(4096);

		if (decode(CHUNKED, bad[i], 64, &b) != -EBADMSG)
			fail_msg("read: %s", bad[i]);
	}
}

static void a_body_that_ends_early_is_not_whole(void **state)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);

	(void)state;
	assert_int_equal(decode(CHUNKED, "4\r\nwi", 64, &b), -EAGAIN);
	assert_int_equal(decode(CHUNKED, "4\r\nwiki\r\n0\r\n", 64, &b), -EAGAIN);
	assert_int_equal(decode(OK_LINE "Content-Length: 5\r\n\r\n", "hell", 64, &b), -EAGAIN);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_head_is_taken_when_it_is_whole),
	cmocka_unit_test(each_name_has_its_number_in_any_case),
	cmocka_unit_test(a_sign_of_a_name_is_a_token),
	cmocka_unit_test(what_may_be_missing_may_be_missing),
	cmocka_unit_test(what_was_asked_frames_the_answer),
	cmocka_unit_test(a_connection_says_when_it_is_over),
	cmocka_unit_test(what_readers_could_differ_on_is_refused),
	cmocka_unit_test(a_head_has_a_largest_size),
	cmocka_unit_test(a_body_is_the_same_however_it_is_cut),
	cmocka_unit_test(chunks_are_exact_or_refused),
	cmocka_unit_test(a_body_that_ends_early_is_not_whole),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
