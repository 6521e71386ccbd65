/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/net/nearby.h - all that is nearer than the internet, as prefixes of IPv4: what nobody
 * routes, what clouds answer themselves, and whatever this machine has an address in or a route to
 * that is not its default one, in any table.
 *
 * Read from the kernel by anybody; it takes no privilege. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "backend/kit/net/rtnl.h"
#include "base/text/err.h"

enum { NEARBY_MAX = 4096 };

struct nearby {
	struct rtnl_addr v[NEARBY_MAX];
	size_t n;
};

/* The prefixes that are closed on every machine; nth in their table. false: there are no more. */
bool nearby_always(size_t nth, struct rtnl_addr *ret);

/* Adds what the namespace of the caller has. Those that were there stay: what was near once is not
 * opened again while a run lasts. More than NEARBY_MAX is an error. */
int nearby_read(struct nearby *n, struct err *e);

/* A descriptor that is readable when an address or a route has come; or -errno. */
int nearby_follow(void);
void nearby_heard(int fd); /* takes what it had to say */

/* Does the veth with this index, in the namespace of the caller, have the other one at its other
 * end? An engine may live in another namespace than its user, whose routes would then say nothing.
 * The bridge is the one that it is a port of; 0: none. */
bool nearby_joined(int index, int other, int *ret_bridge);

/* Removes that veth, and the bridge if no other port is left. It takes privilege. */
void nearby_part(int index, int bridge);
