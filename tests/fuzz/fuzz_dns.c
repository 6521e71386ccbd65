/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_dns.c - a question can be answered and its answer read; hostile answers are bounded. */
#include "fuzz.h"

#include "wire/dns.h"

static void as_question(const unsigned char *p, size_t n)
{
	struct dns_address a = { .bytes = { 198, 18, 0, 1 } };
	unsigned char out[DNS_PACKET_MAX];
	struct dns_question q;
	struct dns_answer got;
	ssize_t m;

	if (dns_read_question(p, n, &q) < 0)
		return;
	require(q.end <= n && q.name_len < DNS_NAME_MAX && strlen(q.name) == q.name_len);
	m = dns_write_answer(p, &q, DNS_NOERROR, &a, 30, out, sizeof(out));
	require(m > 0);
	if (q.type == DNS_A && q.class == DNS_IN && q.name_len)
		require(dns_read_answer(out, (size_t)m, q.id, q.name, DNS_A, &got) == 0 &&
			got.n == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_answer got;
	unsigned char *copy = malloc(size + 1);

	require(copy != NULL);
	memcpy(copy, data, size);
	if (size <= DNS_UDP_MAX)
		as_question(copy, size);
	if (dns_read_answer(copy, size, 0x1234, "a.test", DNS_A, &got) == 0)
		require(got.n <= DNS_ADDRS_MAX);
	if (dns_read_answer(copy, size, 0x1234, "a.test", DNS_AAAA, &got) == 0)
		require(got.n <= DNS_ADDRS_MAX);
	free(copy);
	return 0;
}
