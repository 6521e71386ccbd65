/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_tls.c - TLS over any transport: both sides of a connection through two queues of bytes,
 * which give and take little at a time and say "later" in between. */
#include "wire/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include "unit.h"

struct queue {
	unsigned char bytes[65536];
	size_t from, to;
	bool ended;
};

struct side {
	struct queue *in, *out;
	unsigned calls, closed;
};

static ssize_t side_read(void *arg, void *p, size_t n, short *wait)
{
	struct side *s = arg;
	size_t have = s->in->to - s->in->from, k = n < 97 ? n : 97;

	*wait = POLLIN;
	if (++s->calls % 2 || (!have && !s->in->ended))
		return -EAGAIN;
	k = k < have ? k : have;
	memcpy(p, s->in->bytes + s->in->from, k);
	s->in->from += k;
	return (ssize_t)k;
}

static ssize_t side_write(void *arg, const void *p, size_t n, short *wait)
{
	struct side *s = arg;
	size_t k = n < 61 ? n : 61;

	*wait = POLLOUT;
	if (++s->calls % 2)
		return -EAGAIN;
	assert_true(s->out->to + k <= sizeof(s->out->bytes));
	memcpy(s->out->bytes + s->out->to, p, k);
	s->out->to += k;
	return (ssize_t)k;
}

static void side_close(void *arg)
{
	((struct side *)arg)->closed++;
}

struct pair {
	struct queue up, down;
	struct side near, far;
	SSL_CTX *client_ctx, *server_ctx;
	struct tls *client, *server;
};

static X509 *certificate(EVP_PKEY *key, const char *name)
{
	X509 *c = X509_new();
	X509_EXTENSION *x;
	char text[128];

	(void)snprintf(text, sizeof(text), "DNS:%s", name);
	x = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, text);
	assert_true(c && x && X509_set_version(c, 2) == 1);
	(void)ASN1_INTEGER_set(X509_get_serialNumber(c), 1);
	(void)X509_gmtime_adj(X509_getm_notBefore(c), -60);
	(void)X509_gmtime_adj(X509_getm_notAfter(c), 3600);
	(void)X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
					 (const unsigned char *)name, -1, -1, 0);
	assert_true(X509_set_issuer_name(c, X509_get_subject_name(c)) == 1 &&
		    X509_set_pubkey(c, key) == 1 && X509_add_ext(c, x, -1) == 1 &&
		    X509_sign(c, key, EVP_sha256()) > 0);
	X509_EXTENSION_free(x);
	return c;
}

static void open_pair(struct pair *p, const char *name, const char *expected)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = certificate(key, name);
	SSL *ask, *answer;

	memset(p, 0, sizeof(*p));
	p->near = (struct side){ .in = &p->down, .out = &p->up };
	p->far = (struct side){ .in = &p->up, .out = &p->down };
	p->client_ctx = tls_context(false);
	p->server_ctx = tls_context(true);
	assert_true(p->client_ctx && p->server_ctx);
	assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(p->client_ctx), cert), 1);
	assert_int_equal(SSL_CTX_use_certificate(p->server_ctx, cert), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(p->server_ctx, key), 1);
	ask = SSL_new(p->client_ctx);
	answer = SSL_new(p->server_ctx);
	assert_true(ask && answer && SSL_set1_host(ask, expected) == 1 &&
		    SSL_set_tlsext_host_name(ask, expected) == 1);
	SSL_set_connect_state(ask);
	SSL_set_accept_state(answer);
	p->client =
		tls_new(ask, (struct transport){ &p->near, 7, side_read, side_write, side_close });
	p->server = tls_new(answer,
			    (struct transport){ &p->far, 8, side_read, side_write, side_close });
	assert_true(p->client && p->server);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static void close_pair(struct pair *p)
{
	p->client = tls_free(p->client);
	p->server = tls_free(p->server);
	assert_int_equal(p->near.closed, 1);
	assert_int_equal(p->far.closed, 1);
	SSL_CTX_free(p->client_ctx);
	SSL_CTX_free(p->server_ctx);
}

/* Both sides in turn until both are done, or the client gives up; the client's result. */
static int shake(struct pair *p)
{
	int a = -EAGAIN, b = -EAGAIN;
	short wait;

	for (int i = 0; i < 10000 && (a == -EAGAIN || (a == 0 && b)); i++) {
		wait = 0;
		if (a == -EAGAIN)
			a = tls_handshake(p->client, &wait);
		assert_true(a != -EAGAIN || wait == POLLIN || wait == POLLOUT);
		if (b == -EAGAIN)
			b = tls_handshake(p->server, &wait);
	}
	assert_true(a != -EAGAIN && (a < 0 || b == 0));
	return a;
}

