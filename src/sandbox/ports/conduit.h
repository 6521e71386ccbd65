/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/ports/conduit.h - one connection from the host to a published port: bytes both ways, and
 * nothing of them is read.
 *
 *     waits (for a socket of the sandbox's network) -> dials -> open -> over
 *
 * Memory is bounded: a side is read only when all that came from it has been passed on. The end of
 * one direction is passed on as the end of that direction, a reset as a reset. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/sys/loop.h"
#include "proc/lend.h"

struct conduit;
typedef void conduit_fn(void *arg, struct conduit *c);

/* What a connection needs to know of its port. */
struct conduit_port {
	uint16_t port; /* inside */
	bool door;     /* the sandbox has an address besides its loopback: DOOR_GUEST */
};

/* Takes `host`, an accepted connection that does not block. Calls `over` once, when it is to be
 * freed. NULL: no memory; host is closed. */
struct conduit *conduit_new(struct loop *l, int host, struct conduit_port port, conduit_fn *over,
			    void *arg);
struct conduit *conduit_free(struct conduit *c); /* takes NULL */

bool conduit_waits(const struct conduit *c);
void conduit_dial(struct conduit *c, struct lent *sockets); /* takes them; may call `over` */

/* The sandbox has ended: over once its last bytes are passed on. May call `over`. */
void conduit_end(struct conduit *c);
