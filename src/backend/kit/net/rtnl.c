/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/net/rtnl.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADDR_GEN_NONE 1 /* IN6_ADDR_GEN_MODE_NONE: no link-local address, no waiting for one */

struct rtnl_request {
	struct nlmsghdr head;
	char room[1024];
};

static void begin(struct rtnl_request *r, uint16_t type, uint16_t flags, const void *fixed,
		  size_t n)
{
	memset(r, 0, sizeof(*r));
	r->head.nlmsg_type = type;
	r->head.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	memcpy(r->room, fixed, n);
	r->head.nlmsg_len = NLMSG_LENGTH((uint32_t)n);
}

static void put(struct rtnl_request *r, uint16_t type, const void *p, size_t n)
{
	uint32_t at = NLMSG_ALIGN(r->head.nlmsg_len);
	struct rtattr *a = (struct rtattr *)((char *)r + at);

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(n);
	if (n)
		memcpy(RTA_DATA(a), p, n);
	r->head.nlmsg_len = at + RTA_LENGTH((uint32_t)n);
}

static uint32_t nest(struct rtnl_request *r, uint16_t type)
{
	uint32_t at = NLMSG_ALIGN(r->head.nlmsg_len);

	put(r, type, NULL, 0);
	return at;
}

static void end(struct rtnl_request *r, uint32_t at)
{
	struct rtattr *a = (struct rtattr *)((char *)r + at);

	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len);
	a->rta_len = (uint16_t)(r->head.nlmsg_len - at);
}

static int ask(int fd, struct rtnl_request *r)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		char rest[2048];
	} answer;
	ssize_t n;

	if (send(fd, r, r->head.nlmsg_len, 0) < 0)
		return -errno;
	do
		n = recv(fd, &answer, sizeof(answer), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(answer.head) + sizeof(answer.err) ||
	    answer.head.nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return answer.err.error;
}

int rtnl_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	return fd < 0 ? -errno : fd;
}

static void put_link(struct rtnl_request *r, const char *name, const unsigned char mac[6])
{
	put(r, IFLA_IFNAME, name, strlen(name) + 1);
	put(r, IFLA_ADDRESS, mac, 6);
}

int rtnl_veth(int fd, const char *name, const unsigned char mac[6], const char *peer,
	      const unsigned char peer_mac[6], int ns, int index)
{
	const struct ifinfomsg link = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	uint32_t info, data, other, at;
	struct rtnl_request r;

	begin(&r, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof(link));
	put_link(&r, name, mac);
	info = nest(&r, IFLA_LINKINFO);
	put(&r, IFLA_INFO_KIND, "veth", 5);
	data = nest(&r, IFLA_INFO_DATA);
	other = nest(&r, VETH_INFO_PEER);
	at = NLMSG_ALIGN(r.head.nlmsg_len);
	memcpy((char *)&r + at, &link, sizeof(link));
	r.head.nlmsg_len = at + (uint32_t)sizeof(link);
	put_link(&r, peer, peer_mac);
	put(&r, IFLA_NET_NS_FD, &ns, sizeof(ns));
	end(&r, other);
	end(&r, data);
	end(&r, info);
	return ask(fd, &r);
}

int rtnl_quiet(int fd, int index)
{
	const struct ifinfomsg link = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	const unsigned char mode = ADDR_GEN_NONE;
	struct rtnl_request r;
	uint32_t af, v6;

	begin(&r, RTM_NEWLINK, 0, &link, sizeof(link));
	af = nest(&r, IFLA_AF_SPEC);
	v6 = nest(&r, AF_INET6);
	put(&r, IFLA_INET6_ADDR_GEN_MODE, &mode, sizeof(mode));
	end(&r, v6);
	end(&r, af);
	return ask(fd, &r);
}

int rtnl_up(int fd, int index)
{
	const struct ifinfomsg link = { .ifi_family = AF_UNSPEC,
					.ifi_index = index,
					.ifi_flags = IFF_UP,
					.ifi_change = IFF_UP };
	struct rtnl_request r;

	begin(&r, RTM_NEWLINK, 0, &link, sizeof(link));
	return ask(fd, &r);
}

static size_t size_of(const struct rtnl_addr *a)
{
	return a->family == AF_INET ? 4 : 16;
}

int rtnl_address(int fd, int index, const struct rtnl_addr *a)
{
	const struct ifaddrmsg m = { .ifa_family = (uint8_t)a->family,
				     .ifa_prefixlen = (uint8_t)a->prefix,
				     .ifa_flags = IFA_F_NODAD, /* we know who is there */
				     .ifa_index = (uint32_t)index };
	struct rtnl_request r;

	begin(&r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof(m));
	put(&r, IFA_LOCAL, a->bytes, size_of(a));
	put(&r, IFA_ADDRESS, a->bytes, size_of(a));
	return ask(fd, &r);
}

int rtnl_neighbour(int fd, int index, const struct rtnl_addr *a, const unsigned char mac[6])
{
	const struct ndmsg m = { .ndm_family = (uint8_t)a->family,
				 .ndm_ifindex = index,
				 .ndm_state = NUD_PERMANENT };
	struct rtnl_request r;

	begin(&r, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &m, sizeof(m));
	put(&r, NDA_DST, a->bytes, size_of(a));
	put(&r, NDA_LLADDR, mac, 6);
	return ask(fd, &r);
}

int rtnl_route(int fd, enum rtnl_route kind, int index, const struct rtnl_addr *to,
	       const struct rtnl_addr *via)
{
	/* DIRECT stands in the local table too: only there is it looked at before LOCAL, and by its
	 * longer prefix it wins. */
	const struct rtmsg m = {
		.rtm_family = (uint8_t)to->family,
		.rtm_dst_len = (uint8_t)to->prefix,
		.rtm_table = kind == RTNL_VIA ? RT_TABLE_MAIN : RT_TABLE_LOCAL,
		.rtm_protocol = RTPROT_BOOT,
		.rtm_scope = kind == RTNL_VIA     ? RT_SCOPE_UNIVERSE
			     : kind == RTNL_LOCAL ? RT_SCOPE_HOST
						  : RT_SCOPE_LINK,
		.rtm_type = kind == RTNL_LOCAL ? RTN_LOCAL : RTN_UNICAST,
	};
	struct rtnl_request r;

	begin(&r, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof(m));
	if (to->prefix)
		put(&r, RTA_DST, to->bytes, size_of(to));
	put(&r, RTA_OIF, &index, sizeof(index));
	if (via)
		put(&r, RTA_GATEWAY, via->bytes, size_of(via));
	return ask(fd, &r);
}
