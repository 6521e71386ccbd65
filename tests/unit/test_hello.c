/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "wire/hello.h"

/* A ClientHello with the extensions given, in one record or in records of `step` bytes. */
static size_t make(const char *ext, size_t n_ext, size_t step, char *out)
{
	unsigned char body[1024] = { 1, 0, 0, 0, 3, 3 };
	size_t n = 4 + 2 + 32, at = 0, len;

	body[n++] = 0; /* session */
	body[n++] = 0;
	body[n++] = 2;
	body[n++] = 0x13;
	body[n++] = 1;
	body[n++] = 1;
	body[n++] = 0;
	body[n++] = (unsigned char)(n_ext >> 8);
	body[n++] = (unsigned char)n_ext;
	memcpy(body + n, ext, n_ext);
	n += n_ext;
	len = n - 4;
	body[2] = (unsigned char)(len >> 8);
	body[3] = (unsigned char)len;
	for (size_t i = 0; i < n; i += step) {
		size_t k = n - i < step ? n - i : step;

		out[at++] = 22;
		out[at++] = 3;
		out[at++] = 1;
		out[at++] = (char)(k >> 8);
		out[at++] = (char)k;
		memcpy(out + at, body + i, k);
		at += k;
	}
	return at;
}

#define SNI                                                                                        \
	"\0\0\0\x0d\0\x0b\0\0\x08"                                                                 \
	"api.test"
#define EXT(x) x, sizeof(x) - 1

static void the_name_is_found_however_the_records_are_cut(void **state UNUSED)
{
	unsigned char scratch[HELLO_MAX];
	struct hello h;
	char p[8192];

	for (size_t step = 1; step < 100; step += 7) {
		size_t n = make(EXT(SNI "\0\x10\0\x0b\0\x09\x08http/1.1"), step, p);

		assert_int_equal(hello_read(p, n, scratch, &h), 1);
		assert_true(h.name_len == 8 && memcmp(h.name, "api.test", 8) == 0);
		assert_true(h.has_alpn && h.offers_http1 && !h.encrypted);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(hello_read(p, i, scratch, &h), 0);
	}
}

static void a_hello_may_have_no_name_and_may_be_encrypted(void **state UNUSED)
{
	unsigned char scratch[HELLO_MAX];
	struct hello h;
	char p[2048];

	assert_int_equal(hello_read(p, make(EXT("\0\x17\0\0"), 500, p), scratch, &h), 1);
	assert_null(h.name);
	assert_int_equal(hello_read(p, make(EXT("\xfe\x0d\0\1x" SNI), 500, p), scratch, &h), 1);
	assert_true(h.encrypted);
}

static void what_is_no_hello_is_refused(void **state UNUSED)
{
	unsigned char scratch[HELLO_MAX];
	struct hello h;
	char p[2048];
	size_t n;

	assert_int_equal(hello_read("GET / HTTP/1.1\r\n", 16, scratch, &h), -EBADMSG);
	assert_int_equal(hello_read("\x16\x02", 2, scratch, &h), -EBADMSG);
	assert_int_equal(hello_read("\x16\x03\x01\0\0", 5, scratch, &h), -EBADMSG);
	assert_int_equal(hello_read("\x16\x03\x01\0\4\x02\0\0\0", 9, scratch, &h), -EBADMSG);
	assert_int_equal(hello_read("\x16\x03\x01\0\4\x01\x01\0\0", 9, scratch, &h), -EMSGSIZE);
	/* two names, a NUL in one, a length that leaves its place */
	n = make(EXT(SNI SNI), 500, p);
	assert_int_equal(hello_read(p, n, scratch, &h), -EBADMSG);
	n = make(EXT("\0\0\0\x0d\0\x0b\0\0\x08"
		     "api\0test"),
		 500, p);
	assert_int_equal(hello_read(p, n, scratch, &h), -EBADMSG);
	n = make(EXT("\0\0\0\x0d\0\x0c\0\0\x08"
		     "api.test"),
		 500, p);
	assert_int_equal(hello_read(p, n, scratch, &h), -EBADMSG);
	n = make(EXT("\0\0\0\xff"
		     "api"),
		 500, p);
	assert_int_equal(hello_read(p, n, scratch, &h), -EBADMSG);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_name_is_found_however_the_records_are_cut),
	cmocka_unit_test(a_hello_may_have_no_name_and_may_be_encrypted),
	cmocka_unit_test(what_is_no_hello_is_refused),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
