/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/net/router.h - the network of a sandbox under `network: bridge`: a namespace between
 * it and the cable to the outside, with routes that lead to the internet and nowhere nearer.
 *
 *     sandbox: its address, one default route ══ veth ══ router: rules and routes ══ cable
 *
 * Routes in the sandbox's own namespace would not hold: a socket that is bound to a device ignores
 * them. The router's are looked at by the kernel for every packet that comes in, whoever sent it.
 * Only TCP and UDP of IPv4 from the sandbox's one address are routed; there is no IPv6. No packet
 * filter takes part, and nothing is written to /proc.
 *
 * The sandbox has the address that the cable's other side knows; the router has none there, and
 * answers for it (proxy ARP). So nothing is translated. Allocates nothing. */
#pragma once

#include "backend/kit/net/door_net.h"
#include "backend/kit/net/rtnl.h"

/* The device that leads outside, as somebody else has set it up. */
struct router_cable {
	int index, other; /* its own, and of the device at its other end; 0: none */
	unsigned mtu;
	struct rtnl_addr own, gateway; /* both with all 32 bits */
};

/* In the namespace that has it: the only device that is up, besides loopback. */
int router_find(int rtnl, struct router_cable *ret, struct err *e);

/* Takes the cable out of the caller's namespace, which becomes the sandbox's, into the room's,
 * which becomes the router; lays the veth between them, sets rules and routes, closes what is
 * closed everywhere, and has the kernel confirm it. The room is door_room's, for DNS alone. */
int router_lay(const struct door_room *room, const struct router_cable *c, struct err *e);

/* The two halves of it, for a cable that comes later into the room's namespace: the sandbox's side,
 * in its namespace, where c->own and c->mtu count; then the router, by whoever has a say in it. */
int router_inside(const struct door_room *room, const struct router_cable *c, struct err *e);
int router_outside(int rtnl, const struct router_cable *c, const char *name, struct err *e);

/* Closes these as well; the room's routing socket says which router. Each is confirmed. */
int router_close(int rtnl, const struct router_cable *c, const struct rtnl_addr *v, size_t n,
		 struct err *e);

void router_cut(int rtnl, const struct router_cable *c); /* nothing passes any more */
