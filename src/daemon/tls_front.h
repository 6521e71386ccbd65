/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/tls_front.h - brig-tls: the process that speaks TLS in front of the daemon.
 *
 * It has the listening socket and the private key, which the daemon never reads; of each connection
 * whose handshake is done the daemon gets one end of a socket pair, with the bytes in clear. The
 * protocol: one message with nothing in it, or with why it cannot begin; then a message with a
 * descriptor for each connection. */
#pragma once

#include <sys/types.h>

#include "base/text/err.h"

/* Descriptors that it begins with. */
enum { TLS_LISTENER = 3, TLS_CHANNEL, TLS_CERT, TLS_KEY, TLS_FD_END };

#define TLS_PATIENCE_MS 10000

struct tls_front {
	const char *cert, *key; /* paths */
	int listener;           /* borrowed */
	int state;              /* the daemon's folder: the key must be in what holds it */
	pid_t pid;              /* 0: none runs */
	pid_t dead;             /* was killed, and has not ended yet; 0: none */
};

/* Starts it and waits for its first word: *channel, non-blocking, is then readable for each
 * connection, and at its end. */
int tls_front_start(struct tls_front *f, int *channel, struct err *e);
/* The same without waiting: once the channel is readable its first word is there. It has
 * TLS_PATIENCE_MS for it; tls_front_late is the error then. */
int tls_front_begin(struct tls_front *f, int *channel, struct err *e);
int tls_front_word(int channel, struct err *e);
int tls_front_late(struct err *e);
/* Ends it, without waiting until it has: one that takes its time for that keeps the next from
 * beginning, and nobody else. May be called again. */
void tls_front_end(struct tls_front *f);
