/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/host.h - host names as the guest wrote them, brought into one form or refused.
 *
 * Strict and total: letters, digits, hyphens and dots, labels of 1 to 63 bytes, 253 in all, one
 * trailing dot forgotten, lower case. What is an address in anybody's reading (dotted, decimal,
 * octal, hexadecimal, short, bracketed) is refused as one; names beyond ASCII must come as A-labels
 * (xn--...), which is what programs send. Pure; the length is carried, so a NUL is a bad byte. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes, not NUL-terminated. p is NULL for "not there". */
struct egress_text {
	const char *p;
	size_t n;
};

static inline struct egress_text egress_text(const char *p, size_t n)
{
	return (struct egress_text){ p, n };
}

#define HOST_NAME_MAX_LEN 253

struct host {
	uint8_t len;
	char name[HOST_NAME_MAX_LEN + 1]; /* NUL-terminated, canonical */
};

enum host_fault {
	HOST_OK,
	HOST_EMPTY,
	HOST_TOO_LONG,
	HOST_BAD_BYTE,  /* a control, a blank, a percent sign, an underscore, NUL ... */
	HOST_BAD_LABEL, /* empty, over 63 bytes, a hyphen at its end */
	HOST_NOT_ASCII, /* a name that should have been sent as its A-label */
	HOST_ADDRESS,
	HOST_BAD_PORT,
	HOST_FAULTS
};

enum host_fault host_parse(struct egress_text text, struct host *ret);

/* HOST[:PORT] as in a Host field or a CONNECT line; without a port, *port is `fallback`. Ports are
 * plain digits, 1 to 65535, without a leading zero. */
enum host_fault host_parse_authority(struct egress_text text, uint16_t fallback, struct host *ret,
				     uint16_t *port);

/* How much of an authority that is an address (HOST_ADDRESS) is the address; *port: what stands
 * behind it, or `fallback`. */
size_t host_address_part(struct egress_text authority, uint16_t fallback, uint16_t *port);

const char *host_fault_text(enum host_fault f); /* "is an address, not a name" */
bool host_eq(const struct host *a, const struct host *b);
/* For tables. Whoever chooses names can make them collide, and gains a longer walk. */
uint32_t host_hash(const struct host *h);

/* true when `name` (canonical) is `pattern`, or lies below it where the pattern is "*.x". Label by
 * label: never the apex for "*.x", never a mere suffix of the text. */
bool host_matches(const char *pattern, const struct host *name);

/* A name that means something on somebody's own networks alone, if anywhere: of one label, or below
 * a domain that no registry gives out; and all that host_is_local says. */
bool host_is_inner(const struct host *name);
/* localhost and its like, which name this machine whatever a resolver says. */
bool host_is_local(const struct host *name);
