/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_client_pem.c - nothing of a key is ever among the certificates, and a key that is taken
 * is one whole block of the text. */
#include "fuzz.h"

#include "egress/credential/client_pem.h"

#define KEY "PRIVATE KEY-----"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf certs = BUF_INIT(1 << 20);
	const char *text = (const char *)data;
	size_t at = 0, n = 0;
	struct err e;

	if (client_pem_split(text, size, &certs, &at, &n, &e) == 0) {
		require(n && at + n <= size && certs.len);
		require(memcmp(text + at, "-----BEGIN ", 11) == 0);
		require(memcmp(text + at + n - sizeof(KEY) + 1, KEY, sizeof(KEY) - 1) == 0);
		require(!memmem(text + at, n, "ENCRYPTED", 9));
		require(strncmp(buf_str(&certs), "-----BEGIN CERTIFICATE-----", 27) == 0);
		for (const char *p = certs.data;
		     (p = memmem(p, certs.data + certs.len - p, "-----BEGIN ", 11)); p += 11)
			require(strncmp(p + 11, "CERTIFICATE-----", 16) == 0);
	}
	buf_done(&certs);
	return 0;
}
