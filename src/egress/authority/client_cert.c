/* SPDX-License-Identifier: Apache-2.0 */
/* egress/authority/client_cert.c - a provider of OpenSSL's, inside this program, whose keys are
 * public halves and whose signatures are the keeper's. */
#include "egress/authority/client_cert.h"

#include <errno.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"
#include "egress/authority/keeper_sign.h"

#define PROPERTIES "provider=brig"
#define KEY_NUMBER "brig-key"

struct client_shown {
	const char *host; /* borrowed */
	X509 *cert;
	STACK_OF(X509) * chain;
	EVP_PKEY *key;
};

struct client_certs {
	size_t n;
	struct client_shown v[];
};

/* There is one worker, and OpenSSL hands no argument down to here. */
static struct mint *signer;

/* ---- keys ---- */

struct far_key {
	EVP_PKEY *public;
	int number; /* the keeper's; -1: it is a host's public key, to be compared */
};

static void *far_key_new(void *provider UNUSED)
{
	struct far_key *k = calloc(1, sizeof(*k));

	if (k)
		k->number = -1;
	return k;
}

static void far_key_free(void *key)
{
	struct far_key *k = key;

	if (k)
		EVP_PKEY_free(k->public);
	free(k);
}

static int far_key_has(const void *key UNUSED, int selection UNUSED)
{
	return 1;
}

static int far_key_match(const void *a, const void *b, int selection UNUSED)
{
	const struct far_key *x = a, *y = b;

	return EVP_PKEY_eq(x->public, y->public) == 1;
}

static int far_key_import(struct far_key *k, const char *type, const OSSL_PARAM params[])
{
	EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, type, "provider=default");
	const OSSL_PARAM *number = OSSL_PARAM_locate_const(params, KEY_NUMBER);
	int ok = c && EVP_PKEY_fromdata_init(c) == 1 &&
		 EVP_PKEY_fromdata(c, &k->public, EVP_PKEY_PUBLIC_KEY, (OSSL_PARAM *)params) == 1;

	if (ok && number)
		ok = OSSL_PARAM_get_int(number, &k->number);
	EVP_PKEY_CTX_free(c);
	return ok;
}

static int far_key_import_ec(void *key, int selection UNUSED, const OSSL_PARAM params[])
{
	return far_key_import(key, "EC", params);
}

static int far_key_import_rsa(void *key, int selection UNUSED, const OSSL_PARAM params[])
{
	return far_key_import(key, "RSA", params);
}

static const OSSL_PARAM *far_key_import_types(int selection UNUSED)
{
	static const OSSL_PARAM types[] = {
		OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
		OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_PUB_KEY, NULL, 0),
		OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_N, NULL, 0),
		OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_E, NULL, 0),
		OSSL_PARAM_int(KEY_NUMBER, NULL),
		OSSL_PARAM_END,
	};

	return types;
}

static int far_key_get(void *key, OSSL_PARAM params[])
{
	struct far_key *k = key;

	return EVP_PKEY_get_params(k->public, params);
}

static const OSSL_PARAM *far_key_gettable(void *provider UNUSED)
{
	static const OSSL_PARAM types[] = {
		OSSL_PARAM_int(OSSL_PKEY_PARAM_BITS, NULL),
		OSSL_PARAM_int(OSSL_PKEY_PARAM_SECURITY_BITS, NULL),
		OSSL_PARAM_int(OSSL_PKEY_PARAM_MAX_SIZE, NULL),
		OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
		OSSL_PARAM_END,
	};

	return types;
}

static const char *signs_ec(int operation)
{
	return operation == OSSL_OP_SIGNATURE ? "ECDSA" : NULL;
}

static const char *signs_rsa(int operation)
{
	return operation == OSSL_OP_SIGNATURE ? "RSA" : NULL;
}

/* ---- signatures ---- */

struct far_signature {
	struct far_key *key; /* OpenSSL's, which outlives this */
	char hash[32];
};

static void *far_signature_new(void *provider UNUSED, const char *properties UNUSED)
{
	return calloc(1, sizeof(struct far_signature));
}

static int far_signature_begin(void *context, const char *hash, void *key,
			       const OSSL_PARAM params[] UNUSED)
{
	struct far_signature *s = context;

	if (key)
		s->key = key;
	(void)snprintf(s->hash, sizeof(s->hash), "%s", hash ? hash : "");
	return s->key && s->key->number >= 0;
}

static int far_signature_sign(void *context, unsigned char *out, size_t *len, size_t room,
			      const unsigned char *text, size_t n)
{
	struct far_signature *s = context;
	enum keeper_hash hash = str_eq(s->hash, "SHA2-256")   ? KEEPER_SHA256
				: str_eq(s->hash, "SHA2-384") ? KEEPER_SHA384
							      : KEEPER_SHA512;

	if (out)
		return mint_sign(signer, s->key->number, hash, text, n, out, room, len) == 0;
	*len = (size_t)EVP_PKEY_get_size(s->key->public);
	return 1;
}

