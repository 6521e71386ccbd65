/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/authority.c - Certificate ::= SEQUENCE { tbs, algorithm, BIT STRING }, written from its
 * end to its beginning: so every length is known when it is written. */
#define OPENSSL_API_COMPAT 0x10100000L /* keys without a lookup are of OpenSSL 1.1 */
#include "egress/worker/authority.h"

#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/rand.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/sha256.h"

#define SKEW (-3600L)         /* a guest whose clock is a little behind */
#define LIFE (7L * 24 * 3600) /* it dies with its key, which is sooner */

enum { POINT = 65, KEY_ID = 20, SERIAL = 16, DER_MAX = 1024, SIGNATURE_MAX = 80 };

/* ---- randomness: the kernel's, without a generator of OpenSSL's own in between ---- */

static int random_bytes(unsigned char *p, int n)
{
	for (int at = 0; at < n;) {
		ssize_t r = getrandom(p + at, (size_t)(n - at), 0);

		if (r <= 0)
			return 0;
		at += (int)r;
	}
	return 1;
}

static int random_status(void)
{
	return 1;
}

static const RAND_METHOD kernel_random = { .bytes = random_bytes,
					   .pseudorand = random_bytes,
					   .status = random_status };

/* ---- DER, backwards ---- */

struct der {
	unsigned char bytes[DER_MAX];
	size_t at; /* of the first byte written */
};

static void put(struct der *d, const void *p, size_t n)
{
	if (n > d->at) {
		d->at = 0; /* cannot be: everything has its fixed size */
		return;
	}
	d->at -= n;
	memcpy(d->bytes + d->at, p, n);
}

/* The head of what was written since `end`, counted from the back. */
static void wrap(struct der *d, unsigned char tag, size_t end)
{
	size_t n = end - d->at;
	unsigned char head[4] = { tag, (unsigned char)n };
	size_t len = 2;

	if (n > 255) {
		head[1] = 0x82;
		head[2] = (unsigned char)(n >> 8);
		head[3] = (unsigned char)n;
		len = 4;
	} else if (n > 127) {
		head[1] = 0x81;
		head[2] = (unsigned char)n;
		len = 3;
	}
	put(d, head, len);
}

static void put_item(struct der *d, unsigned char tag, const void *p, size_t n)
{
	size_t end = d->at;

	put(d, p, n);
	wrap(d, tag, end);
}

static void put_name(struct der *d)
{
	static const char text[] = "brig, for one run";
	static const unsigned char common_name[] = { 0x06, 0x03, 0x55, 0x04, 0x03 };
	size_t end = d->at;

	put_item(d, 0x0c, text, sizeof(text) - 1);
	put(d, common_name, sizeof(common_name));
	wrap(d, 0x30, end);
	wrap(d, 0x31, end);
	wrap(d, 0x30, end);
}

static void put_time(struct der *d, time_t t)
{
	char text[16];
	struct tm tm;

	/* UTCTime, whose years have two digits; from 2050 on it would be another type. */
	if (gmtime_r(&t, &tm) && tm.tm_year < 150 &&
	    strftime(text, sizeof(text), "%m%d%H%M%SZ", &tm) == 11) {
		const char year[] = { (char)('0' + tm.tm_year / 10 % 10),
				      (char)('0' + tm.tm_year % 10) };
		size_t end = d->at;

		put(d, text, 11);
		put(d, year, sizeof(year));
		wrap(d, 0x17, end);
	}
}

static const unsigned char ecdsa_sha256[] = { 0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86,
					      0x48, 0xce, 0x3d, 0x04, 0x03, 0x02 };

/* CA without another one below it; signs certificates and nothing else; its key's name. */
static void put_extensions(struct der *d, const unsigned char id[KEY_ID])
{
	static const unsigned char constraints[] = { 0x30, 0x12, 0x06, 0x03, 0x55, 0x1d, 0x13,
						     0x01, 0x01, 0xff, 0x04, 0x08, 0x30, 0x06,
						     0x01, 0x01, 0xff, 0x02, 0x01, 0x00 };
	static const unsigned char usage[] = { 0x30, 0x0e, 0x06, 0x03, 0x55, 0x1d, 0x0f, 0x01,
					       0x01, 0xff, 0x04, 0x04, 0x03, 0x02, 0x02, 0x04 };
	static const unsigned char name[] = { 0x30, 0x1d, 0x06, 0x03, 0x55, 0x1d,
					      0x0e, 0x04, 0x16, 0x04, 0x14 };
	size_t end = d->at;

	put(d, id, KEY_ID);
	put(d, name, sizeof(name));
	put(d, usage, sizeof(usage));
	put(d, constraints, sizeof(constraints));
	wrap(d, 0x30, end);
	wrap(d, 0xa3, end);
}

static void put_key(struct der *d, const unsigned char point[POINT])
{
	static const unsigned char kind[] = { 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
					      0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
					      0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07 };
	size_t end = d->at;

	put(d, point, POINT);
	put(d, "", 1); /* no unused bits */
	wrap(d, 0x03, end);
	put(d, kind, sizeof(kind));
	wrap(d, 0x30, end);
}