static ssize_t read_all(struct transport *t, char *out, size_t n)
{
	ssize_t r = -EAGAIN;
	size_t have = 0;
	short wait;

	for (int i = 0; i < 10000 && (r > 0 || r == -EAGAIN) && have < n; i++) {
		r = t->read(t->arg, out + have, n - have, &wait);
		have += r > 0 ? (size_t)r : 0;
	}
	return r < 0 && r != -EAGAIN ? r : (ssize_t)have;
}

static size_t write_all(struct transport *t, const char *p, size_t n)
{
	size_t done = 0;
	short wait;

	for (int i = 0; i < 10000 && done < n; i++) {
		ssize_t r = t->write(t->arg, p + done, n - done, &wait);

		assert_true(r > 0 || r == -EAGAIN);
		done += r > 0 ? (size_t)r : 0;
	}
	return done;
}

static void bytes_pass_whatever_the_transport_gives_at_once(void **state UNUSED)
{
	static char sent[40000], got[sizeof(sent)];
	struct pair p;
	struct transport a, b;

	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)(i * 7);
	open_pair(&p, "one.test", "one.test");
	assert_int_equal(shake(&p), 0);
	assert_string_equal(tls_server_name(p.server), "one.test");
	assert_null(tls_distrust(p.client));
	a = tls_transport(p.client);
	b = tls_transport(p.server);
	assert_int_equal(a.fd, 7);
	assert_int_equal(write_all(&a, sent, sizeof(sent)), sizeof(sent));
	assert_int_equal(read_all(&b, got, sizeof(got)), sizeof(got));
	assert_memory_equal(got, sent, sizeof(sent));
	close_pair(&p);
}

static void a_certificate_for_another_name_is_not_believed(void **state UNUSED)
{
	struct pair p;

	open_pair(&p, "one.test", "two.test");
	assert_int_equal(shake(&p), -EPROTO);
	assert_string_equal(tls_distrust(p.client), "hostname mismatch");
	close_pair(&p);
}

static void an_end_is_one_only_if_the_peer_says_so(void **state UNUSED)
{
	for (int announced = 0; announced < 2; announced++) {
		struct transport a, b;
		struct pair p;
		char got[64];

		open_pair(&p, "one.test", "one.test");
		assert_int_equal(shake(&p), 0);
		a = tls_transport(p.client);
		b = tls_transport(p.server);
		assert_int_equal(write_all(&b, "the whole", 9), 9);
		for (int i = 0; announced && i < 8; i++)
			tls_shutdown(p.server);
		p.down.ended = true;
		assert_int_equal(read_all(&a, got, 9), 9);
		assert_int_equal(read_all(&a, got, sizeof(got)), announced ? 0 : -EPROTO);
		close_pair(&p);
	}
}

static void what_nobody_took_is_told(void **state UNUSED)
{
	struct transport a, b;
	struct pair p;
	char got[8];

	open_pair(&p, "one.test", "one.test");
	assert_int_equal(shake(&p), 0);
	a = tls_transport(p.client);
	b = tls_transport(p.server);
	assert_int_equal(read_all(&a, got, sizeof(got)), 0);
	assert_true(!tls_pending(p.client));
	assert_int_equal(write_all(&b, "more than eight", 15), 15);
	assert_int_equal(read_all(&a, got, sizeof(got)), sizeof(got));
	assert_true(tls_pending(p.client));
	close_pair(&p);
}

static void closing_the_transport_says_so_and_frees_it(void **state UNUSED)
{
	struct transport a;
	struct pair p;
	size_t before;

	open_pair(&p, "one.test", "one.test");
	assert_int_equal(shake(&p), 0);
	a = tls_transport(p.client);
	before = p.up.to;
	p.near.calls = 1; /* it takes the next bytes at once */
	a.close(a.arg);
	assert_true(p.up.to > before);
	p.client = NULL;
	close_pair(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_pass_whatever_the_transport_gives_at_once),
		cmocka_unit_test(a_certificate_for_another_name_is_not_believed),
		cmocka_unit_test(an_end_is_one_only_if_the_peer_says_so),
		cmocka_unit_test(what_nobody_took_is_told),
		cmocka_unit_test(closing_the_transport_says_so_and_frees_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