/* TLS 1.3 leaves no choice: how RSA pads, the keeper knows. */
static int far_signature_set(void *context UNUSED, const OSSL_PARAM params[] UNUSED)
{
	return 1;
}

static const OSSL_PARAM *far_signature_settable(void *context UNUSED, void *provider UNUSED)
{
	static const OSSL_PARAM types[] = {
		OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, NULL, 0),
		OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PSS_SALTLEN, NULL, 0),
		OSSL_PARAM_END,
	};

	return types;
}

/* ---- the provider ---- */

typedef void (*any_fn)(void);

#define KEYS(IMPORT, SIGNS)                                                                        \
	{                                                                                          \
		{ OSSL_FUNC_KEYMGMT_NEW, (any_fn)far_key_new },                                    \
			{ OSSL_FUNC_KEYMGMT_FREE, (any_fn)far_key_free },                          \
			{ OSSL_FUNC_KEYMGMT_HAS, (any_fn)far_key_has },                            \
			{ OSSL_FUNC_KEYMGMT_MATCH, (any_fn)far_key_match },                        \
			{ OSSL_FUNC_KEYMGMT_IMPORT, (any_fn)(IMPORT) },                            \
			{ OSSL_FUNC_KEYMGMT_IMPORT_TYPES, (any_fn)far_key_import_types },          \
			{ OSSL_FUNC_KEYMGMT_GET_PARAMS, (any_fn)far_key_get },                     \
			{ OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, (any_fn)far_key_gettable },           \
			{ OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME, (any_fn)(SIGNS) },               \
		{                                                                                  \
			0, NULL                                                                    \
		}                                                                                  \
	}

static const OSSL_DISPATCH keys_ec[] = KEYS(far_key_import_ec, signs_ec);
static const OSSL_DISPATCH keys_rsa[] = KEYS(far_key_import_rsa, signs_rsa);
static const OSSL_DISPATCH signatures[] = {
	{ OSSL_FUNC_SIGNATURE_NEWCTX, (any_fn)far_signature_new },
	{ OSSL_FUNC_SIGNATURE_FREECTX, (any_fn)free },
	{ OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, (any_fn)far_signature_begin },
	{ OSSL_FUNC_SIGNATURE_DIGEST_SIGN, (any_fn)far_signature_sign },
	{ OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS, (any_fn)far_signature_set },
	{ OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS, (any_fn)far_signature_settable },
	{ 0, NULL },
};

static const OSSL_ALGORITHM *provider_query(void *context UNUSED, int operation, int *no_cache)
{
	static const OSSL_ALGORITHM keys[] = {
		{ "EC:id-ecPublicKey", PROPERTIES, keys_ec, "" },
		{ "RSA:rsaEncryption", PROPERTIES, keys_rsa, "" },
		{ NULL, NULL, NULL, NULL },
	};
	static const OSSL_ALGORITHM signs[] = {
		{ "ECDSA", PROPERTIES, signatures, "" },
		{ "RSA:rsaEncryption", PROPERTIES, signatures, "" },
		{ NULL, NULL, NULL, NULL },
	};

	*no_cache = 0;
	return operation == OSSL_OP_KEYMGMT ? keys : operation == OSSL_OP_SIGNATURE ? signs : NULL;
}

static int provider_init(const OSSL_CORE_HANDLE *handle UNUSED, const OSSL_DISPATCH *in UNUSED,
			 const OSSL_DISPATCH **out, void **context)
{
	static const OSSL_DISPATCH does[] = {
		{ OSSL_FUNC_PROVIDER_QUERY_OPERATION, (any_fn)provider_query },
		{ 0, NULL },
	};
	static char here;

	*out = does;
	*context = &here;
	return 1;
}

/* What asks for no provider gets OpenSSL's own, as without this one. */
static bool provider_load(void)
{
	return OSSL_PROVIDER_add_builtin(NULL, "brig", provider_init) == 1 &&
	       OSSL_PROVIDER_load(NULL, "brig") && OSSL_PROVIDER_load(NULL, "default") &&
	       EVP_set_default_properties(NULL, "?provider=default") == 1;
}

/* ---- certificates ---- */

static EVP_PKEY *client_key_of(X509 *cert, int number)
{
	EVP_PKEY *public = X509_get0_pubkey(cert), *key = NULL;
	OSSL_PARAM *params = NULL, *more = NULL;
	OSSL_PARAM own[] = { OSSL_PARAM_int(KEY_NUMBER, &number), OSSL_PARAM_END };
	EVP_PKEY_CTX *c = NULL;

	if (public && EVP_PKEY_todata(public, EVP_PKEY_PUBLIC_KEY, &params) == 1 &&
	    (more = OSSL_PARAM_merge(params, own)))
		c = EVP_PKEY_CTX_new_from_name(NULL, EVP_PKEY_get0_type_name(public), PROPERTIES);
	if (c && EVP_PKEY_fromdata_init(c) == 1)
		(void)EVP_PKEY_fromdata(c, &key, EVP_PKEY_PUBLIC_KEY, more);
	EVP_PKEY_CTX_free(c);
	OSSL_PARAM_free(more);
	OSSL_PARAM_free(params);
	return key;
}

