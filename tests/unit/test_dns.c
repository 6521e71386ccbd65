/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "wire/dns.h"

static ssize_t question(const char *name, uint16_t type, unsigned char out[512])
{
	return dns_write_question(0x1234, name, type, out, 512);
}

static void a_question_comes_back_as_it_was_written(void **state UNUSED)
{
	unsigned char p[512];
	ssize_t n = question("api.example.test", DNS_AAAA, p);
	struct dns_question q;

	assert_true(n > 0);
	assert_int_equal(dns_read_question(p, (size_t)n, &q), 0);
	assert_string_equal(q.name, "api.example.test");
	assert_true(q.id == 0x1234 && q.type == DNS_AAAA && q.class == DNS_IN && q.recursion);
	for (ssize_t i = 0; i < n; i++)
		assert_true(dns_read_question(p, (size_t)i, &q) < 0);
}

static void an_answer_gives_the_address_to_its_question_only(void **state UNUSED)
{
	struct dns_address a = { .bytes = { 198, 18, 0, 1 } };
	unsigned char p[512], out[512];
	ssize_t n = question("api.test", DNS_A, p), m;
	struct dns_question q;
	struct dns_answer got;

	assert_int_equal(dns_read_question(p, (size_t)n, &q), 0);
	m = dns_write_answer(p, &q, DNS_NOERROR, &a, 30, out, sizeof(out));
	assert_true(m > 0);
	assert_int_equal(dns_read_answer(out, (size_t)m, 0x1234, "API.test", DNS_A, &got), 0);
	assert_true(got.n == 1 && !got.addrs[0].six && memcmp(got.addrs[0].bytes, a.bytes, 4) == 0);
	assert_true(dns_read_answer(out, (size_t)m, 0x1235, "api.test", DNS_A, &got) < 0);
	assert_true(dns_read_answer(out, (size_t)m, 0x1234, "apx.test", DNS_A, &got) < 0);
	assert_true(dns_read_answer(out, (size_t)m, 0x1234, "api.test", DNS_AAAA, &got) < 0);
	assert_int_equal(dns_write_answer(p, &q, DNS_NOERROR, &a, 30, out, (size_t)m - 1), -ENOSPC);
}

static void no_data_and_no_such_name_have_no_record(void **state UNUSED)
{
	unsigned char p[512], out[512];
	ssize_t n = question("api.test", DNS_A, p), m;
	struct dns_question q;
	struct dns_answer got;

	assert_int_equal(dns_read_question(p, (size_t)n, &q), 0);
	m = dns_write_answer(p, &q, DNS_NXDOMAIN, NULL, 0, out, sizeof(out));
	assert_int_equal(dns_read_answer(out, (size_t)m, 0x1234, "api.test", DNS_A, &got), 0);
	assert_true(got.n == 0 && got.code == DNS_NXDOMAIN);
}

static void names_that_text_cannot_carry_are_malformed(void **state UNUSED)
{
	static const unsigned char odd[] = { '.', 0, ' ', 0x80, '\\', '\n' };
	unsigned char p[512];
	struct dns_question q;

	for (size_t i = 0; i < sizeof(odd); i++) {
		ssize_t n = question("a.test", DNS_A, p);

		p[13] = odd[i];
		assert_int_equal(dns_read_question(p, (size_t)n, &q), -EOPNOTSUPP);
		assert_int_equal(q.id, 0x1234);
	}
}

static void what_cannot_be_answered_is_refused_or_dropped(void **state UNUSED)
{
	unsigned char p[512], out[DNS_UDP_MAX];
	struct dns_question q;
	ssize_t n = question("a.test", DNS_A, p);

	assert_int_equal(dns_take_question(p, (size_t)n, &q, out, sizeof(out)), 0);
	assert_int_equal(dns_take_question(p, 3, &q, out, sizeof(out)), -1);
	p[n - 1] = 3; /* class CH */
	assert_true(dns_take_question(p, (size_t)n, &q, out, sizeof(out)) > 0);
	assert_int_equal(out[3] & 15, DNS_REFUSED);
	p[13] = '.';
	assert_true(dns_take_question(p, (size_t)n, &q, out, sizeof(out)) > 0);
	assert_int_equal(out[3] & 15, DNS_FORMERR);
	p[2] |= 2 << 3; /* the server's status */
	assert_true(dns_take_question(p, (size_t)n, &q, out, sizeof(out)) > 0);
	assert_int_equal(out[3] & 15, DNS_NOTIMP);
}

static void a_chain_of_aliases_is_followed_but_not_for_ever(void **state UNUSED)
{
	/* a.test CNAME b.test, b.test A 192.0.2.1; then one that points at itself */
	static const unsigned char chain[] = "\x12\x34\x81\x80\0\1\0\2\0\0\0\0\1a\4test\0\0\1\0\1"
					     "\xc0\x0c\0\5\0\1\0\0\0\1\0\4\1b\xc0\x0e"
					     "\xc0\x24\0\1\0\1\0\0\0\1\0\4\xc0\0\2\1";
	static const unsigned char circle[] = "\x12\x34\x81\x80\0\1\0\1\0\0\0\0\1a\4test\0\0\1\0\1"
					      "\xc0\x0c\0\5\0\1\0\0\0\1\0\2\xc0\x0c";
	static const unsigned char forward[] = "\x12\x34\x81\x80\0\1\0\1\0\0\0\0\1a\4test\0\0\1\0\1"
					       "\xc0\x18\0\1\0\1\0\0\0\1\0\4\xc0\0\2\1";
	struct dns_answer got;

	assert_int_equal(dns_read_answer(chain, sizeof(chain) - 1, 0x1234, "a.test", DNS_A, &got),
			 0);
	assert_int_equal(got.n, 1);
	assert_true(dns_read_answer(circle, sizeof(circle) - 1, 0x1234, "a.test", DNS_A, &got) < 0);
	assert_true(dns_read_answer(forward, sizeof(forward) - 1, 0x1234, "a.test", DNS_A, &got) <
		    0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_question_comes_back_as_it_was_written),
	cmocka_unit_test(an_answer_gives_the_address_to_its_question_only),
	cmocka_unit_test(no_data_and_no_such_name_have_no_record),
	cmocka_unit_test(names_that_text_cannot_carry_are_malformed),
	cmocka_unit_test(what_cannot_be_answered_is_refused_or_dropped),
	cmocka_unit_test(a_chain_of_aliases_is_followed_but_not_for_ever),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
