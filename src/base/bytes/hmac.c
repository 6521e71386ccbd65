/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/hmac.h"

#include <string.h>

static void pad(struct sha256 *h, const unsigned char key[64], unsigned char with)
{
	unsigned char block[64];

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = key[i] ^ with;
	sha256_init(h);
	sha256_add(h, block, sizeof(block));
}

void hmac_key_init(struct hmac_key *k, const void *key, size_t n)
{
	unsigned char block[64] = { 0 };

	if (n > sizeof(block)) {
		struct sha256 h;

		sha256_init(&h);
		sha256_add(&h, key, n);
		sha256_end(&h, block);
	} else {
		memcpy(block, key, n);
	}
	pad(&k->inner, block, 0x36);
	pad(&k->outer, block, 0x5c);
}

void hmac_begin(struct hmac *m, const struct hmac_key *k)
{
	m->h = k->inner;
	m->k = k;
}

void hmac_add(struct hmac *m, const void *p, size_t n)
{
	sha256_add(&m->h, p, n);
}

void hmac_end(struct hmac *m, unsigned char out[SHA256_SIZE])
{
	unsigned char inner[SHA256_SIZE];

	sha256_end(&m->h, inner);
	m->h = m->k->outer;
	sha256_add(&m->h, inner, sizeof(inner));
	sha256_end(&m->h, out);
}

void hmac_sha256(const struct hmac_key *k, const void *p, size_t n, unsigned char out[SHA256_SIZE])
{
	struct hmac m;

	hmac_begin(&m, k);
	hmac_add(&m, p, n);
	hmac_end(&m, out);
}

bool hmac_equal(const unsigned char a[SHA256_SIZE], const unsigned char b[SHA256_SIZE])
{
	unsigned differ = 0;

	for (size_t i = 0; i < SHA256_SIZE; i++)
		differ |= a[i] ^ b[i];
	return differ == 0;
}