static bool is_rsa(const EVP_PKEY *key)
{
	return EVP_PKEY_is_a(key, "RSA");
}

/* Is the key that the keeper has this certificate's? */
static bool key_fits(X509 *cert, int number)
{
	unsigned char text[KEEPER_TEXT_MAX], out[KEEPER_LEAF_MAX];
	EVP_PKEY *public = X509_get0_pubkey(cert);
	EVP_MD_CTX *m = EVP_MD_CTX_new();
	EVP_PKEY_CTX *c = NULL;
	size_t n = keeper_text(text, 32), len = 0;
	bool ok =
		m && mint_sign(signer, number, KEEPER_SHA256, text, n, out, sizeof(out), &len) == 0;

	ok = ok && EVP_DigestVerifyInit(m, &c, EVP_sha256(), NULL, public) == 1 &&
	     (!is_rsa(public) ||
	      (EVP_PKEY_CTX_set_rsa_padding(c, RSA_PKCS1_PSS_PADDING) == 1 &&
	       EVP_PKEY_CTX_set_rsa_pss_saltlen(c, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
	     EVP_DigestVerify(m, out, len, text, n) == 1;
	EVP_MD_CTX_free(m);
	return ok;
}

static bool read_chain(struct client_shown *s, const char *pem)
{
	BIO *b = BIO_new_mem_buf(pem, -1);
	X509 *x;

	s->chain = sk_X509_new_null();
	s->cert = b && s->chain ? PEM_read_bio_X509(b, NULL, NULL, NULL) : NULL;
	while (s->cert && (x = PEM_read_bio_X509(b, NULL, NULL, NULL)))
		if (!sk_X509_push(s->chain, x))
			X509_free(x);
	BIO_free(b);
	return s->cert != NULL;
}

static int shown_new(struct client_shown *s, const struct envvar *from, int number, struct err *e)
{
	s->host = from->name;
	if (!read_chain(s, from->value))
		return err_set(e, ERR_CONFIG, EINVAL,
			       "egress.client_certs: the certificate for %.100s cannot be read",
			       s->host);
	s->key = client_key_of(s->cert, number);
	if (!s->key)
		return err_refuse(e, ERR_CONFIG, EINVAL, "RSA or EC",
				  "egress.client_certs: the key for %.100s is of no kind that is "
				  "known",
				  s->host);
	if (!key_fits(s->cert, number))
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "the certificate of the key comes first in its file",
				  "egress.client_certs: the key for %.100s is not that of its "
				  "certificate",
				  s->host);
	return 0;
}

int client_certs_new(const struct envlist *pems, struct mint *m, struct client_certs **ret,
		     struct err *e)
{
	struct client_certs *c;
	int r = 0;

	if (!pems->n)
		return 0;
	signer = m;
	c = calloc(1, sizeof(*c) + pems->n * sizeof(c->v[0]));
	if (!c)
		return err_nomem(e);
	if (!provider_load())
		r = err_set(e, ERR_INTERNAL, EIO, "OpenSSL takes no provider");
	for (size_t i = 0; i < pems->n && r == 0; i++) {
		c->n = i + 1;
		r = shown_new(&c->v[i], &pems->v[i], (int)i, e);
	}
	if (r < 0)
		return (void)client_certs_free(c), r;
	*ret = c;
	return 0;
}

struct client_certs *client_certs_free(struct client_certs *c)
{
	for (size_t i = 0; c && i < c->n; i++) {
		X509_free(c->v[i].cert);
		sk_X509_pop_free(c->v[i].chain, X509_free);
		EVP_PKEY_free(c->v[i].key);
	}
	free(c);
	return NULL;
}

static const struct client_shown *shown_for(const struct client_certs *c, const char *name)
{
	for (size_t i = 0; c && i < c->n; i++)
		if (str_eq(c->v[i].host, name))
			return &c->v[i];
	return NULL;
}

bool client_certs_has(const struct client_certs *c, const char *name)
{
	return shown_for(c, name) != NULL;
}

bool client_certs_show(const struct client_certs *c, const char *name, SSL *ssl)
{
	const struct client_shown *s = shown_for(c, name);

	return !s || (SSL_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
		      SSL_use_certificate(ssl, s->cert) == 1 &&
		      SSL_set1_chain(ssl, s->chain) == 1 && SSL_use_PrivateKey(ssl, s->key) == 1);
}
