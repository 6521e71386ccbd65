/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/net/nearby.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/text/cleanup.h"

#define TRIES 8 /* to read lists that change while they are read */

/* Everything that is not an address of the public internet, and what clouds answer themselves. */
static const struct {
	uint32_t address;
	unsigned prefix;
} always[] = {
	{ 0x00000000, 8 },  /* this network */
	{ 0x0a000000, 8 },  /* private */
	{ 0x64400000, 10 }, /* carrier-grade NAT; 100.100.100.200 is a metadata service */
	{ 0x7f000000, 8 },  /* loopback */
	{ 0xa9fe0000, 16 }, /* link-local: most metadata services */
	{ 0xac100000, 12 }, /* private */
	{ 0xa83f8110, 32 }, /* 168.63.129.16: Azure's host */
	{ 0xc0000000, 24 }, /* protocol assignments */
	{ 0xc0000200, 24 }, /* documentation */
	{ 0xc0586300, 24 }, /* relays of 6to4 */
	{ 0xc0a80000, 16 }, /* private */
	{ 0xc6120000, 15 }, /* benchmarks; the router's own address is among them */
	{ 0xc6336400, 24 }, /* documentation */
	{ 0xcb007100, 24 }, /* documentation */
	{ 0xe0000000, 4 },  /* multicast */
	{ 0xf0000000, 4 },  /* reserved, broadcast */
};

bool nearby_always(size_t nth, struct rtnl_addr *ret)
{
	uint32_t net;

	if (nth >= ARRAY_LEN(always))
		return false;
	*ret = (struct rtnl_addr){ .family = AF_INET, .prefix = always[nth].prefix };
	net = htonl(always[nth].address);
	memcpy(ret->bytes, &net, sizeof(net));
	return true;
}

static bool nearby_has(const struct nearby *n, const struct rtnl_addr *a)
{
	for (size_t i = 0; i < n->n; i++)
		if (n->v[i].prefix == a->prefix && memcmp(n->v[i].bytes, a->bytes, 4) == 0)
			return true;
	return false;
}

static int nearby_add(struct nearby *n, const void *address, unsigned prefix)
{
	struct rtnl_addr a = { .family = AF_INET, .prefix = prefix };
	uint32_t bits;

	if (prefix > 32)
		return -EPROTO;
	memcpy(&bits, address, sizeof(bits));
	bits &= htonl(prefix ? ~0U << (32 - prefix) : 0);
	memcpy(a.bytes, &bits, sizeof(bits));
	if (nearby_has(n, &a))
		return 0;
	if (n->n == NEARBY_MAX)
		return -E2BIG;
	n->v[n->n++] = a;
	return 0;
}

/* The address itself too: a point-to-point link has its peer's as the prefix. */
static int on_address(void *arg, const struct nlmsghdr *m)
{
	const struct ifaddrmsg *a = NLMSG_DATA(m);
	const void *local = rtnl_find(m, sizeof(*a), IFA_LOCAL, 4);
	const void *net = rtnl_find(m, sizeof(*a), IFA_ADDRESS, 4);
	int r = 0;

	if (m->nlmsg_type != RTM_NEWADDR || m->nlmsg_len < NLMSG_LENGTH(sizeof(*a)))
		return -EPROTO;
	if (a->ifa_family != AF_INET)
		return 0;
	if (local)
		r = nearby_add(arg, local, 32);
	return r == 0 && net ? nearby_add(arg, net, a->ifa_prefixlen) : r;
}

static int nearby_on_route(void *arg, const struct nlmsghdr *m)
{
	const struct rtmsg *t = NLMSG_DATA(m);
	const void *net = rtnl_find(m, sizeof(*t), RTA_DST, 4);

	if (m->nlmsg_type != RTM_NEWROUTE || m->nlmsg_len < NLMSG_LENGTH(sizeof(*t)))
		return -EPROTO;
	return t->rtm_family == AF_INET && t->rtm_dst_len && net
		       ? nearby_add(arg, net, t->rtm_dst_len)
		       : 0;
}

int nearby_read(struct nearby *n, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	int r = -EAGAIN;

	for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
		(void)fd_close(fd); /* with what was left unread */
		fd = rtnl_open();
		r = fd < 0 ? fd : rtnl_list(fd, RTM_GETADDR, AF_INET, on_address, n);
		if (r == 0)
			r = rtnl_list(fd, RTM_GETROUTE, AF_INET, nearby_on_route, n);
	}
	if (r == -E2BIG)
		return err_refuse(e, ERR_UNAVAILABLE, E2BIG,
				  "use --network proxy, which needs no list of them",
				  "this machine has more than %d routes", NEARBY_MAX);
	return r < 0 ? err_errno(e, r, "cannot read the routes of this machine") : 0;
}

int nearby_follow(void)
{
	const struct sockaddr_nl to = { .nl_family = AF_NETLINK,
					.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE };
	CLEANUP(fd)
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* What came is read from the kernel's lists, so that a message that found no room is no loss. */
void nearby_heard(int fd)
{
	char room[8192];

	while (recv(fd, room, sizeof(room), 0) >= 0 || errno == EINTR || errno == ENOBUFS)
		;
}

struct veth_search {
	int index, other;
	int *bridge;
	bool found;
};

static int nearby_on_link(void *arg, const struct nlmsghdr *m)
{
	const struct ifinfomsg *l = NLMSG_DATA(m);
	const int *other = rtnl_find(m, sizeof(*l), IFLA_LINK, sizeof(*other));
	const int *bridge = rtnl_find(m, sizeof(*l), IFLA_MASTER, sizeof(*bridge));
	struct veth_search *p = arg;

	if (m->nlmsg_type != RTM_NEWLINK || m->nlmsg_len < NLMSG_LENGTH(sizeof(*l)))
		return -EPROTO;
	if (l->ifi_index != p->index || !other || *other != p->other)
		return 0;
	p->found = true;
	*p->bridge = bridge ? *bridge : 0;
	return 0;
}

bool nearby_joined(int index, int other, int *ret_bridge)
{
	CLEANUP(fd) int fd = rtnl_open();
	struct veth_search p = { .index = index, .other = other, .bridge = ret_bridge };

	return fd >= 0 && index > 0 &&
	       rtnl_list(fd, RTM_GETLINK, AF_UNSPEC, nearby_on_link, &p) == 0 && p.found;
}

static int on_port(void *arg, const struct nlmsghdr *m)
{
	const int *bridge = rtnl_find(m, sizeof(struct ifinfomsg), IFLA_MASTER, sizeof(*bridge));
	const int *wanted = arg;

	return bridge && *bridge == *wanted ? -EBUSY : 0;
}

void nearby_part(int index, int bridge)
{
	CLEANUP(fd) int fd = rtnl_open();

	if (fd < 0 || bridge <= 0)
		return;
	(void)rtnl_delete(fd, index); /* the kernel takes its time with a namespace that ends */
	if (rtnl_list(fd, RTM_GETLINK, AF_UNSPEC, on_port, &bridge) == 0)
		(void)rtnl_delete(fd, bridge);
}
