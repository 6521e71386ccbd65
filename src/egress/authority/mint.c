/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/authority/mint.h"

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/files/fd.h"
#include "base/text/str.h"
#include "egress/authority/keeper.h"

#define LEAVES 256

struct leaf {
	char name[KEEPER_NAME_MAX + 1];
	X509 *cert; /* NULL: empty */
	uint64_t used;
};

struct mint {
	int keeper;
	EVP_PKEY *key;
	SSL_CTX *ctx;
	struct leaf leaves[LEAVES];
	uint64_t clock;
	uint32_t serial;
};

static int mint_ask(struct mint *m, struct keeper_ask *q, struct keeper_answer *a)
{
	q->serial = ++m->serial;
	if (send(m->keeper, q, sizeof(*q), MSG_NOSIGNAL) != (ssize_t)sizeof(*q))
		return -EPIPE;
	do /* past answers that came after their question was given up */
		if (recv(m->keeper, a, sizeof(*a), 0) != (ssize_t)sizeof(*a) ||
		    a->len > sizeof(a->leaf))
			return -EPIPE;
	while (a->serial != q->serial);
	return a->status;
}

int mint_sign(struct mint *m, int key, enum keeper_hash hash, const unsigned char *text, size_t n,
	      unsigned char *out, size_t room, size_t *len)
{
	struct keeper_ask q = { .kind = KEEPER_SIGN, .len = (uint32_t)n + 2 };
	struct keeper_answer a;
	int r;

	if (n + 2 > sizeof(q.data) || key < 0 || key >= KEEPER_KEYS_MAX)
		return -EINVAL;
	q.data[0] = (unsigned char)key;
	q.data[1] = (unsigned char)hash;
	memcpy(q.data + 2, text, n);
	r = mint_ask(m, &q, &a);
	if (r == 0 && a.len > room)
		r = -EMSGSIZE;
	if (r < 0)
		return r;
	memcpy(out, a.leaf, a.len);
	*len = a.len;
	return 0;
}

static int give_key(struct mint *m)
{
	struct keeper_ask q = { .kind = KEEPER_KEY };
	struct keeper_answer a;
	unsigned char *der = NULL;
	int n = i2d_PUBKEY(m->key, &der), r = -EIO;

	if (n > 0 && (size_t)n <= sizeof(q.data)) {
		memcpy(q.data, der, (size_t)n);
		q.len = (uint32_t)n;
		r = mint_ask(m, &q, &a);
	}
	OPENSSL_free(der);
	return r;
}

/* What the door reads, HTTP/2 first: what else is offered is not taken. */
static int choose_alpn(SSL *ssl UNUSED, const unsigned char **out, unsigned char *len,
		       const unsigned char *in, unsigned n, void *arg UNUSED)
{
	static const unsigned char reads[] = "\x02h2\x08http/1.1";
	unsigned char *got = NULL;

	if (SSL_select_next_proto(&got, len, reads, sizeof(reads) - 1, in, n) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = got;
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *server_context(void)
{
	SSL_CTX *c = tls_context(true);

	if (!c || SSL_CTX_set_num_tickets(c, 0) != 1) {
		SSL_CTX_free(c);
		return NULL;
	}
	(void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_options(c, SSL_OP_NO_TICKET);
	SSL_CTX_set_alpn_select_cb(c, choose_alpn, NULL);
	return c;
}

int mint_new(int keeper, struct mint **ret, struct err *e)
{
	const struct timeval patience = { .tv_sec = 1 };
	struct mint *m = calloc(1, sizeof(*m));

	if (!m) {
		(void)fd_close(keeper);
		return err_nomem(e);
	}
	m->keeper = keeper;
	m->key = EVP_EC_gen("P-256");
	m->ctx = server_context();
	if (!m->key || !m->ctx ||
	    setsockopt(keeper, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    give_key(m) < 0) {
		(void)mint_free(m);
		return err_set(e, ERR_INTERNAL, EPIPE, "the keeper of the certificates is gone");
	}
	*ret = m;
	return 0;
}

struct mint *mint_free(struct mint *m)
{
	if (!m)
		return NULL;
	for (size_t i = 0; i < LEAVES; i++)
		X509_free(m->leaves[i].cert);
	EVP_PKEY_free(m->key);
	SSL_CTX_free(m->ctx);
	(void)fd_close(m->keeper);
	free(m);
	return NULL;
}

static X509 *mint_fetch(struct mint *m, const char *name)
{
	struct keeper_ask q = { .kind = KEEPER_LEAF, .len = (uint32_t)strlen(name) };
	struct keeper_answer a;
	const unsigned char *p = a.leaf;

	if (q.len > sizeof(q.data))
		return NULL;
	memcpy(q.data, name, q.len);
	return mint_ask(m, &q, &a) == 0 ? d2i_X509(NULL, &p, (long)a.len) : NULL;
}

static X509 *leaf_for(struct mint *m, const char *name)
{
	struct leaf *oldest = &m->leaves[0];
	X509 *cert;

	for (size_t i = 0; i < LEAVES; i++) {
		struct leaf *l = &m->leaves[i];

		if (l->cert && str_eq(l->name, name)) {
			l->used = ++m->clock;
			return l->cert;
		}
		if (l->used < oldest->used)
			oldest = l;
	}
	cert = mint_fetch(m, name);
	if (!cert)
		return NULL;
	X509_free(oldest->cert);
	oldest->cert = cert;
	oldest->used = ++m->clock;
	(void)memccpy(oldest->name, name, '\0', sizeof(oldest->name));
	return cert;
}

SSL *mint_server(struct mint *m, const char *name)
{
	X509 *cert = leaf_for(m, name);
	SSL *ssl = cert ? SSL_new(m->ctx) : NULL;

	if (!ssl)
		return NULL;
	if (SSL_use_certificate(ssl, cert) != 1 || SSL_use_PrivateKey(ssl, m->key) != 1) {
		SSL_free(ssl);
		return NULL;
	}
	SSL_set_accept_state(ssl);
	return ssl;
}
