/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/authority/keeper_sign.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/cleanup.h"

#define BLANKS 64
#define PURPOSE "TLS 1.3, client CertificateVerify" /* and the NUL behind it */

struct keeper_keys {
	size_t n;
	EVP_PKEY *v[KEEPER_KEYS_MAX];
};

/* ---- what may be signed ---- */

size_t keeper_text(unsigned char out[KEEPER_TEXT_MAX], size_t hash)
{
	memset(out, ' ', BLANKS);
	memcpy(out + BLANKS, PURPOSE, sizeof(PURPOSE));
	memset(out + BLANKS + sizeof(PURPOSE), 0, hash);
	return BLANKS + sizeof(PURPOSE) + hash;
}

bool keeper_text_ok(const unsigned char *p, size_t n)
{
	unsigned char head[KEEPER_TEXT_MAX];
	size_t fixed = keeper_text(head, 0);

	return (n == fixed + 32 || n == fixed + 48) && memcmp(p, head, fixed) == 0;
}

/* ---- keys ---- */

/* brig has refused a key with a password. */
static int no_password(char *out UNUSED, int size UNUSED, int writing UNUSED, void *arg UNUSED)
{
	return -1;
}

static void read_keys(struct keeper_keys *k, const char *text, size_t n)
{
	BIO *b = BIO_new_mem_buf(text, (int)n);
	EVP_PKEY *key;

	while (b && k->n < KEEPER_KEYS_MAX &&
	       (key = PEM_read_bio_PrivateKey(b, NULL, no_password, NULL)))
		k->v[k->n++] = key;
	BIO_free(b);
}

static size_t read_end(int fd, char *out)
{
	size_t n = 0;
	ssize_t r;

	do {
		r = read(fd, out + n, KEEPER_KEYS_BYTES - n);
		n += r > 0 ? (size_t)r : 0;
	} while (n < KEEPER_KEYS_BYTES && (r > 0 || (r < 0 && errno == EINTR)));
	return n;
}

struct keeper_keys *keeper_keys_read(int fd)
{
	char *text = malloc(KEEPER_KEYS_BYTES);
	size_t n = text ? read_end(fd, text) : 0;
	struct keeper_keys *k = n ? calloc(1, sizeof(*k)) : NULL;

	if (k)
		read_keys(k, text, n);
	if (n)
		explicit_bzero(text, n);
	free(text);
	return k;
}

struct keeper_keys *keeper_keys_free(struct keeper_keys *k)
{
	for (size_t i = 0; k && i < k->n; i++)
		EVP_PKEY_free(k->v[i]);
	free(k);
	return NULL;
}

/* ---- signing ---- */

static const EVP_MD *hash_of(unsigned char h)
{
	switch (h) {
	case KEEPER_SHA256:
		return EVP_sha256();
	case KEEPER_SHA384:
		return EVP_sha384();
	case KEEPER_SHA512:
		return EVP_sha512();
	default:
		return NULL;
	}
}

int keeper_sign(const struct keeper_keys *k, const struct keeper_ask *q, struct keeper_answer *a)
{
	const EVP_MD *hash = q->len > 2 ? hash_of(q->data[1]) : NULL;
	EVP_PKEY *key = k && q->len > 2 && q->data[0] < k->n ? k->v[q->data[0]] : NULL;
	EVP_PKEY_CTX *c = NULL;
	EVP_MD_CTX *m;
	size_t n = sizeof(a->leaf);
	bool ok;

	if (!key || !hash || !keeper_text_ok(q->data + 2, q->len - 2))
		return -EINVAL;
	m = EVP_MD_CTX_new();
	ok = m && EVP_DigestSignInit(m, &c, hash, NULL, key) == 1;
	if (ok && EVP_PKEY_is_a(key, "RSA")) /* as TLS 1.3 has it, and no other way */
		ok = EVP_PKEY_CTX_set_rsa_padding(c, RSA_PKCS1_PSS_PADDING) == 1 &&
		     EVP_PKEY_CTX_set_rsa_pss_saltlen(c, RSA_PSS_SALTLEN_DIGEST) == 1;
	ok = ok && EVP_DigestSign(m, a->leaf, &n, q->data + 2, q->len - 2) == 1;
	EVP_MD_CTX_free(m);
	a->len = ok ? (uint32_t)n : 0;
	return ok ? 0 : -EIO;
}
