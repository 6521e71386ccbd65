/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/authority/roots.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/files/fd.h"
#include "egress/rules/addr.h"

#define FILE_MAX ((size_t)4 << 20)
#define ROOTS_MAX 2048

static const char *const bundles[] = { "/etc/ssl/certs/ca-certificates.crt",
				       "/etc/pki/tls/certs/ca-bundle.crt",
				       "/etc/ssl/ca-bundle.pem" };

/* A certificate as it came, and where its subject lies in it. */
struct root {
	unsigned char *der;
	size_t len, subject, subject_len;
	bool used; /* in the store already */
};

struct roots {
	SSL_CTX *ctx;
	X509_LOOKUP_METHOD *method;
	char *texts[16]; /* PEM, until it is first needed */
	size_t n_texts;
	struct root *v;
	size_t n;
	bool indexed;
};

/* ---- the index ---- */

/* Steps into or over one DER element; false past the end. */
static bool element(const unsigned char *p, size_t n, size_t *at, size_t *body, size_t *end)
{
	size_t i = *at, len;

	if (i + 2 > n)
		return false;
	len = p[i + 1];
	i += 2;
	if (len & 0x80) {
		size_t bytes = len & 0x7f;

		if (!bytes || bytes > 3 || i + bytes > n)
			return false;
		for (len = 0; bytes; bytes--)
			len = len << 8 | p[i++];
	}
	if (len > n - i)
		return false;
	*body = i;
	*end = i + len;
	return true;
}

/* Certificate -> TBSCertificate -> version, serial, algorithm, issuer, validity, subject. */
static bool find_subject(struct root *r)
{
	size_t at = 0, body, end;

	if (!element(r->der, r->len, &at, &body, &end))
		return false;
	at = body;
	if (!element(r->der, r->len, &at, &body, &end))
		return false;
	at = body;
	if (at < r->len && r->der[at] == 0xa0) {
		if (!element(r->der, r->len, &at, &body, &end))
			return false;
		at = end;
	}
	for (int i = 0; i < 5; i++) {
		if (!element(r->der, r->len, &at, &body, &end))
			return false;
		r->subject = at;
		at = end;
	}
	r->subject_len = end - r->subject;
	return true;
}

static void add_der(struct roots *r, const char *p, size_t n)
{
	EVP_ENCODE_CTX *ctx = EVP_ENCODE_CTX_new();
	struct root root = { .der = malloc(n) };
	struct root *v;
	int got = 0, last = 0;

	if (ctx && root.der && r->n < ROOTS_MAX) {
		EVP_DecodeInit(ctx);
		if (EVP_DecodeUpdate(ctx, root.der, &got, (const unsigned char *)p, (int)n) >= 0 &&
		    EVP_DecodeFinal(ctx, root.der + got, &last) >= 0) {
			root.len = (size_t)got + (size_t)last;
			v = find_subject(&root) ? realloc(r->v, (r->n + 1) * sizeof(*v)) : NULL;
			if (v) {
				r->v = v;
				r->v[r->n++] = root;
				root.der = NULL;
			}
		}
	}
	free(root.der);
	EVP_ENCODE_CTX_free(ctx);
}

static void index_text(struct roots *r, const char *text)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----",
			  end[] = "-----END CERTIFICATE-----";

	for (const char *at = text; (at = strstr(at, begin));) {
		const char *stop;

		at += sizeof(begin) - 1;
		stop = strstr(at, end);
		if (!stop)
			return;
		add_der(r, at, (size_t)(stop - at));
		at = stop + sizeof(end) - 1;
	}
}

/* ---- the lookup ---- */

