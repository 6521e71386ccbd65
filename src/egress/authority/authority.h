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
void authority_done(struct authority *a);
