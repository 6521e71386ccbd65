/* SPDX-License-Identifier: Apache-2.0 */
/* wire/tls_client.h - TLS to a server of the outside, with the peer's name always verified.
 *
 * It is linked into programs of their own, never into brig. The system's trusted roots or those of
 * SSL_CERT_FILE and SSL_CERT_DIR. There is no switch that turns verification off. */
#pragma once

#include "wire/client.h"

struct tls_client; /* trusted roots and settings; shared by connections */

/* Reads the trusted roots now; those of a hashed folder are read when they are needed. */
int tls_client_new(struct tls_client **ret, struct err *e);

/* PEM texts; NULL: none. */
struct tls_material {
	const char *roots;      /* trusted, and no others; NULL: the system's */
	const char *cert, *key; /* shown to a server that asks; the first of `cert` is ours, what
				 * follows its chain */
};

/* A key that wants a password is refused: nobody is asked. */
int tls_client_new_with(const struct tls_material *m, struct tls_client **ret, struct err *e);
struct tls_client *tls_client_free(struct tls_client *c);
DEFINE_CLEANUP(tls_client, struct tls_client *, tls_client_free)

/* Takes the connected, non-blocking socket, also on errors. Returns when the handshake is done and
 * the certificate is one for `host` (a name or an address). */
int transport_tls(struct tls_client *c, int fd, const char *host, uint64_t deadline,
		  struct transport *ret, struct err *e);
