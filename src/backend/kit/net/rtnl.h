/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/net/rtnl.h - the few requests to the kernel's routing socket that a door needs.
 *
 * A routing socket belongs to the namespace it was opened in, wherever its owner has gone since.
 * Nothing is allocated. Each request waits for the kernel's word: 0 or -errno. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rtnl_addr {
	int family;
	unsigned char bytes[16];
	unsigned prefix; /* bits */
};

int rtnl_open(void); /* a descriptor or -errno */

/* `name` here and `peer` in the namespace behind ns; both get that index. */
int rtnl_veth(int fd, const char *name, const unsigned char mac[6], const char *peer,
	      const unsigned char peer_mac[6], int ns, int index);
int rtnl_quiet(int fd, int index); /* no IPv6 address of its own making; before rtnl_up */
int rtnl_up(int fd, int index);
int rtnl_address(int fd, int index, const struct rtnl_addr *a);
int rtnl_neighbour(int fd, int index, const struct rtnl_addr *a, const unsigned char mac[6]);

enum rtnl_route { RTNL_LOCAL, RTNL_DIRECT, RTNL_VIA };

/* LOCAL: what goes to `to` is ours. DIRECT: `to` is at the other end of the cable; wins over LOCAL.
 * VIA: `to` is reached through `via`. */
int rtnl_route(int fd, enum rtnl_route kind, int index, const struct rtnl_addr *to,
	       const struct rtnl_addr *via);
