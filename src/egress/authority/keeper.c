/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/authority/keeper.h"

#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "egress/authority/authority.h"
#include "egress/authority/keeper_sign.h"
#include "egress/authority/prepared.h"
#include "egress/rules/addr.h"
#include "egress/rules/host.h"
#include "proc/confine.h"

#define SKEW (-3600L) /* a guest whose clock is a little behind */
#define LEAF_LIFE (2L * 24 * 3600)

DEFINE_CLEANUP(x509, X509 *, X509_free)

struct keeper {
	struct authority authority; /* its key exists here and nowhere else */
	EVP_PKEY *leaf_key;         /* the worker's, public half */
	struct keeper_keys *users;  /* of client certificates; NULL: there are none */
};

static int serial(X509 *x)
{
	unsigned char raw[16];
	BIGNUM *n;
	int ok;

	if (RAND_bytes(raw, sizeof(raw)) != 1)
		return 0;
	raw[0] = (raw[0] & 0x7f) | 0x40;
	n = BN_bin2bn(raw, sizeof(raw), NULL);
	ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return ok;
}

static int extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;
	int ok;

	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	X509V3_set_ctx_nodb(&ctx);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = ext && X509_add_ext(x, ext, -1);
	X509_EXTENSION_free(ext);
	return ok;
}

static int common_name(X509_NAME *name, const char *text)
{
	return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_ASC,
					  (const unsigned char *)text, -1, -1, 0);
}

static int keeper_begin(X509 *x, EVP_PKEY *key, long life)
{
	return X509_set_version(x, X509_VERSION_3) && serial(x) &&
	       X509_gmtime_adj(X509_getm_notBefore(x), SKEW) &&
	       X509_gmtime_adj(X509_getm_notAfter(x), life) && X509_set_pubkey(x, key);
}

static int keeper_tell(void *arg, const char *pem, size_t n)
{
	const int *out = arg;

	return fd_write_all(*out, pem, n);
}

static int take_key(struct keeper *k, const struct keeper_ask *q)
{
	const unsigned char *p = q->data;

	if (k->leaf_key)
		return -EALREADY;
	k->leaf_key = d2i_PUBKEY(NULL, &p, (long)q->len);
	return k->leaf_key ? 0 : -EBADMSG;
}

/* The name as a subjectAltName. It is checked again: this is the side that must not be fooled. */
static int alt_name(const struct keeper_ask *q, char out[KEEPER_NAME_MAX + 8])
{
	struct egress_text t = egress_text((const char *)q->data, q->len);
	struct addr a;
	struct host h;

	if (addr_parse(t.p, t.n, &a) == 0) {
		char text[48];

		addr_text(&a, text);
		(void)snprintf(out, KEEPER_NAME_MAX + 8, "IP:%s", text);
		return 0;
	}
	if (host_parse(t, &h) != HOST_OK || h.len != q->len || memcmp(h.name, t.p, t.n) != 0)
		return -EINVAL;
	(void)snprintf(out, KEEPER_NAME_MAX + 8, "DNS:%s", h.name);
	return 0;
}

static int make_leaf(const struct keeper *k, const struct keeper_ask *q, struct keeper_answer *a)
{
	CLEANUP(x509) X509 *x = X509_new();
	char name[KEEPER_NAME_MAX + 8];
	unsigned char *p = a->leaf;
	int n;

	if (!x || !k->leaf_key || alt_name(q, name) < 0)
		return -EINVAL;
	if (!keeper_begin(x, k->leaf_key, LEAF_LIFE) ||
	    !common_name(X509_get_subject_name(x), "brig leaf") ||
	    !X509_set_issuer_name(x, X509_get_subject_name(k->authority.cert)) ||
	    !extension(x, k->authority.cert, NID_basic_constraints, "critical,CA:FALSE") ||
	    !extension(x, k->authority.cert, NID_key_usage, "critical,digitalSignature") ||
	    !extension(x, k->authority.cert, NID_ext_key_usage, "serverAuth") ||
	    !extension(x, k->authority.cert, NID_authority_key_identifier, "keyid:always") ||
	    !extension(x, k->authority.cert, NID_subject_alt_name, name) ||
	    !X509_sign(x, k->authority.key, EVP_sha256()))
		return -EIO;
	n = i2d_X509(x, NULL);
	if (n <= 0 || n > KEEPER_LEAF_MAX)
		return -EMSGSIZE;
	a->len = (uint32_t)i2d_X509(x, &p);
	return 0;
}

static int keeper_answer_to(struct keeper *k, const struct keeper_ask *q, struct keeper_answer *a)
{
	switch (q->kind) {
	case KEEPER_KEY:
		return take_key(k, q);
	case KEEPER_LEAF:
		return make_leaf(k, q, a);
	case KEEPER_SIGN:
		return keeper_sign(k->users, q, a);
	default:
		return -EOPNOTSUPP;
	}
}

static void keeper_serve(struct keeper *k, int sock)
{
	struct keeper_answer a;
	struct keeper_ask q;
	ssize_t n;

	for (;;) {
		do
			n = recv(sock, &q, sizeof(q), 0);
		while (n < 0 && errno == EINTR);
		if (n != (ssize_t)sizeof(q) || q.len > sizeof(q.data))
			return;
		memset(&a, 0, sizeof(a));
		a.serial = q.serial;
		a.status = keeper_answer_to(k, &q, &a);
		if (send(sock, &a, sizeof(a), MSG_NOSIGNAL) != (ssize_t)sizeof(a))
			return;
	}
}

/* The one that an earlier run's keeper made. */
static int keeper_take(struct keeper *k, int record)
{
	char text[PREPARED_MAX];
	ssize_t n = pread(record, text, sizeof(text), 0);
	int r = n <= 0 ? -EIO : authority_load(text, (size_t)n, &k->authority);

	explicit_bzero(text, sizeof(text));
	(void)close(record);
	return r;
}

/* Before anything of a guest's is read by the process beside this one: a later run believes it. */
static void keeper_make_ahead(int out)
{
	CLEANUP(buf) struct buf record = BUF_INIT(PREPARED_MAX);

	if (authority_make_ahead(&record) == 0)
		(void)fd_write_all(out, buf_str(&record), record.len);
	if (record.data)
		explicit_bzero(record.data, record.len);
}

int keeper_main(enum keeper_way way, int sock, int out, int record)
{
	struct keeper k = { 0 };
	struct err e = { 0 };
	int r = -EIO;

	/* Nothing here comes from a file: not even how OpenSSL behaves. A run waits for this: the
	 * list of all algorithms, of which three are used, and the texts of errors, which nobody
	 * hears, would be most of the work. */
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ADD_ALL_CIPHERS |
					OPENSSL_INIT_NO_ADD_ALL_DIGESTS |
					OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS,
				NULL) == 1)
		r = way == KEEPER_TAKES ? keeper_take(&k, record)
					: authority_make(&k.authority, keeper_tell, &out);
	if (r == 0 && way != KEEPER_MAKES)
		keeper_make_ahead(out);
	if (shutdown(out, SHUT_WR) == 0)
		k.users = keeper_keys_read(out);
	(void)close(out);
	if (r == 0)
		r = confine(CONFINE_KEEPER, NULL, &e);
	if (r == 0)
		keeper_serve(&k, sock);
	authority_done(&k.authority);
	EVP_PKEY_free(k.leaf_key);
	(void)keeper_keys_free(k.users);
	return r == 0 ? 0 : 1;
}
