/* SPDX-License-Identifier: Apache-2.0 */
/* proc/lend.h - TCP sockets of a sandbox's network for the monitor outside of it, which reaches a
 * published port by them.
 *
 * They go one way only. A socket of the host's network is never passed in: whoever holds one can
 * dissolve its connection and make another, to anything that the host can reach. */
#pragma once

#include <stddef.h>

#include "proc/supervisor.h"

enum { LEND_FDS = 2 };

/* Unconnected and not blocking; -1: the sandbox has none of that family. */
struct lent {
	int v4, v6;
};

/* Inside, for ASK_SOCKETS, of which nothing but the word itself is looked at: makes one of each
 * family, sends them with SUPERVISOR_SOCKETS and keeps neither. Allocates nothing. */
void lend_sockets(int control);

/* Outside: what came with that word. Each is looked at; one that is no TCP socket, is connected, or
 * is of the caller's own network is closed. */
struct lent lend_take(const int *fds, size_t n);
void lend_done(struct lent *l);

/* Outside: those for connections that are yet to come, once there was one. */
enum { LEND_AHEAD = 4 };
struct lend_pool {
	struct lent have[LEND_AHEAD];
	size_t n, asked; /* at hand; on their way */
};

int lend_ask(struct lend_pool *p, int control, struct lent *ret); /* as backend.lend */
/* Takes the descriptors that came with a word, whatever it is. */
void lend_heard(struct lend_pool *p, const struct supervisor_msg *m, const int *fds, size_t n);
void lend_pool_done(struct lend_pool *p);
