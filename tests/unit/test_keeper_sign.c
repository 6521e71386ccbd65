/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <unistd.h>

#include "egress/authority/keeper_sign.h"

/* One key, as the keeper gets them. */
static struct keeper_keys *one_key(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	struct keeper_keys *k;
	int ends[2];
	FILE *f;

	assert_int_equal(pipe(ends), 0);
	f = fdopen(ends[1], "w");
	assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(fclose(f), 0);
	k = keeper_keys_read(ends[0]);
	(void)close(ends[0]);
	EVP_PKEY_free(key);
	assert_non_null(k);
	return k;
}

static int sign(const struct keeper_keys *k, int key, int hash, const void *text, size_t n)
{
	static struct keeper_answer a;
	struct keeper_ask q = { .kind = KEEPER_SIGN, .len = (uint32_t)n + 2 };
	int r;

	q.data[0] = (unsigned char)key;
	q.data[1] = (unsigned char)hash;
	memcpy(q.data + 2, text, n);
	r = keeper_sign(k, &q, &a);
	assert_true(r < 0 || a.len > 0);
	return r;
}

static void a_client_of_tls_1_3_is_signed_for_and_nobody_else(void **state UNUSED)
{
	struct keeper_keys *k = one_key();
	unsigned char text[KEEPER_TEXT_MAX], other[KEEPER_TEXT_MAX];
	size_t n = keeper_text(text, 32);

	/* The controls. */
	assert_int_equal(sign(k, 0, KEEPER_SHA256, text, n), 0);
	assert_int_equal(keeper_text(text, 48), n + 16);
	assert_int_equal(sign(k, 0, KEEPER_SHA384, text, n + 16), 0);
	/* Every byte of the form, and its length. */
	for (size_t i = 0; i < n - 32; i++) {
		memcpy(other, text, n);
		other[i] ^= 1;
		assert_int_equal(sign(k, 0, KEEPER_SHA256, other, n), -EINVAL);
	}
	for (size_t i = 0; i < n + 16; i++)
		if (i != n)
			assert_int_equal(sign(k, 0, KEEPER_SHA256, text, i), -EINVAL);
	memcpy(other, text, n);
	memcpy(other + 64, "TLS 1.3, server", 15);
	assert_int_equal(sign(k, 0, KEEPER_SHA256, other, n), -EINVAL);
	/* A hash, as TLS 1.2 has one signed; no such key; no such hash; no key at all. */
	assert_int_equal(sign(k, 0, KEEPER_SHA256, text + 98, 32), -EINVAL);
	assert_int_equal(sign(k, 1, KEEPER_SHA256, text, n), -EINVAL);
	assert_int_equal(sign(k, 0, KEEPER_HASHES, text, n), -EINVAL);
	assert_int_equal(sign(NULL, 0, KEEPER_SHA256, text, n), -EINVAL);
	(void)keeper_keys_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_of_tls_1_3_is_signed_for_and_nobody_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
