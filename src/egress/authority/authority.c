/* SPDX-License-Identifier: Apache-2.0 */
/* egress/authority/authority.c - Certificate ::= SEQUENCE { tbs, algorithm, BIT STRING }, written
 * from its end to its beginning: so every length is known when it is written. */
#include "egress/authority/authority.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <string.h>
#include <time.h>

#include "base/bytes/sha256.h"
#include "egress/authority/prepared.h"

#define SKEW (-3600L)         /* a guest whose clock is a little behind */
#define LIFE (7L * 24 * 3600) /* it dies with its key, which is sooner */

enum { POINT = 65, KEY_ID = 20, SERIAL = 16, DER_MAX = 1024, SIGNATURE_MAX = 80 };

/* ---- DER, backwards ---- */

struct der {
	unsigned char bytes[DER_MAX];
	size_t at; /* of the first byte written */
};

static void authority_put(struct der *d, const void *p, size_t n)
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
	authority_put(d, head, len);
}

static void put_item(struct der *d, unsigned char tag, const void *p, size_t n)
{
	size_t end = d->at;

	authority_put(d, p, n);
	wrap(d, tag, end);
}

static void put_name(struct der *d)
{
	static const char text[] = "brig, for one run";
	static const unsigned char common_name[] = { 0x06, 0x03, 0x55, 0x04, 0x03 };
	size_t end = d->at;

	put_item(d, 0x0c, text, sizeof(text) - 1);
	authority_put(d, common_name, sizeof(common_name));
	wrap(d, 0x30, end);
	wrap(d, 0x31, end);
	wrap(d, 0x30, end);
}

static void authority_put_time(struct der *d, time_t t)
{
	char text[16];
	struct tm tm;

	/* UTCTime, whose years have two digits; from 2050 on it would be another type. */
	if (gmtime_r(&t, &tm) && tm.tm_year < 150 &&
	    strftime(text, sizeof(text), "%m%d%H%M%SZ", &tm) == 11) {
		const char year[] = { (char)('0' + tm.tm_year / 10 % 10),
				      (char)('0' + tm.tm_year % 10) };
		size_t end = d->at;

		authority_put(d, text, 11);
		authority_put(d, year, sizeof(year));
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

	authority_put(d, id, KEY_ID);
	authority_put(d, name, sizeof(name));
	authority_put(d, usage, sizeof(usage));
	authority_put(d, constraints, sizeof(constraints));
	wrap(d, 0x30, end);
	wrap(d, 0xa3, end);
}

static void put_key(struct der *d, const unsigned char point[POINT])
{
	static const unsigned char kind[] = { 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
					      0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
					      0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07 };
	size_t end = d->at;

	authority_put(d, point, POINT);
	authority_put(d, "", 1); /* no unused bits */
	wrap(d, 0x03, end);
	authority_put(d, kind, sizeof(kind));
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
	if (RAND_bytes(serial, sizeof(serial)) != 1)
		return -EIO;
	serial[0] = (serial[0] & 0x7f) | 0x40; /* positive, and always of one length */
	put_extensions(d, digest);
	put_key(d, point);
	put_name(d);
	times = d->at;
	authority_put_time(d, now + LIFE);
	authority_put_time(d, now + SKEW);
	wrap(d, 0x30, times);
	put_name(d);
	authority_put(d, ecdsa_sha256, sizeof(ecdsa_sha256));
	put_item(d, 0x02, serial, sizeof(serial));
	authority_put(d, version, sizeof(version));
	wrap(d, 0x30, end);
	return d->at ? 0 : -EIO;
}

/* ---- the key ---- */

/* ECDSA over what was written; the length of the signature, or 0. */
static size_t sign(EVP_PKEY *key, const unsigned char *p, size_t n, unsigned char *out)
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	size_t len = SIGNATURE_MAX;

	if (!c || EVP_DigestSignInit_ex(c, NULL, "SHA256", NULL, NULL, key, NULL) != 1 ||
	    EVP_DigestSign(c, out, &len, p, n) != 1)
		len = 0;
	EVP_MD_CTX_free(c);
	return len;
}

