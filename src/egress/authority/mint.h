/* SPDX-License-Identifier: Apache-2.0 */
/* egress/authority/mint.h - the worker's side of the keeper: a TLS server context and leaves on
 * demand.
 *
 * One key for all leaves, made here; the keeper signs. The last few hundred leaves are kept. */
#pragma once

#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "egress/authority/keeper_sign.h"
#include "wire/tls.h"

struct mint;

int mint_new(int keeper, struct mint **ret, struct err *e); /* takes over the socket */
struct mint *mint_free(struct mint *m);
DEFINE_CLEANUP(mint, struct mint *, mint_free)

/* A server for that canonical name; NULL when the keeper is gone or refuses. Blocks for as long as
 * the keeper takes (a tenth of a millisecond), a second at most. */
SSL *mint_server(struct mint *m, const char *name);

/* Has the keeper sign with that key of the user's (keeper_sign.h). 0 or -errno. */
int mint_sign(struct mint *m, int key, enum keeper_hash hash, const unsigned char *text, size_t n,
	      unsigned char *out, size_t room, size_t *len);
