/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/net/door_net.h - the network of a sandbox under `network: proxy`: one cable into a
 * room where every address is the room's own.
 *
 * The caller has every capability in its own user namespace and is alone in a fresh network
 * namespace. That namespace becomes the door: all of IPv4 and IPv6 is local there, and the
 * listening sockets are opened in it. Then the caller moves on into the sandbox's namespace, whose
 * default route is a veth pair into the first. The door lives as long as its sockets. No packet can
 * go anywhere else: neither namespace has another device.
 *
 * Allocates nothing, so it may run between clone and exec. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "backend/kit/net/rtnl.h"
#include "base/text/err.h"
#include "model/settings/door_spec.h"

#define DOOR_NEW_GUEST (-1)

/* The sandbox's network namespace is `guest`, which has nothing but loopback, or a new one. Fills
 * fds[i] for w->sockets[i]; the caller owns them. On failure none is left open. */
int door_open(const struct door_want *w, int guest, int fds[DOOR_SOCKETS_MAX], struct err *e);

/* Without a door, in the sandbox's namespace: where questions for names arrive. IPv6 alone: port 53
 * of 127.0.0.1 stays the sandbox's own, and resolv.conf names it second. -1 where it cannot be had,
 * as without IPv6: then nobody is told. */
int door_names(void);

/* The two halves of it, for a caller that may not move between namespaces. */
struct door_room {
	int rtnl;                  /* speaks for the namespace that it was opened in */
	int fds[DOOR_SOCKETS_MAX]; /* as above */
	bool six;
	/* What the sandbox's end shows before its own address: whoever asks for the address of the
	 * place finds that. Nothing is sent from it. Family 0: nothing. */
	struct rtnl_addr shown;
};

enum { DOOR_CABLE = 64 }; /* index of both ends of the cable */
#define DOOR_GUEST_MAC                                                                             \
	{                                                                                          \
		0x02, 'b', 'r', 'i', 'g', 2                                                        \
	} /* of the sandbox's end */

/* In the door's namespace. Whatever the answer, door_room_done closes what was opened. */
int door_room(const struct door_want *w, struct door_room *room, struct err *e);
/* In the sandbox's, by whoever has a say in both. */
int door_cable(const struct door_room *room, struct err *e);
void door_room_done(struct door_room *room);

/* The same for a sandbox that somebody else has built, seen from outside: `pid` lives in its
 * network namespace and waits. A helper process enters the user namespace which that one belongs
 * to, and does the work there; it is gone when this returns. -EPERM: the caller has no say in
 * there. */
int door_open_for(pid_t pid, const struct door_want *w, int fds[DOOR_SOCKETS_MAX], struct err *e);

/* The same for door_names, in a sandbox that has its network already. */
int door_names_for(pid_t pid);