/* The whole certificate into d. */
static int write_certificate(EVP_PKEY *key, struct der *d)
{
	unsigned char point[POINT], signature[SIGNATURE_MAX];
	unsigned char tbs[DER_MAX];
	struct der part = { .at = DER_MAX };
	size_t n = 0, end;

	if (EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY, point,
					    sizeof(point), &n) != 1 ||
	    n != POINT || put_tbs(&part, point) < 0)
		return -EIO;
	memcpy(tbs, part.bytes + part.at, DER_MAX - part.at);
	n = sign(key, tbs, DER_MAX - part.at, signature);
	if (!n)
		return -EIO;
	d->at = end = DER_MAX;
	authority_put(d, signature, n);
	authority_put(d, "", 1);
	wrap(d, 0x03, end);
	authority_put(d, ecdsa_sha256, sizeof(ecdsa_sha256));
	authority_put(d, tbs, DER_MAX - part.at);
	wrap(d, 0x30, end);
	return d->at ? 0 : -EIO;
}

static int authority_tell(const struct der *d, int (*out)(void *arg, const char *pem, size_t n),
			  void *arg)
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
	int r = -EIO;

	ret->cert = NULL;
	ret->key = EVP_EC_gen("P-256");
	if (ret->key)
		r = write_certificate(ret->key, &d);
	if (r == 0)
		r = authority_tell(&d, out, arg);
	p = d.bytes + d.at;
	if (r == 0 && !(ret->cert = d2i_X509(NULL, &p, (long)(DER_MAX - d.at))))
		r = -EIO;
	if (r < 0)
		authority_done(ret);
	return r;
}

/* ---- for a later run ---- */

static int authority_note(void *arg, const char *pem, size_t n)
{
	struct buf *text = arg;

	buf_add(text, pem, n);
	return text->failed ? -EIO : 0;
}

int authority_make_ahead(struct buf *out)
{
	CLEANUP(buf) struct buf pem = BUF_INIT(PREPARED_PEM_MAX);
	unsigned char key[PREPARED_KEY_MAX], *p = key;
	struct authority a = { 0 };
	int r = authority_make(&a, authority_note, &pem), n = 0;

	if (r == 0)
		n = i2d_PrivateKey(a.key, NULL);
	if (n > 0 && n <= (int)sizeof(key) && i2d_PrivateKey(a.key, &p) == n)
		r = prepared_write(&(struct prepared_record){ .pem = buf_str(&pem),
							      .key = (const char *)key,
							      .key_len = (size_t)n },
				   out);
	else
		r = -EIO;
	OPENSSL_cleanse(key, sizeof(key));
	authority_done(&a);
	return r;
}

/* The one certificate of the text; NULL: it is none. */
static X509 *read_pem(const char *pem)
{
	BIO *b = BIO_new_mem_buf(pem, -1);
	X509 *x = b ? PEM_read_bio_X509(b, NULL, NULL, NULL) : NULL;

	BIO_free(b);
	return x;
}

int authority_load(const char *record, size_t n, struct authority *ret)
{
	struct prepared_record r;
	const unsigned char *key;

	*ret = (struct authority){ 0 };
	if (prepared_read(record, n, &r) < 0)
		return -EBADMSG;
	key = (const unsigned char *)r.key;
	ret->cert = read_pem(r.pem);
	ret->key = d2i_AutoPrivateKey(NULL, &key, (long)r.key_len);
	if (ret->cert && ret->key && X509_check_private_key(ret->cert, ret->key) == 1)
		return 0;
	authority_done(ret);
	return -EBADMSG;
}

void authority_done(struct authority *a)
{
	X509_free(a->cert);
	EVP_PKEY_free(a->key);
	*a = (struct authority){ 0 };
}
