/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/addr.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>

struct addr_range {
	uint8_t b[16];
	uint8_t bits;
	uint8_t class;
};

/* The first that fits counts: exceptions stand in front. From IANA's special-purpose registries. */
static const struct addr_range v4[] = {
	{ { 169, 254, 169, 254 }, 32, ADDR_METADATA }, /* AWS, Azure, GCP, most others */
	{ { 169, 254, 169, 253 }, 32, ADDR_METADATA }, /* AWS resolver */
	{ { 169, 254, 170, 2 }, 32, ADDR_METADATA },   /* AWS ECS */
	{ { 169, 254, 170, 23 }, 32, ADDR_METADATA },  /* AWS EKS */
	{ { 169, 254, 0, 23 }, 32, ADDR_METADATA },    /* Tencent */
	{ { 100, 100, 100, 200 }, 32, ADDR_METADATA }, /* Alibaba */
	{ { 192, 0, 0, 192 }, 32, ADDR_METADATA },     /* Oracle */
	{ { 168, 63, 129, 16 }, 32, ADDR_METADATA },   /* Azure's own, in public space */
	{ { 0 }, 32, ADDR_UNSPECIFIED },
	{ { 0 }, 8, ADDR_RESERVED },
	{ { 10 }, 8, ADDR_PRIVATE },
	{ { 100, 64 }, 10, ADDR_SHARED },
	{ { 127 }, 8, ADDR_LOOPBACK },
	{ { 169, 254 }, 16, ADDR_LINK_LOCAL },
	{ { 172, 16 }, 12, ADDR_PRIVATE },
	{ { 192, 0, 0 }, 24, ADDR_RESERVED },
	{ { 192, 0, 2 }, 24, ADDR_DOCUMENTATION },
	{ { 192, 31, 196 }, 24, ADDR_RESERVED },
	{ { 192, 52, 193 }, 24, ADDR_RESERVED },
	{ { 192, 88, 99 }, 24, ADDR_TRANSLATED }, /* 6to4 relays */
	{ { 192, 168 }, 16, ADDR_PRIVATE },
	{ { 192, 175, 48 }, 24, ADDR_RESERVED },
	{ { 198, 18 }, 15, ADDR_BENCHMARK },
	{ { 198, 51, 100 }, 24, ADDR_DOCUMENTATION },
	{ { 203, 0, 113 }, 24, ADDR_DOCUMENTATION },
	{ { 224 }, 4, ADDR_MULTICAST },
	{ { 240 }, 4, ADDR_RESERVED }, /* and 255.255.255.255 */
};

static const struct addr_range v6[] = {
	{ { 0xfd, 0, 0x0e, 0xc2, [14] = 2, 0x54 }, 128, ADDR_METADATA }, /* fd00:ec2::254 */
	{ { 0xfd, 0, 0x0e, 0xc2, [15] = 0x23 }, 128, ADDR_METADATA },    /* fd00:ec2::23 */
	{ { 0xfd, 0, 0x0e, 0xc2, [14] = 2, 0x53 }, 128, ADDR_METADATA }, /* fd00:ec2::253 */
	{ { 0xfd, 0x20, 0, 0xce, [14] = 2, 0x54 }, 128, ADDR_METADATA }, /* fd20:ce::254 */
	{ { 0 }, 128, ADDR_UNSPECIFIED },
	{ { [15] = 1 }, 128, ADDR_LOOPBACK },
	{ { [10] = 0xff, 0xff }, 96, ADDR_TRANSLATED }, /* mapped */
	{ { [8] = 0xff, 0xff }, 96, ADDR_TRANSLATED },  /* ::ffff:0:a.b.c.d, stateless */
	{ { 0 }, 96, ADDR_TRANSLATED },                 /* compatible */
	{ { 0, 0x64, 0xff, 0x9b }, 96, ADDR_TRANSLATED },
	{ { 0, 0x64, 0xff, 0x9b, 0, 1 }, 48, ADDR_TRANSLATED },
	{ { 0x01 }, 64, ADDR_RESERVED },               /* 100::/64 discard */
	{ { 0x20, 0x01, 0, 0 }, 32, ADDR_TRANSLATED }, /* Teredo */
	{ { 0x20, 0x01, 0, 2 }, 48, ADDR_BENCHMARK },
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, ADDR_DOCUMENTATION },
	{ { 0x20, 0x01 }, 23, ADDR_RESERVED },   /* protocol assignments, ORCHID */
	{ { 0x20, 0x02 }, 16, ADDR_TRANSLATED }, /* 6to4 */
	{ { 0x3f, 0xff }, 20, ADDR_DOCUMENTATION },
	{ { 0xfc }, 7, ADDR_PRIVATE },
	{ { 0xfe, 0x80 }, 10, ADDR_LINK_LOCAL },
	{ { 0xfe, 0xc0 }, 10, ADDR_LINK_LOCAL }, /* the old site-local */
	{ { 0xff }, 8, ADDR_MULTICAST },
	{ { 0x20 }, 3, ADDR_PUBLIC }, /* all that was ever given out */
	{ { 0 }, 0, ADDR_RESERVED },
};

