/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/net/rtnl.h - the few requests to the kernel's routing socket that a door
 * or a router needs.
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

/* `name` here and `peer` in the namespace behind ns; both get that index. mtu 0: the kernel's. */
int rtnl_veth(int fd, const char *name, const unsigned char mac[6], const char *peer,
	      const unsigned char peer_mac[6], int ns, int index, unsigned mtu);
int rtnl_move(int fd, int index, int ns); /* into the namespace behind ns; it is down there */
int rtnl_quiet(int fd, int index);        /* no IPv6 address of its own making; before rtnl_up */
int rtnl_up(int fd, int index);
int rtnl_down(int fd, int index);
int rtnl_delete(int fd, int index); /* with its other end */

/* A device that forwards IPv4, which is a setting of each and of nothing else, and takes neither
 * source routes nor redirects, which would be ways around. */
int rtnl_forwards(int fd, int index, bool proxy_arp);
/* `own`: for the other end of this cable alone, never a source on another one (scope link). */
int rtnl_address(int fd, int index, const struct rtnl_addr *a, bool own);
int rtnl_neighbour(int fd, int index, const struct rtnl_addr *a, const unsigned char mac[6]);

enum rtnl_route {
	RTNL_LOCAL,  /* what goes to `to` is ours */
	RTNL_DIRECT, /* `to` is at the other end of the cable; wins over LOCAL */
	RTNL_VIA,    /* `to` is reached through `via` */
	RTNL_LINK,   /* `to` is at the other end of the cable */
	RTNL_OUT,    /* as VIA, in the router's table; `via` needs no route of its own */
	RTNL_CLOSED, /* `to` is unreachable, in the router's table; no device. May be there already
		      */
	RTNL_ROUTES
};

#define RTNL_ROUTER_TABLE 100

int rtnl_route(int fd, enum rtnl_route kind, int index, const struct rtnl_addr *to,
	       const struct rtnl_addr *via);

/* A rule of IPv4 about packets that come in by the device `from`. */
struct rtnl_rule {
	uint32_t order;
	const char *from;
	const struct rtnl_addr *source, *target; /* NULL: any */
	uint8_t protocol;                        /* 0: any */
	uint32_t table;                          /* 0: prohibited */
};
int rtnl_rule(int fd, const struct rtnl_rule *q);

/* Where would a packet of IPv4 go that came in by the device with this index? 0: somewhere;
 * otherwise the error that it meets. */
int rtnl_asks(int fd, int index, const struct rtnl_addr *source, const struct rtnl_addr *target,
	      uint8_t protocol);

struct nlmsghdr;
/* An address, a route or a neighbour of a list, said again for the device with this index. -E2BIG:
 * too long. It may be there already. */
int rtnl_again(int fd, const struct nlmsghdr *m, int index);

typedef int rtnl_fn(void *arg, const struct nlmsghdr *m); /* negative: stop, and return that */

/* All that the kernel lists: RTM_GETADDR, RTM_GETROUTE, RTM_GETLINK. The message is borrowed. */
int rtnl_list(int fd, uint16_t type, int family, rtnl_fn *each, void *arg);

/* An attribute of that message, which has `fixed` bytes before the first; NULL: not there, or less
 * than `n` bytes long. */
const void *rtnl_find(const struct nlmsghdr *m, size_t fixed, uint16_t type, size_t n);
