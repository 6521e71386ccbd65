/* SPDX-License-Identifier: Apache-2.0 */
/* The run's authority, written by hand and read by OpenSSL. */
#include "egress/authority/authority.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "unit.h"

static char pem[4096];

static int keep(void *arg, const char *p, size_t n)
{
	int *calls = arg;

	++*calls;
	if (n >= sizeof(pem))
		return -E2BIG;
	memcpy(pem, p, n);
	pem[n] = '\0';
	return 0;
}

static int refuse(void *arg, const char *p, size_t n)
{
	(void)arg;
	(void)p;
	(void)n;
	return -EPIPE;
}

/* Does OpenSSL, as strict as it can be, trust the certificate that it is itself the root of? */
static bool trusted(X509 *cert)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	bool ok = X509_STORE_add_cert(store, cert) == 1 &&
		  X509_STORE_CTX_init(ctx, store, cert, NULL) == 1;

	X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE);
	ok = ok && X509_verify_cert(ctx) == 1;
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return ok;
}

static void what_is_told_is_a_certificate_that_openssl_trusts(void **state UNUSED)
{
	/* Lengths in DER depend on the signature's first bits: some rounds see them all. */
	for (int i = 0; i < 64; i++) {
		struct authority a = { 0 };
		int calls = 0;
		BIO *b;
		X509 *told;

		assert_int_equal(authority_make(&a, keep, &calls), 0);
		assert_int_equal(calls, 1);
		b = BIO_new_mem_buf(pem, -1);
		told = PEM_read_bio_X509(b, NULL, NULL, NULL);
		assert_non_null(told);
		assert_int_equal(X509_cmp(told, a.cert), 0);
		assert_true(trusted(told));
		assert_int_equal(X509_check_private_key(told, a.key), 1);
		assert_int_equal(X509_verify(told, a.key), 1);
		assert_int_equal(X509_check_ca(told), 1);
		assert_int_equal(X509_get_pathlen(told), 0);
		assert_int_equal(X509_get_key_usage(told), KU_KEY_CERT_SIGN);
		assert_true(X509_cmp_current_time(X509_get0_notBefore(told)) < 0);
		assert_true(X509_cmp_current_time(X509_get0_notAfter(told)) > 0);
		X509_free(told);
		BIO_free(b);
		authority_done(&a);
	}
}

static void no_two_are_alike(void **state UNUSED)
{
	struct authority a = { 0 }, b = { 0 };
	int calls = 0;

	assert_int_equal(authority_make(&a, keep, &calls), 0);
	assert_int_equal(authority_make(&b, keep, &calls), 0);
	assert_int_not_equal(EVP_PKEY_eq(a.key, b.key), 1);
	assert_int_not_equal(
		ASN1_INTEGER_cmp(X509_get0_serialNumber(a.cert), X509_get0_serialNumber(b.cert)),
		0);
	authority_done(&a);
	authority_done(&b);
}

static void one_that_cannot_be_told_is_none(void **state UNUSED)
{
	struct authority a = { 0 };

	assert_int_equal(authority_make(&a, refuse, NULL), -EPIPE);
	assert_null(a.key);
	authority_done(&a);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_is_told_is_a_certificate_that_openssl_trusts),
	cmocka_unit_test(no_two_are_alike),
	cmocka_unit_test(one_that_cannot_be_told_is_none),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