static int by_subject(X509_LOOKUP *l, X509_LOOKUP_TYPE type, const X509_NAME *name,
		      X509_OBJECT *ret)
{
	struct roots *r = X509_LOOKUP_get_method_data(l);
	const unsigned char *want;
	size_t len;

	if (type != X509_LU_X509 || X509_NAME_get0_der(name, &want, &len) != 1)
		return 0;
	for (size_t i = 0; !r->indexed && i < r->n_texts; i++)
		index_text(r, r->texts[i]);
	r->indexed = true;
	for (size_t i = 0; i < r->n; i++) {
		struct root *root = &r->v[i];
		const unsigned char *p = root->der;
		X509 *x;
		int ok;

		if (root->subject_len != len || memcmp(root->der + root->subject, want, len) != 0)
			continue;
		x = d2i_X509(NULL, &p, (long)root->len);
		ok = x && (root->used || X509_STORE_add_cert(X509_LOOKUP_get_store(l), x) == 1) &&
		     X509_OBJECT_set1_X509(ret, x) == 1;
		root->used |= ok;
		X509_free(x);
		return ok;
	}
	return 0;
}

/* ---- */

static int roots_read_text(struct roots *r, const char *path)
{
	CLEANUP(mem) char *text = malloc(FILE_MAX);
	ssize_t n = text ? fd_read_file(AT_FDCWD, path, text, FILE_MAX) : -ENOMEM;

	if (n < 0)
		return (int)n;
	if (r->n_texts == ARRAY_LEN(r->texts))
		return -E2BIG;
	r->texts[r->n_texts] = strdup(text);
	return r->texts[r->n_texts++] ? 0 : -ENOMEM;
}

static int read_texts(struct roots *r, const struct strlist *further, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(bundles); i++)
		if (roots_read_text(r, bundles[i]) == 0)
			break;
	for (size_t i = 0; i < further->n; i++) {
		int code = roots_read_text(r, further->v[i]);

		if (code < 0)
			return errno = -code,
			       err_sys(e, "egress.roots: cannot read '%s'", further->v[i]);
	}
	return 0;
}

static int context(struct roots *r, struct err *e)
{
	static const unsigned char http1[] = "\x08http/1.1";
	X509_LOOKUP *l;

	r->ctx = tls_context(false);
	r->method = X509_LOOKUP_meth_new("roots by subject");
	if (!r->ctx || !r->method ||
	    X509_LOOKUP_meth_set_get_by_subject(r->method, by_subject) != 1)
		return err_nomem(e);
	l = X509_STORE_add_lookup(SSL_CTX_get_cert_store(r->ctx), r->method);
	if (!l || X509_LOOKUP_set_method_data(l, r) != 1 ||
	    SSL_CTX_set_alpn_protos(r->ctx, http1, sizeof(http1) - 1) != 0)
		return err_nomem(e);
	return 0;
}

int roots_new(const struct strlist *further, struct roots **ret, struct err *e)
{
	CLEANUP(roots) struct roots *r = calloc(1, sizeof(*r));

	if (!r)
		return err_nomem(e);
	if (context(r, e) < 0 || read_texts(r, further, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(r);
	return 0;
}

struct roots *roots_free(struct roots *r)
{
	if (!r)
		return NULL;
	SSL_CTX_free(r->ctx);
	X509_LOOKUP_meth_free(r->method);
	for (size_t i = 0; i < r->n_texts; i++)
		free(r->texts[i]);
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].der);
	free(r->v);
	free(r);
	return NULL;
}

SSL *roots_client(struct roots *r, const char *name, bool h2)
{
	static const unsigned char both[] = "\x02h2\x08http/1.1";
	SSL *ssl = SSL_new(r->ctx);
	X509_VERIFY_PARAM *param = ssl ? SSL_get0_param(ssl) : NULL;
	struct addr a;
	bool ok;

	if (!ssl)
		return NULL;
	if (addr_parse(name, strlen(name), &a) == 0) {
		ok = X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
	} else {
		/* A subject is not a name: only subjectAltName counts. */
		X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
							       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
		ok = X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
		     SSL_set_tlsext_host_name(ssl, name) == 1;
	}
	if (!ok || (h2 && SSL_set_alpn_protos(ssl, both, sizeof(both) - 1) != 0)) {
		SSL_free(ssl);
		return NULL;
	}
	SSL_set_connect_state(ssl);
	return ssl;
}
