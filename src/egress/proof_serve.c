/* SPDX-License-Identifier: Apache-2.0 */
/* egress/proof_serve.c - brig-egress as the one that verifies what hosts have signed.
 *
 * It holds a socket to the monitor and nothing else. What it is asked about is a key that the
 * monitor has by itself, and bytes of a command's: whatever those make of this process, it can say
 * yes or no, and no more. */
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <string.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/text/cleanup.h"
#include "egress/ssh/proof.h"
#include "proc/confine.h"

#define MONITOR 3
#define RSA_BITS_MIN 2048
#define SIGNATURE_MAX 512

DEFINE_CLEANUP(evp_pkey, EVP_PKEY *, EVP_PKEY_free)
DEFINE_CLEANUP(evp_pkey_ctx, EVP_PKEY_CTX *, EVP_PKEY_CTX_free)
DEFINE_CLEANUP(evp_md_ctx, EVP_MD_CTX *, EVP_MD_CTX_free)
DEFINE_CLEANUP(bn, BIGNUM *, BN_free)
DEFINE_CLEANUP(param_bld, OSSL_PARAM_BLD *, OSSL_PARAM_BLD_free)
DEFINE_CLEANUP(params, OSSL_PARAM *, OSSL_PARAM_free)
DEFINE_CLEANUP(ecdsa_sig, ECDSA_SIG *, ECDSA_SIG_free)

static BIGNUM *number_of(const struct agentmsg_bytes *b)
{
	return BN_bin2bn(b->p, (int)b->n, NULL);
}

static EVP_PKEY *key_from(const char *kind, const OSSL_PARAM *params)
{
	CLEANUP(evp_pkey_ctx) EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
	EVP_PKEY *key = NULL;

	if (!c || EVP_PKEY_fromdata_init(c) != 1 ||
	    EVP_PKEY_fromdata(c, &key, EVP_PKEY_PUBLIC_KEY, (OSSL_PARAM *)(uintptr_t)params) != 1)
		return NULL;
	return key;
}

static EVP_PKEY *rsa_key(const struct proof *p)
{
	CLEANUP(bn) BIGNUM *n = number_of(&p->n), *e = number_of(&p->e);
	CLEANUP(param_bld) OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
	CLEANUP(params) OSSL_PARAM *params = NULL;

	if (!n || !e || !b || BN_num_bits(n) < RSA_BITS_MIN ||
	    !OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_N, n) ||
	    !OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_E, e))
		return NULL;
	params = OSSL_PARAM_BLD_to_param(b);
	return params ? key_from("RSA", params) : NULL;
}

static EVP_PKEY *ec_key(const struct proof *p)
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME,
						 (char *)(uintptr_t)p->curve, 0),
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY,
						  (void *)(uintptr_t)p->key.p, p->key.n),
		OSSL_PARAM_construct_end(),
	};

	return key_from("EC", params);
}

static EVP_PKEY *proof_key(const struct proof *p)
{
	switch (p->kind) {
	case PROOF_ED25519:
		return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, p->key.p, p->key.n);
	case PROOF_ECDSA:
		return ec_key(p);
	case PROOF_RSA:
		return rsa_key(p);
	}
	return NULL;
}

/* As OpenSSL wants it: of ECDSA the two numbers in DER. The length, or 0. */
static size_t signature_of(const struct proof *p, unsigned char out[SIGNATURE_MAX * 4])
{
	CLEANUP(ecdsa_sig) ECDSA_SIG *sig = NULL;
	BIGNUM *r, *s;
	int n;

	if (p->kind != PROOF_ECDSA) {
		if (p->a.n > (size_t)SIGNATURE_MAX * 4)
			return 0;
		memcpy(out, p->a.p, p->a.n);
		return p->a.n;
	}
	sig = ECDSA_SIG_new();
	r = number_of(&p->a);
	s = number_of(&p->b);
	if (!sig || !r || !s || ECDSA_SIG_set0(sig, r, s) != 1) {
		BN_free(r);
		BN_free(s);
		return 0;
	}
	n = i2d_ECDSA_SIG(sig, NULL);
	if (n <= 0 || n > SIGNATURE_MAX)
		return 0;
	return (size_t)i2d_ECDSA_SIG(sig, &out);
}

static bool is_proven(const struct proof_ask *q)
{
	const struct agentmsg_bytes key = { q->key, q->key_n }, proof = { q->proof, q->proof_n };
	CLEANUP(evp_md_ctx) EVP_MD_CTX *c = EVP_MD_CTX_new();
	CLEANUP(evp_pkey) EVP_PKEY *k = NULL;
	unsigned char sig[SIGNATURE_MAX * 4];
	struct proof p;
	size_t n;

	if (q->key_n > sizeof(q->key) || q->session_n > sizeof(q->session) ||
	    q->proof_n > sizeof(q->proof) || !proof_read(&key, &proof, &p))
		return false;
	k = proof_key(&p);
	n = signature_of(&p, sig);
	return k && c && n && EVP_DigestVerifyInit_ex(c, NULL, p.hash, NULL, NULL, k, NULL) == 1 &&
	       EVP_DigestVerify(c, sig, n, q->session, q->session_n) == 1;
}

int proof_main(void)
{
	struct proof_ask q;
	struct err e;

	if (confine_early(&e) < 0 ||
	    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS,
				NULL) != 1 ||
	    confine(CONFINE_KEEPER, NULL, &e) < 0)
		return 1;
	while (recv(MONITOR, &q, sizeof(q), 0) == (ssize_t)sizeof(q)) {
		const unsigned char said = is_proven(&q) ? PROOF_GOOD : PROOF_BAD;

		if (send(MONITOR, &said, 1, MSG_NOSIGNAL) != 1)
			return 1;
	}
	return 0;
}
