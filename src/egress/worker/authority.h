/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/authority.h - a key on P-256 and the certificate that says it may sign leaves.
 *
 * Written by hand because a run waits for it: OpenSSL's way to the same bytes takes 3 ms of looking
 * up algorithms, this one a tenth of that. What is signed later goes OpenSSL's way. */
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/buf.h"
#include "base/err.h"

struct authority {
	EVP_PKEY *key;
	X509 *cert;
};

/* The certificate as PEM, before all else that making the authority costs: `out` is called with it
 * once. 0, -EIO, or what `out` returned. */
int authority_make(struct authority *ret, int (*out)(void *arg, const char *pem, size_t n),
		   void *arg);
void authority_done(struct authority *a);