static int put_tbs(struct der *d, const unsigned char point[POINT])
{
	static const unsigned char version[] = { 0xa0, 0x03, 0x02, 0x01, 0x02 };
	unsigned char digest[SHA256_SIZE], serial[SERIAL];
	size_t end = d->at, times;
	time_t now = time(NULL);
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, point, POINT);
	sha256_end(&h, digest);
	if (!random_bytes(serial, sizeof(serial)))
		return -EIO;
	serial[0] = (serial[0] & 0x7f) | 0x40; /* positive, and always of one length */
	put_extensions(d, digest);
	put_key(d, point);
	put_name(d);
	times = d->at;
	put_time(d, now + LIFE);
	put_time(d, now + SKEW);
	wrap(d, 0x30, times);
	put_name(d);
	put(d, ecdsa_sha256, sizeof(ecdsa_sha256));
	put_item(d, 0x02, serial, sizeof(serial));
	put(d, version, sizeof(version));
	wrap(d, 0x30, end);
	return d->at ? 0 : -EIO;
}

/* ---- the key ---- */

/* ECDSA over what was written, with a nonce of the kernel's; the length of the signature, or 0. */
static unsigned sign(EC_KEY *key, const unsigned char *p, size_t n, unsigned char *out)
{
	unsigned char digest[SHA256_SIZE];
	BIGNUM *inverse = NULL, *r = NULL;
	struct sha256 h;
	unsigned len = 0;

	sha256_init(&h);
	sha256_add(&h, p, n);
	sha256_end(&h, digest);
	if (ECDSA_size(key) > SIGNATURE_MAX || ECDSA_sign_setup(key, NULL, &inverse, &r) != 1 ||
	    ECDSA_sign_ex(0, digest, sizeof(digest), out, &len, inverse, r, key) != 1)
		len = 0;
	BN_clear_free(inverse);
	BN_clear_free(r);
	return len;
}

/* The whole certificate into d. */
static int write_certificate(EC_KEY *key, struct der *d)
{
	unsigned char point[POINT], signature[SIGNATURE_MAX];
	unsigned char tbs[DER_MAX];
	struct der part = { .at = DER_MAX };
	unsigned n;
	size_t end;

	if (EC_POINT_point2oct(EC_KEY_get0_group(key), EC_KEY_get0_public_key(key),
			       POINT_CONVERSION_UNCOMPRESSED, point, POINT, NULL) != POINT ||
	    put_tbs(&part, point) < 0)
		return -EIO;
	memcpy(tbs, part.bytes + part.at, DER_MAX - part.at);
	n = sign(key, tbs, DER_MAX - part.at, signature);
	if (!n)
		return -EIO;
	d->at = end = DER_MAX;
	put(d, signature, n);
	put(d, "", 1);
	wrap(d, 0x03, end);
	put(d, ecdsa_sha256, sizeof(ecdsa_sha256));
	put(d, tbs, DER_MAX - part.at);
	wrap(d, 0x30, end);
	return d->at ? 0 : -EIO;
}

static int tell(const struct der *d, int (*out)(void *arg, const char *pem, size_t n), void *arg)
{
	CLEANUP(buf) struct buf pem = BUF_INIT(4096);
	unsigned char line[68];

	buf_puts(&pem, "-----BEGIN CERTIFICATE-----\n");
	for (size_t at = d->at; at < DER_MAX; at += 48) {
		size_t n = DER_MAX - at < 48 ? DER_MAX - at : 48;
		int len = EVP_EncodeBlock(line, d->bytes + at, (int)n);

		buf_add(&pem, line, (size_t)len);
		buf_putc(&pem, '\n');
	}
	buf_puts(&pem, "-----END CERTIFICATE-----\n");
	return pem.failed ? -EIO : out(arg, buf_str(&pem), pem.len);
}

int authority_make(struct authority *ret, int (*out)(void *arg, const char *pem, size_t n),
		   void *arg)
{
	struct der d = { .at = DER_MAX };
	const unsigned char *p;
	EC_KEY *key;
	int r = -EIO;

	(void)RAND_set_rand_method(&kernel_random);
	key = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
	if (key && EC_KEY_generate_key(key) == 1)
		r = write_certificate(key, &d);
	if (r == 0)
		r = tell(&d, out, arg);
	p = d.bytes + d.at;
	if (r == 0 && (!(ret->key = EVP_PKEY_new()) || EVP_PKEY_set1_EC_KEY(ret->key, key) != 1 ||
		       !(ret->cert = d2i_X509(NULL, &p, (long)(DER_MAX - d.at)))))
		r = -EIO;
	EC_KEY_free(key);
	return r;
}

void authority_done(struct authority *a)
{
	X509_free(a->cert);
	EVP_PKEY_free(a->key);
	*a = (struct authority){ 0 };
}
