/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "wire/socks.h"

static ssize_t ask(const char *p, size_t n, struct socks_request *q)
{
	return socks_read_request((const unsigned char *)p, n, q);
}

static void a_greeting_must_offer_no_authentication(void **state UNUSED)
{
	assert_int_equal(socks_read_greeting((const unsigned char *)"\5\2\1\0x", 5), 4);
	assert_int_equal(socks_read_greeting((const unsigned char *)"\5\2\1", 3), 0);
	assert_int_equal(socks_read_greeting((const unsigned char *)"\5\1\2", 3), -EPROTO);
	assert_int_equal(socks_read_greeting((const unsigned char *)"\4\1\0", 3), -EBADMSG);
}

static void names_and_addresses_are_taken_as_text(void **state UNUSED)
{
	const char text[] = "\5\1\0\3\x08"
			    "api.test\1\xbb";
	struct socks_request q;

	assert_int_equal(ask(text, sizeof(text) - 1, &q), sizeof(text) - 1);
	assert_true(q.port == 443 && q.host_len == 8 && memcmp(q.host, "api.test", 8) == 0);
	for (size_t n = 0; n < sizeof(text) - 1; n++)
		assert_int_equal(ask(text, n, &q), 0);
	assert_int_equal(ask("\5\1\0\1\x7f\0\0\1\0\x50", 10, &q), 10);
	assert_string_equal(q.host, "127.0.0.1");
	assert_int_equal(ask("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\x50", 22, &q), 22);
	assert_string_equal(q.host, "::1");
}

static void other_commands_and_kinds_are_refused(void **state UNUSED)
{
	struct socks_request q;

	assert_int_equal(ask("\5\2\0\3\1a\0\x50", 8, &q), -EOPNOTSUPP);
	assert_int_equal(ask("\5\3\0\3\1a\0\x50", 8, &q), -EOPNOTSUPP);
	assert_int_equal(ask("\5\1\0\2\1a\0\x50", 8, &q), -EBADMSG);
	assert_int_equal(ask("\5\1\0\3\0\0\x50", 7, &q), -EBADMSG);
	assert_int_equal(ask("\5\1\1\3\1a\0\x50", 8, &q), -EBADMSG);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_greeting_must_offer_no_authentication),
	cmocka_unit_test(names_and_addresses_are_taken_as_text),
	cmocka_unit_test(other_commands_and_kinds_are_refused),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
