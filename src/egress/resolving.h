/* SPDX-License-Identifier: Apache-2.0 */
/* egress/resolving.h - names under `network: bridge`: brig-egress answers questions that arrive at
 * a socket in the sandbox's router, and asks the host's resolvers from the host's side.
 *
 * So a resolver that stands in the LAN needs no way through the router. A question is read and
 * written anew, never passed on; it is answered with one address of the public internet, or none.
 * Where the process is gone no name is answered, and nothing else changes. */
#pragma once

#include <sys/types.h>

#include "base/text/err.h"

struct resolving {
	pid_t pid; /* 0: none */
	int pidfd;
};

struct memberlist;

/* The socket stays the caller's to close. Names of members are answered without a question to
 * anybody; there may be none. */
int resolving_start(struct resolving *r, int socket, const struct memberlist *l, struct err *e);
void resolving_stop(struct resolving *r);

/* names/answer.c: what brig-egress does when it is started with this word. The socket is 3; 4 has
 * the names of members, if it is there. */
#define RESOLVING_WORD "answers"
int answer_main(void);
