/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/client_pem.h - the files of `egress.client_certs`: certificates and their key,
 * taken apart, since the one goes to the worker and the other to the keeper alone. Trusted side. */
#pragma once

#include <stddef.h>

#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"

enum { CLIENT_CERTS_MAX = 16, CLIENT_PEM_MAX = 64 * 1024 };

/* Where the one key of a text lies, and all of its certificates, one behind the other. Pure; what
 * is neither is left out. A key with a password is refused: nobody is asked. */
int client_pem_split(const char *text, size_t n, struct buf *certs, size_t *key, size_t *key_len,
		     struct err *e);

struct client_pem {
	const char *host, *path, *certs; /* of the arena */
	char *key;                       /* locked memory: cred_value_free */
	size_t key_len;
};

/* "HOST FILE"; ~/ is `home`. Sets host and path. */
int client_pem_parse(struct arena *a, const char *text, const char *home, struct client_pem *ret,
		     struct err *e);
/* Then reads the file, which others must not be able to write. */
int client_pem_read(struct arena *a, struct client_pem *p, struct err *e);
