/* SPDX-License-Identifier: Apache-2.0 */
/* egress/authority/authority.h - a key on P-256 and the certificate that says it may sign leaves.
 *
 * The certificate is written by hand because a run waits for it: every byte but the key, the serial
 * number and the times is fixed, and building it out of OpenSSL's objects takes 1.4 ms more. The
 * key and the signature are OpenSSL's. */
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/text/buf.h"
#include "base/text/err.h"

struct authority {
	EVP_PKEY *key;
	X509 *cert;
};

/* The certificate as PEM, before all else that making the authority costs: `out` is called with it
 * once. 0, -EIO, or what `out` returned. */
int authority_make(struct authority *ret, int (*out)(void *arg, const char *pem, size_t n),
		   void *arg);
/* One for a later run, as a record of egress/authority/prepared.h; 0 or -EIO. */
int authority_make_ahead(struct buf *out);
/* From such a record; 0 or -EBADMSG. */
int authority_load(const char *record, size_t n, struct authority *ret);
void authority_done(struct authority *a);
