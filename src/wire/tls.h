/* SPDX-License-Identifier: Apache-2.0 */
/* wire/tls.h - TLS under a client, with the peer's name always verified.
 *
 * The only file that knows OpenSSL; it is linked into programs of their own, never into brig. TLS
 * 1.2 at least, the system's trusted roots or those of SSL_CERT_FILE and SSL_CERT_DIR. There is no
 * switch that turns verification off. */
#pragma once

#include "wire/client.h"

struct tls; /* trusted roots and settings; shared by connections */

/* Reads the trusted roots now; those of a hashed folder are read when they are needed. */
int tls_new(struct tls **ret, struct err *e);
struct tls *tls_free(struct tls *t);
DEFINE_CLEANUP(tls, struct tls *, tls_free)

/* Takes the connected, non-blocking socket, also on errors. Returns when the handshake is done and
 * the certificate is one for `host` (a name or an address). */
int transport_tls(struct tls *t, int fd, const char *host, uint64_t deadline, struct transport *ret,
		  struct err *e);
