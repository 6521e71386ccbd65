/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls.h"

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"

struct tls {
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

int tls_new(struct tls **ret, struct err *e)
{
	CLEANUP(tls) struct tls *t = calloc(1, sizeof(*t));

	if (!t)
		return err_nomem(e);
	t->ctx = SSL_CTX_new(TLS_client_method());
	if (!t->ctx || !SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION))
		return tls_error(e, "cannot set up TLS");
	SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
	(void)SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	if (!SSL_CTX_set_default_verify_paths(t->ctx))
		return tls_error(e, "cannot read the trusted certificates");
	*ret = TAKE_PTR(t);
	return 0;
}

struct tls *tls_free(struct tls *t)
{
	if (t)
		SSL_CTX_free(t->ctx);
	free(t);
	return NULL;
}

/* ---- a connection ---- */

/* What a call that did not do its work means: -EAGAIN and what to wait for, 0 at the end of the
 * stream, else -errno. */
static ssize_t verdict(SSL *ssl, int r, short *wait)
{
	switch (SSL_get_error(ssl, r)) {
	case SSL_ERROR_WANT_READ:
		*wait = POLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*wait = POLLOUT;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return errno ? -errno : -ECONNRESET;
	default:
		return -EPROTO; /* also an end without the peer's word: part may be missing */
	}
}

static ssize_t tls_read(void *arg, void *p, size_t n, short *wait)
{
	int r;

	ERR_clear_error();
	errno = 0;
	r = SSL_read(arg, p, n > INT_MAX ? INT_MAX : (int)n);
	return r > 0 ? r : verdict(arg, r, wait);
}

static ssize_t tls_write(void *arg, const void *p, size_t n, short *wait)
{
	ssize_t said;
	int r;

	ERR_clear_error();
	errno = 0;
	r = SSL_write(arg, p, n > INT_MAX ? INT_MAX : (int)n);
	if (r > 0)
		return r;
	said = verdict(arg, r, wait);
	return said == 0 ? -EPIPE : said;
}

static void tls_close(void *arg)
{
	int fd = SSL_get_fd(arg);

	(void)SSL_shutdown(arg);
	ERR_clear_error();
	SSL_free(arg);
	(void)fd_close(fd);
}

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

static int wait_for(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = clock_us();
	uint64_t left = now < deadline ? (deadline - now) / 1000 + 1 : 0;
	int r = left ? poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left) : 0;

	return r > 0 || (r < 0 && errno == EINTR) ? 0 : r < 0 ? -errno : -ETIMEDOUT;
}

static int refused(SSL *ssl, struct err *e)
{
	long why = SSL_get_verify_result(ssl);

	if (why == X509_V_OK)
		return tls_error(e, "TLS failed");
	ERR_clear_error();
	return err_set(e, ERR_UNAVAILABLE, EKEYREJECTED, "the certificate is not trusted: %s",
		       X509_verify_cert_error_string(why));
}

static int handshake(SSL *ssl, int fd, uint64_t deadline, struct err *e)
{
	short wait = 0;
	int r;

	for (;;) {
		ERR_clear_error();
		errno = 0;
		r = SSL_connect(ssl);
		if (r == 1)
			return 0;
		if (verdict(ssl, r, &wait) != -EAGAIN)
			return refused(ssl, e);
		r = wait_for(fd, wait, deadline);
		if (r < 0) {
			errno = -r;
			return err_sys(e, "TLS did not begin in time");
		}
	}
}

int transport_tls(struct tls *t, int fd, const char *host, uint64_t deadline, struct transport *ret,
		  struct err *e)
{
	SSL *ssl = SSL_new(t->ctx);
	int r = 0;

	if (!ssl || !expect_host(ssl, host) || !SSL_set_fd(ssl, fd))
		r = tls_error(e, "cannot set up TLS");
	if (r == 0)
		r = handshake(ssl, fd, deadline, e);
	if (r < 0) {
		SSL_free(ssl);
		(void)fd_close(fd);
		return r;
	}
	*ret = (struct transport){
		.arg = ssl, .fd = fd, .read = tls_read, .write = tls_write, .close = tls_close
	};
	return 0;
}