static const char *const names[] = {
	[ADDR_PUBLIC] = "public",
	[ADDR_UNSPECIFIED] = "unspecified",
	[ADDR_LOOPBACK] = "loopback",
	[ADDR_PRIVATE] = "private",
	[ADDR_LINK_LOCAL] = "link-local",
	[ADDR_SHARED] = "carrier-grade NAT",
	[ADDR_MULTICAST] = "multicast",
	[ADDR_RESERVED] = "reserved",
	[ADDR_DOCUMENTATION] = "documentation",
	[ADDR_BENCHMARK] = "benchmarking",
	[ADDR_TRANSLATED] = "IPv4-in-IPv6",
	[ADDR_METADATA] = "cloud metadata",
};
static_assert(sizeof(names) / sizeof(*names) == ADDR_CLASSES, "a name for every class");

const char *addr_class_name(enum addr_class c)
{
	return names[c];
}

int addr_parse(const char *text, size_t n, struct addr *ret)
{
	struct addr a = { 0 };
	char copy[48];

	/* inet_pton takes neither leading zeros nor short forms; a NUL would hide the rest. */
	if (!n || n >= sizeof(copy) || memchr(text, '\0', n))
		return -EINVAL;
	memcpy(copy, text, n);
	copy[n] = '\0';
	a.family = inet_pton(AF_INET, copy, a.b) == 1    ? 4
		   : inet_pton(AF_INET6, copy, a.b) == 1 ? 6
							 : 0;
	if (!a.family)
		return -EINVAL;
	*ret = a;
	return 0;
}

void addr_text(const struct addr *a, char out[48])
{
	if (!inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->b, out, 48))
		out[0] = '\0';
}

bool addr_eq(const struct addr *a, const struct addr *b)
{
	return a->family == b->family && memcmp(a->b, b->b, a->family == 4 ? 4 : 16) == 0;
}

static bool in_range(const uint8_t *b, const struct addr_range *r)
{
	size_t whole = r->bits / 8;
	unsigned rest = r->bits % 8, mask = rest ? (0xffU << (8 - rest)) & 0xffU : 0;

	if (memcmp(b, r->b, whole) != 0)
		return false;
	return !rest || (b[whole] & mask) == (r->b[whole] & mask);
}

enum addr_class addr_class(const struct addr *a)
{
	const struct addr_range *r = a->family == 4 ? v4 : v6;
	size_t n = a->family == 4 ? sizeof(v4) / sizeof(*v4) : sizeof(v6) / sizeof(*v6);

	if (a->family != 4 && a->family != 6)
		return ADDR_RESERVED;
	for (size_t i = 0; i < n; i++)
		if (in_range(a->b, &r[i]))
			return (enum addr_class)r[i].class;
	return ADDR_PUBLIC; /* IPv4 alone comes here: the last row of v6 takes all */
}
