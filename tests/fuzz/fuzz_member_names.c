/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_member_names.c - whatever is asked, an address is given for members' names alone, and
 * it is theirs. */
#include "fuzz.h"

#include <strings.h>

#include "egress/names/member_names.h"

static void check(const struct member_names *m, const unsigned char *p, size_t n)
{
	unsigned char out[DNS_UDP_MAX];
	struct dns_question q;
	struct dns_answer got;
	ssize_t k = member_names_answer(m, p, n, out, sizeof(out));
	bool known = false;

	if (k <= 0)
		return;
	require((size_t)k <= sizeof(out) && (out[2] & 0x80) && (size_t)k <= n + 16);
	if (dns_read_question(p, n, &q) < 0)
		return;
	for (size_t i = 0; i < m->n; i++)
		known |= strcasecmp(m->v[i].name, q.name) == 0;
	require((out[3] & 15) == (q.class != DNS_IN ? DNS_REFUSED
				  : known           ? DNS_NOERROR
						    : DNS_NXDOMAIN));
	require(out[7] == (known && q.class == DNS_IN && q.type == DNS_A)); /* answers */
	if (out[7])
		require(dns_read_answer(out, (size_t)k, q.id, q.name, DNS_A, &got) == 0 &&
			got.n == 1 && got.addrs[0].bytes[0] == 198 && got.addrs[0].bytes[2] == 254);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct member_names m = { .n = 0 }, read = { .n = 0 };
	char *text = malloc(size + 1);

	require(text != NULL && member_names_add(&m, "198.19.254.1", "sandbox") &&
		member_names_add(&m, "198.19.254.2", "Db_1"));
	if (size <= DNS_UDP_MAX)
		check(&m, data, size);
	memcpy(text, data, size);
	text[size] = '\0';
	if (member_names_read(&read, text))
		require(read.n <= MEMBER_NAMES_MAX);
	for (size_t i = 0; i < read.n; i++)
		require(memchr(read.v[i].name, '\0', MEMBER_NAME_SIZE) != NULL);
	free(text);
	return 0;
}
