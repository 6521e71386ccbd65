/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/addr.h - addresses: one strict spelling, and which of them belong to the internet.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addr {
	uint8_t family; /* 4 or 6; 0: none */
	uint8_t b[16];  /* network order; the first 4 for family 4 */
};

enum addr_class {
	ADDR_PUBLIC,
	ADDR_UNSPECIFIED,
	ADDR_LOOPBACK,
	ADDR_PRIVATE,    /* RFC 1918, unique local */
	ADDR_LINK_LOCAL, /* and the old site-local */
	ADDR_SHARED,     /* carrier-grade NAT */
	ADDR_MULTICAST,
	ADDR_RESERVED, /* broadcast, protocol assignments, class E, discard, everything not 2000::/3
			*/
	ADDR_DOCUMENTATION,
	ADDR_BENCHMARK,  /* the door's own synthetic addresses are among them */
	ADDR_TRANSLATED, /* IPv4 inside IPv6: mapped, compatible, NAT64, 6to4, Teredo */
	ADDR_METADATA,   /* the clouds' well-known addresses, some of them otherwise public */
	ADDR_CLASSES
};

/* Four decimal numbers without leading zeros, or RFC 4291 text without zone; nothing else. */
int addr_parse(const char *text, size_t n, struct addr *ret); /* 0 or -EINVAL */
void addr_text(const struct addr *a, char out[48]);
bool addr_eq(const struct addr *a, const struct addr *b);

enum addr_class addr_class(const struct addr *a);
const char *addr_class_name(enum addr_class c); /* "link-local" */
