/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define RECORD 16384 /* the most that one record of TLS holds */

struct tls {
	SSL *ssl;
	struct transport below;
	bool ended; /* the stream below has */
};

SSL_CTX *tls_context(bool server)
{
	SSL_CTX *c = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());

	if (!c || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1) {
		SSL_CTX_free(c);
		return NULL;
	}
	if (!server)
		SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
	(void)SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	(void)SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(c, 1);
	SSL_CTX_set_default_read_buffer_len(c, (size_t)RECORD * 2);
	return c;
}

/* ---- the stream below, as OpenSSL sees it ---- */

/* As OpenSSL wants it said: -1, errno, and whether it may try again. */
static int tls_told(BIO *b, ssize_t r, int retry)
{
	BIO_clear_retry_flags(b);
	if (r >= 0)
		return (int)r;
	if (r == -EAGAIN || r == -EINTR)
		BIO_set_flags(b, retry | BIO_FLAGS_SHOULD_RETRY);
	errno = (int)-r;
	return -1;
}

static int bio_read(BIO *b, char *out, int n)
{
	struct tls *t = BIO_get_data(b);
	short wait;
	ssize_t r = t->below.read(t->below.arg, out, (size_t)n, &wait);

	t->ended |= r == 0;
	return tls_told(b, r, BIO_FLAGS_READ);
}

static int bio_write(BIO *b, const char *p, int n)
{
	struct tls *t = BIO_get_data(b);
	short wait;
	ssize_t r = t->below.write(t->below.arg, p, (size_t)n, &wait);

	return tls_told(b, r, BIO_FLAGS_WRITE);
}

static long bio_ctrl(BIO *b UNUSED, int cmd, long larg UNUSED, void *parg UNUSED)
{
	return cmd == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method(void)
{
	static BIO_METHOD *m; /* a constant, once made; there is one thread */

	if (!m) {
		m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "brig transport");
		if (m) {
			(void)BIO_meth_set_read(m, bio_read);
			(void)BIO_meth_set_write(m, bio_write);
			(void)BIO_meth_set_ctrl(m, bio_ctrl);
		}
	}
	return m;
}

/* ---- the filter ---- */

struct tls *tls_free(struct tls *t)
{
	if (!t)
		return NULL;
	SSL_free(t->ssl);
	t->below.close(t->below.arg);
	free(t);
	return NULL;
}

struct tls *tls_new(SSL *ssl, struct transport below)
{
	struct tls *t = calloc(1, sizeof(*t));
	BIO *b = t && method() ? BIO_new(method()) : NULL;

	if (!t) {
		SSL_free(ssl);
		below.close(below.arg);
		return NULL;
	}
	*t = (struct tls){ .ssl = ssl, .below = below };
	if (!b)
		return tls_free(t);
	BIO_set_data(b, t);
	BIO_set_init(b, 1);
	SSL_set_bio(ssl, b, b);
	return t;
}

/* What a call that did not do its work means: -EAGAIN and what to wait for, 0 at the end that the
 * peer announced, else -errno. */
static int verdict(struct tls *t, int r, short *wait)
{
	switch (SSL_get_error(t->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		*wait = POLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*wait = POLLOUT;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		if (!t->ended)
			return errno ? -errno : -ECONNRESET;
		ERR_raise(ERR_LIB_SSL, SSL_R_UNEXPECTED_EOF_WHILE_READING);
		return -EPROTO;
	default:
		return -EPROTO;
	}
}

/* What is left of earlier errors would be taken for the next call's. */
static void tls_forget(void)
{
	if (ERR_peek_error()) /* clearing looks at each place for one */
		ERR_clear_error();
	errno = 0;
}

int tls_handshake(struct tls *t, short *wait)
{
	int r;

	tls_forget();
	r = SSL_do_handshake(t->ssl);
	if (r == 1)
		return 0;
	r = verdict(t, r, wait);
	return r ? r : -EPROTO;
}

static ssize_t tls_read(void *arg, void *p, size_t n, short *wait)
{
	struct tls *t = arg;
	int r;

	tls_forget();
	r = SSL_read(t->ssl, p, n < INT32_MAX ? (int)n : INT32_MAX);
	return r > 0 ? r : verdict(t, r, wait);
}

static ssize_t tls_write(void *arg, const void *p, size_t n, short *wait)
{
	struct tls *t = arg;
	int r;

	tls_forget();
	r = SSL_write(t->ssl, p, n < RECORD ? (int)n : RECORD);
	if (r > 0)
		return r;
	r = verdict(t, r, wait);
	return r ? r : -EPIPE;
}

void tls_shutdown(struct tls *t)
{
	tls_forget();
	(void)SSL_shutdown(t->ssl);
	ERR_clear_error();
}

static void tls_close(void *arg)
{
	tls_shutdown(arg);
	(void)tls_free(arg);
}

struct transport tls_transport(struct tls *t)
{
	return (struct transport){ .arg = t,
				   .fd = t->below.fd,
				   .read = tls_read,
				   .write = tls_write,
				   .close = tls_close };
}

void tls_keep(struct tls *t, bool keep)
{
	if (keep) {
		(void)SSL_clear_mode(t->ssl, SSL_MODE_RELEASE_BUFFERS);
		return;
	}
	/* With a part of a record in them they are released when that was read. */
	(void)SSL_set_mode(t->ssl, SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_free_buffers(t->ssl);
}

bool tls_pending(const struct tls *t)
{
	return SSL_has_pending(t->ssl);
}

bool tls_speaks(const struct tls *t, const char *protocol)
{
	const unsigned char *p = NULL;
	unsigned n = 0;

	SSL_get0_alpn_selected(t->ssl, &p, &n);
	return n == strlen(protocol) && memcmp(p, protocol, n) == 0;
}

const char *tls_server_name(const struct tls *t)
{
	return SSL_get_servername(t->ssl, TLSEXT_NAMETYPE_host_name);
}

const char *tls_distrust(const struct tls *t)
{
	long why = SSL_get_verify_result(t->ssl);

	return why == X509_V_OK ? NULL : X509_verify_cert_error_string(why);
}
