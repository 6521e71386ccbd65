/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls_client.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "base/sys/wait.h"
#include "wire/tls.h"

struct tls_client {
	SSL_CTX *ctx;
};

/* The oldest error of the queue, which is the cause; the queue is empty afterwards. */
static int tls_error(struct err *e, const char *what)
{
	unsigned long code = ERR_get_error();
	char text[160] = "unknown error";

	if (code)
		ERR_error_string_n(code, text, sizeof(text));
	ERR_clear_error();
	return err_set(e, ERR_UNAVAILABLE, EPROTO, "%s: %s", what, text);
}

/* ---- trust and what we show ---- */

static BIO *text_bio(const char *text)
{
	return BIO_new_mem_buf(text, -1);
}

/* The end of a PEM text is an error of its own, which is none of ours. */
static bool at_end(void)
{
	unsigned long code = ERR_peek_last_error();
	bool over = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;

	if (over)
		ERR_clear_error();
	return over;
}

static int trust(SSL_CTX *ctx, const char *roots, struct err *e)
{
	BIO *b = text_bio(roots);
	X509 *one;
	size_t n = 0;
	bool good = b;

	while (good && (one = PEM_read_bio_X509(b, NULL, NULL, NULL))) {
		good = X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), one) == 1;
		X509_free(one);
		n++;
	}
	good = good && n && at_end();
	BIO_free(b);
	return good ? 0 : tls_error(e, "the trusted certificates are not readable");
}

static int no_password(char *out UNUSED, int n UNUSED, int writing UNUSED, void *arg UNUSED)
{
	return -1;
}

static bool show_certificates(SSL_CTX *ctx, BIO *b)
{
	X509 *one = PEM_read_bio_X509(b, NULL, no_password, NULL);
	bool good = one && SSL_CTX_use_certificate(ctx, one) == 1;

	X509_free(one);
	while (good && (one = PEM_read_bio_X509(b, NULL, no_password, NULL)))
		if (SSL_CTX_add0_chain_cert(ctx, one) != 1) {
			X509_free(one);
			good = false;
		}
	return good && at_end();
}

static int tls_client_show(SSL_CTX *ctx, const char *cert, const char *key, struct err *e)
{
	BIO *certs = text_bio(cert), *keys = text_bio(key);
	EVP_PKEY *k = keys ? PEM_read_bio_PrivateKey(keys, NULL, no_password, NULL) : NULL;
	bool good = k && certs && show_certificates(ctx, certs) &&
		    SSL_CTX_use_PrivateKey(ctx, k) == 1 && SSL_CTX_check_private_key(ctx) == 1;

	EVP_PKEY_free(k);
	BIO_free(certs);
	BIO_free(keys);
	return good ? 0 : tls_error(e, "the client certificate or its key cannot be used");
}

int tls_client_new_with(const struct tls_material *m, struct tls_client **ret, struct err *e)
{
	CLEANUP(tls_client) struct tls_client *c = calloc(1, sizeof(*c));

	if (!c)
		return err_nomem(e);
	c->ctx = tls_context(false);
	if (!c->ctx)
		return tls_error(e, "cannot set up TLS");
	if (m->roots && trust(c->ctx, m->roots, e) < 0)
		return -e->code;
	if (!m->roots && !SSL_CTX_set_default_verify_paths(c->ctx))
		return tls_error(e, "cannot read the trusted certificates");
	if (m->cert && m->key && tls_client_show(c->ctx, m->cert, m->key, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(c);
	return 0;
}

int tls_client_new(struct tls_client **ret, struct err *e)
{
	return tls_client_new_with(&(struct tls_material){ 0 }, ret, e);
}

struct tls_client *tls_client_free(struct tls_client *c)
{
	if (c)
		SSL_CTX_free(c->ctx);
	free(c);
	return NULL;
}

/* ---- a connection ---- */

static bool is_address(const char *host)
{
	unsigned char raw[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, host, raw) == 1 || inet_pton(AF_INET6, host, raw) == 1;
}

/* The name is part of what the library verifies, not of something to remember afterwards. */
static bool expect_host(SSL *ssl, const char *host)
{
	if (is_address(host))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static int tls_client_refused(const struct tls *t, struct err *e)
{
	const char *why = tls_distrust(t);

	if (!why)
		return tls_error(e, "TLS failed");
	ERR_clear_error();
	return err_set(e, ERR_UNAVAILABLE, EKEYREJECTED, "the certificate is not trusted: %s", why);
}

static int handshake(struct tls *t, int fd, uint64_t deadline, struct err *e)
{
	short wait = 0;
	int r;

	while ((r = tls_handshake(t, &wait)) == -EAGAIN) {
		r = wait_fd(fd, wait, deadline);
		if (r < 0)
			return err_errno(e, r, "TLS did not begin in time");
	}
	return r == 0 ? 0 : tls_client_refused(t, e);
}

int transport_tls(struct tls_client *c, int fd, const char *host, uint64_t deadline,
		  struct transport *ret, struct err *e)
{
	SSL *ssl = SSL_new(c->ctx);
	CLEANUP(tls) struct tls *t = NULL;

	if (!ssl || !expect_host(ssl, host)) {
		SSL_free(ssl);
		(void)fd_close(fd);
		return tls_error(e, "cannot set up TLS");
	}
	SSL_set_connect_state(ssl);
	t = tls_new(ssl, transport_fd(fd));
	if (!t)
		return err_nomem(e);
	if (handshake(t, fd, deadline, e) < 0)
		return -e->code;
	*ret = tls_transport(TAKE_PTR(t));
	return 0;
}
