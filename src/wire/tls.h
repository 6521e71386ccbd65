/* SPDX-License-Identifier: Apache-2.0 */
/* wire/tls.h - TLS as a filter: a transport below it, a transport above it.
 *
 * Whoever makes an SSL decides whom it trusts and what it shows; from there on everything is the
 * same for both sides of a connection. Nothing here waits. */
#pragma once

#include "wire/client.h"

/* OpenSSL's own names for them: a header that hands one on needs no more than this. */
typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

struct tls;

/* What all contexts have in common: TLS 1.2 at least, as much as is there read at once, no buffers
 * kept while idle; a client verifies its peer. NULL: no memory. */
SSL_CTX *tls_context(bool server);

/* Takes both, also when there is no memory (NULL): they are then freed and closed. */
struct tls *tls_new(SSL *ssl, struct transport below);
struct tls *tls_free(struct tls *t); /* closes what is below, without a word to the peer */
DEFINE_CLEANUP(tls, struct tls *, tls_free)

/* 0 when it is done; -EAGAIN, and *wait is what to poll for; otherwise it has failed. */
int tls_handshake(struct tls *t, short *wait);
const char *tls_distrust(const struct tls *t); /* why the peer was not believed, or NULL */
bool tls_speaks(const struct tls *t, const char *protocol); /* chosen by ALPN */
const char *tls_server_name(const struct tls *t);           /* that the peer asked for, or NULL */

/* After the handshake. Its `close` tells the peer, and frees the filter. An end that the peer did
 * not announce is -EPROTO: part may be missing. */
struct transport tls_transport(struct tls *t);
void tls_shutdown(struct tls *t);      /* tells the peer that no more is sent */
bool tls_pending(const struct tls *t); /* has it read what nobody took yet? */
/* What it reads and writes in, 50 KiB: kept while nothing is under way, or not (so at first). */
void tls_keep(struct tls *t, bool keep);
