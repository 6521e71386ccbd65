/* SPDX-License-Identifier: Apache-2.0 */
/* egress/authority/client_cert.h - certificates of the user's that the worker shows to hosts, and
 * whose keys it never has.
 *
 * OpenSSL is given a key whose signatures are made by the keeper. That signs one text alone: what a
 * client of TLS 1.3 signs when it shows its certificate. An older TLS, where the worker could have
 * anything signed by its hash, is not spoken to a host that has a certificate. */
#pragma once

#include <stdbool.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "egress/authority/mint.h"
#include "model/settings/spec.h"

struct client_certs;

/* `pems`: the host, and its certificates as PEM; the keeper has the keys in the same order. Each is
 * tried once. NULL where there is none. */
int client_certs_new(const struct envlist *pems, struct mint *m, struct client_certs **ret,
		     struct err *e);
struct client_certs *client_certs_free(struct client_certs *c); /* takes NULL */

/* Has the one for that name or address shown, if there is one. false: no memory. */
bool client_certs_show(const struct client_certs *c, const char *name, SSL *ssl);
/* Is there one? */
bool client_certs_has(const struct client_certs *c, const char *name);
