/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/door_spec.h - what a backend and the egress worker must agree on: the addresses of
 * the door and the sockets that are opened in it.
 *
 * All of it lies in networks that nobody routes: 198.18.0.0/15 is for benchmarks (RFC 2544), and
 * the IPv6 prefix is a unique local one that says "brig". A name asked for by DNS gets the nth
 * address of the first network and its twin in the second. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "model/settings/spec.h"

#define DOOR_SYNTH_FIRST 0xc6120001U /* 198.18.0.1 */
#define DOOR_ADDRESS 0xc613fffdU     /* 198.19.255.253, the door's own: resolver and proxy */
#define DOOR_GUEST 0xc613fffeU       /* 198.19.255.254, the sandbox's end */
/* resolv.conf of a sandbox without a network: who refuses, then a server of its own, if it has one.
 */
#define DOORLESS_RESOLV "nameserver ::1\nnameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
#define DOOR_ADDRESS_TEXT "198.19.255.253"
/* The network of a sandbox and its companions: the first member's address; the number of its cable
 * in the router, the next one's are one higher; who answers for names there, and nobody else does
 * for a sandbox without a network of its own. */
#define MEMBERS_FIRST 0xc613fe01U /* 198.19.254.1 */
#define MEMBERS_CABLE 128
#define MEMBERS_RESOLVER "198.19.254.254"
#define MEMBERS_RESOLV "nameserver " MEMBERS_RESOLVER "\noptions timeout:1 attempts:2\n"
#define DOOR_JAVA "/etc/brig/cacerts"        /* the same for Java */
#define DOOR_ROOTS "/etc/brig/ca-bundle.crt" /* inside: host roots and the run's authority */
#define DOOR_PROXY_PORT 3128                 /* unless egress.port says otherwise */
#define DOOR_RESOLV                                                                                \
	"nameserver " DOOR_ADDRESS_TEXT "\noptions timeout:5\n" /* resolv.conf inside              \
								 */

/* fd62:7269:6700::/48; the last 32 bits are the IPv4 address, the 16 before tell what it is. */
#define DOOR_PREFIX6                                                                               \
	{                                                                                          \
		0xfd, 0x62, 0x72, 0x69, 0x67                                                       \
	}
#define DOOR_PREFIX6_LEN 12 /* bytes before the IPv4 address */

enum door_kind {
	DOOR_STREAM,     /* TCP: somebody dialled an address and this port */
	DOOR_PROXY,      /* TCP: the explicit proxy, HTTP or SOCKS5 */
	DOOR_OWN,        /* a Unix socket of brig's own, for its own requests: whole URLs, which may
			  * begin with https, without TLS on this side */
	DOOR_DNS_STREAM, /* TCP port 53 */
	DOOR_DNS_PACKET, /* UDP port 53 */
	DOOR_KINDS
};

enum { DOOR_PORTS_MAX = 16, DOOR_SOCKETS_MAX = DOOR_PORTS_MAX + 5 };

struct door_socket {
	enum door_kind kind;
	uint16_t port;
};

/* Which sockets a run needs: 80, 443, what egress.allow names, the proxy and DNS. */
struct door_want {
	struct door_socket sockets[DOOR_SOCKETS_MAX];
	size_t n;
	uint16_t proxy_port;
};

/* Under network bridge: questions for names, and no more. */
#define DOOR_WANT_NAMES                                                                            \
	(struct door_want)                                                                         \
	{                                                                                          \
		.n = 1, .sockets = { { DOOR_DNS_PACKET, 53 } }                                     \
	}

int door_want(const struct egress_spec *s, struct door_want *ret, struct err *e);

/* The door holds whoever ignores these variables; they are for programs that prefer to be told. */
enum door_variable_kind { DOOR_IS_PROXY, DOOR_IS_DIRECT, DOOR_IS_ROOTS, DOOR_IS_ON };
struct door_variable {
	const char *name; /* NULL: the last */
	enum door_variable_kind is;
};
extern const struct door_variable door_variables[];
#define DOOR_DIRECT "localhost,127.0.0.1,127.0.0.0/8,::1" /* who is not behind it */

/* A door whose processes are where the sandbox is, on another machine: what its worker would have
 * been given here. */
struct door_there {
	int line;  /* a stream: events go into it, and its end is the worker's */
	int plan;  /* sealed; it holds secrets */
	int roots; /* sealed: the certificates that this machine trusts */
};
