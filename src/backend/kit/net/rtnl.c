/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/net/rtnl.h"

#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text/cleanup.h"

#define ANSWER 32768    /* the kernel's lists come in pieces of this size at most */
#define ADDR_GEN_NONE 1 /* IN6_ADDR_GEN_MODE_NONE: no link-local address, no waiting for one */

struct rtnl_request {
	struct nlmsghdr head;
	char room[1024];
};

static void rtnl_begin(struct rtnl_request *r, uint16_t type, uint16_t flags, const void *fixed,
		       size_t n)
{
	memset(r, 0, sizeof(*r));
	r->head.nlmsg_type = type;
	r->head.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	memcpy(r->room, fixed, n);
	r->head.nlmsg_len = NLMSG_LENGTH((uint32_t)n);
}

static void rtnl_put(struct rtnl_request *r, uint16_t type, const void *p, size_t n)
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

	rtnl_put(r, type, NULL, 0);
	return at;
}

static void rtnl_end(struct rtnl_request *r, uint32_t at)
{
	struct rtattr *a = (struct rtattr *)((char *)r + at);

	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len);
	a->rta_len = (uint16_t)(r->head.nlmsg_len - at);
}

static int rtnl_ask(int fd, struct rtnl_request *r)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		char rest[2048];
	} answer;
	/* Named, so that the kernel asks what the sender may do, and not what the socket's opener
	 * may: who owns several user namespaces has a say in each, those inside in theirs alone. */
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	ssize_t n;

	if (sendto(fd, r, r->head.nlmsg_len, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) <
	    0)
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

static void put_link(struct rtnl_request *r, const char *name, const unsigned char mac[6],
		     unsigned mtu)
{
	rtnl_put(r, IFLA_IFNAME, name, strlen(name) + 1);
	rtnl_put(r, IFLA_ADDRESS, mac, 6);
	if (mtu)
		rtnl_put(r, IFLA_MTU, &mtu, sizeof(mtu));
}

int rtnl_veth(int fd, const char *name, const unsigned char mac[6], const char *peer,
	      const unsigned char peer_mac[6], int ns, int index, unsigned mtu)
{
	const struct ifinfomsg link = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	uint32_t info, data, other, at;
	struct rtnl_request r;

	rtnl_begin(&r, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof(link));
	put_link(&r, name, mac, mtu);
	info = nest(&r, IFLA_LINKINFO);
	rtnl_put(&r, IFLA_INFO_KIND, "veth", 5);
	data = nest(&r, IFLA_INFO_DATA);
	other = nest(&r, VETH_INFO_PEER);
	at = NLMSG_ALIGN(r.head.nlmsg_len);
	memcpy((char *)&r + at, &link, sizeof(link));
	r.head.nlmsg_len = at + (uint32_t)sizeof(link);
	put_link(&r, peer, peer_mac, mtu);
	rtnl_put(&r, IFLA_NET_NS_FD, &ns, sizeof(ns));
	rtnl_end(&r, other);
	rtnl_end(&r, data);
	rtnl_end(&r, info);
	return rtnl_ask(fd, &r);
}

int rtnl_quiet(int fd, int index)
{
	const struct ifinfomsg link = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	const unsigned char mode = ADDR_GEN_NONE;
	struct rtnl_request r;
	uint32_t af, v6;

	rtnl_begin(&r, RTM_NEWLINK, 0, &link, sizeof(link));
	af = nest(&r, IFLA_AF_SPEC);
	v6 = nest(&r, AF_INET6);
	rtnl_put(&r, IFLA_INET6_ADDR_GEN_MODE, &mode, sizeof(mode));
	rtnl_end(&r, v6);
	rtnl_end(&r, af);
	return rtnl_ask(fd, &r);
}

static int set_flag(int fd, int index, unsigned flags)
{
	const struct ifinfomsg link = { .ifi_family = AF_UNSPEC,
					.ifi_index = index,
					.ifi_flags = flags,
					.ifi_change = IFF_UP };
	struct rtnl_request r;

	rtnl_begin(&r, RTM_NEWLINK, 0, &link, sizeof(link));
	return rtnl_ask(fd, &r);
}

int rtnl_up(int fd, int index)
{
	return set_flag(fd, index, IFF_UP);
}

int rtnl_down(int fd, int index)
{
	return set_flag(fd, index, 0);
}

int rtnl_delete(int fd, int index)
{
	const struct ifinfomsg link = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	struct rtnl_request r;

	rtnl_begin(&r, RTM_DELLINK, 0, &link, sizeof(link));
	return rtnl_ask(fd, &r);
}

int rtnl_move(int fd, int index, int ns)
{
	const struct ifinfomsg link = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	struct rtnl_request r;

	rtnl_begin(&r, RTM_NEWLINK, 0, &link, sizeof(link));
	rtnl_put(&r, IFLA_NET_NS_FD, &ns, sizeof(ns));
	return rtnl_ask(fd, &r);
}

/* A setting of IPv4 for one device: IPV4_DEVCONF_*, as in /proc/sys/net/ipv4/conf. */
static int rtnl_setting(int fd, int index, uint16_t what, uint32_t value)
{
	const struct ifinfomsg link = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	uint32_t af, v4, conf;
	struct rtnl_request r;

	rtnl_begin(&r, RTM_NEWLINK, 0, &link, sizeof(link));
	af = nest(&r, IFLA_AF_SPEC);
	v4 = nest(&r, AF_INET);
	conf = nest(&r, IFLA_INET_CONF);
	rtnl_put(&r, what, &value, sizeof(value));
	rtnl_end(&r, conf);
	rtnl_end(&r, v4);
	rtnl_end(&r, af);
	return rtnl_ask(fd, &r);
}

int rtnl_forwards(int fd, int index, bool proxy_arp)
{
	const struct {
		uint16_t what;
		uint32_t value;
	} all[] = { { IPV4_DEVCONF_FORWARDING, 1 },       { IPV4_DEVCONF_PROXY_ARP, proxy_arp },
		    { IPV4_DEVCONF_RP_FILTER, 0 },        { IPV4_DEVCONF_ACCEPT_SOURCE_ROUTE, 0 },
		    { IPV4_DEVCONF_ACCEPT_REDIRECTS, 0 }, { IPV4_DEVCONF_SEND_REDIRECTS, 0 },
		    { IPV4_DEVCONF_ROUTE_LOCALNET, 0 },   { IPV4_DEVCONF_ACCEPT_LOCAL, 0 } };
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(all) && r == 0; i++)
		r = rtnl_setting(fd, index, all[i].what, all[i].value);
	return r;
}

static size_t size_of(const struct rtnl_addr *a)
{
	return a->family == AF_INET ? 4 : 16;
}

int rtnl_address(int fd, int index, const struct rtnl_addr *a, bool own)
{
	const struct ifaddrmsg m = { .ifa_family = (uint8_t)a->family,
				     .ifa_prefixlen = (uint8_t)a->prefix,
				     .ifa_flags = IFA_F_NODAD, /* we know who is there */
				     .ifa_scope = own ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE,
				     .ifa_index = (uint32_t)index };
	struct rtnl_request r;

	rtnl_begin(&r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof(m));
	rtnl_put(&r, IFA_LOCAL, a->bytes, size_of(a));
	rtnl_put(&r, IFA_ADDRESS, a->bytes, size_of(a));
	return rtnl_ask(fd, &r);
}

int rtnl_neighbour(int fd, int index, const struct rtnl_addr *a, const unsigned char mac[6])
{
	const struct ndmsg m = { .ndm_family = (uint8_t)a->family,
				 .ndm_ifindex = index,
				 .ndm_state = NUD_PERMANENT };
	struct rtnl_request r;

	rtnl_begin(&r, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &m, sizeof(m));
	rtnl_put(&r, NDA_DST, a->bytes, size_of(a));
	rtnl_put(&r, NDA_LLADDR, mac, 6);
	return rtnl_ask(fd, &r);
}

/* DIRECT stands in the local table too: only there is it looked at before LOCAL, and by its longer
 * prefix it wins. */
static const struct {
	uint8_t table, scope, type;
	unsigned flags;
} routes[RTNL_ROUTES] = {
	[RTNL_LOCAL] = { RT_TABLE_LOCAL, RT_SCOPE_HOST, RTN_LOCAL, 0 },
	[RTNL_DIRECT] = { RT_TABLE_LOCAL, RT_SCOPE_LINK, RTN_UNICAST, 0 },
	[RTNL_VIA] = { RT_TABLE_MAIN, RT_SCOPE_UNIVERSE, RTN_UNICAST, 0 },
	[RTNL_LINK] = { RT_TABLE_MAIN, RT_SCOPE_LINK, RTN_UNICAST, 0 },
	[RTNL_OUT] = { RTNL_ROUTER_TABLE, RT_SCOPE_UNIVERSE, RTN_UNICAST, RTNH_F_ONLINK },
	[RTNL_CLOSED] = { RTNL_ROUTER_TABLE, RT_SCOPE_UNIVERSE, RTN_UNREACHABLE, 0 },
};

int rtnl_route(int fd, enum rtnl_route kind, int index, const struct rtnl_addr *to,
	       const struct rtnl_addr *via)
{
	const struct rtmsg m = { .rtm_family = (uint8_t)to->family,
				 .rtm_dst_len = (uint8_t)to->prefix,
				 .rtm_table = routes[kind].table,
				 .rtm_protocol = RTPROT_BOOT,
				 .rtm_scope = routes[kind].scope,
				 .rtm_type = routes[kind].type,
				 .rtm_flags = routes[kind].flags };
	bool closed = kind == RTNL_CLOSED;
	struct rtnl_request r;

	rtnl_begin(&r, RTM_NEWROUTE,
		   (uint16_t)(NLM_F_CREATE | (closed ? NLM_F_REPLACE : NLM_F_EXCL)), &m, sizeof(m));
	if (to->prefix)
		rtnl_put(&r, RTA_DST, to->bytes, size_of(to));
	if (!closed)
		rtnl_put(&r, RTA_OIF, &index, sizeof(index));
	if (via)
		rtnl_put(&r, RTA_GATEWAY, via->bytes, size_of(via));
	return rtnl_ask(fd, &r);
}

int rtnl_rule(int fd, const struct rtnl_rule *q)
{
	const struct fib_rule_hdr m = {
		.family = AF_INET,
		.src_len = q->source ? (uint8_t)q->source->prefix : 0,
		.dst_len = q->target ? (uint8_t)q->target->prefix : 0,
		.action = q->table ? FR_ACT_TO_TBL : FR_ACT_PROHIBIT,
	};
	struct rtnl_request r;

	rtnl_begin(&r, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof(m));
	rtnl_put(&r, FRA_PRIORITY, &q->order, sizeof(q->order));
	rtnl_put(&r, FRA_IIFNAME, q->from, strlen(q->from) + 1);
	if (q->source)
		rtnl_put(&r, FRA_SRC, q->source->bytes, size_of(q->source));
	if (q->target)
		rtnl_put(&r, FRA_DST, q->target->bytes, size_of(q->target));
	if (q->protocol)
		rtnl_put(&r, FRA_IP_PROTO, &q->protocol, sizeof(q->protocol));
	if (q->table)
		rtnl_put(&r, FRA_TABLE, &q->table, sizeof(q->table));
	return rtnl_ask(fd, &r);
}

/* ---- what the kernel tells ---- */

static ssize_t rtnl_hear(int fd, void *p, size_t n)
{
	ssize_t got;

	do
		got = recv(fd, p, n, MSG_TRUNC);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : (size_t)got > n ? -EMSGSIZE : got;
}

int rtnl_asks(int fd, int index, const struct rtnl_addr *source, const struct rtnl_addr *target,
	      uint8_t protocol)
{
	const struct rtmsg m = { .rtm_family = AF_INET, .rtm_src_len = 32, .rtm_dst_len = 32 };
	union {
		struct nlmsghdr head;
		char room[2048];
	} answer;
	struct rtnl_request r;
	ssize_t n;

	rtnl_begin(&r, RTM_GETROUTE, 0, &m, sizeof(m));
	r.head.nlmsg_flags = NLM_F_REQUEST; /* a route or an error, and no word after it */
	rtnl_put(&r, RTA_SRC, source->bytes, 4);
	rtnl_put(&r, RTA_DST, target->bytes, 4);
	rtnl_put(&r, RTA_IIF, &index, sizeof(index));
	rtnl_put(&r, RTA_IP_PROTO, &protocol, sizeof(protocol));
	if (send(fd, &r, r.head.nlmsg_len, 0) < 0)
		return -errno;
	n = rtnl_hear(fd, &answer, sizeof(answer));
	if (n < 0)
		return (int)n;
	if ((size_t)n >= NLMSG_LENGTH(sizeof(struct nlmsgerr)) &&
	    answer.head.nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
	return (size_t)n >= NLMSG_LENGTH(sizeof(struct rtmsg)) ? 0 : -EPROTO;
}

/* 1: the list is at its end. */
static int piece(const void *p, ssize_t left, rtnl_fn *each, void *arg)
{
	uint32_t n = (uint32_t)left;

	for (const struct nlmsghdr *m = p; NLMSG_OK(m, n); m = NLMSG_NEXT(m, n)) {
		int r;

		if (m->nlmsg_type == NLMSG_DONE)
			return 1;
		if (m->nlmsg_type == NLMSG_ERROR)
			return m->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr))
				       ? ((const struct nlmsgerr *)NLMSG_DATA(m))->error
				       : -EPROTO;
		if (m->nlmsg_flags & NLM_F_DUMP_INTR) /* it changed meanwhile: not all is here */
			return -EAGAIN;
		r = each(arg, m);
		if (r < 0)
			return r;
	}
	return 0;
}

int rtnl_list(int fd, uint16_t type, int family, rtnl_fn *each, void *arg)
{
	const struct rtgenmsg m = { .rtgen_family = (unsigned char)family };
	_Alignas(struct nlmsghdr) char answer[ANSWER];
	struct rtnl_request r;
	int code = 0;

	rtnl_begin(&r, type, NLM_F_DUMP, &m, sizeof(m));
	r.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	if (send(fd, &r, r.head.nlmsg_len, 0) < 0)
		return -errno;
	while (code == 0) {
		ssize_t n = rtnl_hear(fd, answer, sizeof(answer));

		code = n < 0 ? (int)n : piece(answer, n, each, arg);
	}
	return code < 0 ? code : 0;
}

const void *rtnl_find(const struct nlmsghdr *m, size_t fixed, uint16_t type, size_t n)
{
	size_t at = NLMSG_LENGTH(NLMSG_ALIGN(fixed));
	size_t left = m->nlmsg_len > at ? m->nlmsg_len - at : 0;

	for (const struct rtattr *a = (const struct rtattr *)((const char *)m + at);
	     RTA_OK(a, left); a = RTA_NEXT(a, left))
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return RTA_PAYLOAD(a) >= n ? RTA_DATA(a) : NULL;
	return NULL;
}

/* The kernel's own marks are no request: what it does with an address it knows by itself. */
static void patch(struct rtnl_request *r, int index)
{
	struct ifaddrmsg *address = (struct ifaddrmsg *)r->room;
	struct ndmsg *neighbour = (struct ndmsg *)r->room;
	struct rtmsg *route = (struct rtmsg *)r->room;
	const uint32_t flags = IFA_F_NODAD;
	void *at;

	if (r->head.nlmsg_type == RTM_NEWADDR) {
		address->ifa_index = (uint32_t)index;
		address->ifa_flags = IFA_F_NODAD;
		at = (void *)(uintptr_t)rtnl_find(&r->head, sizeof(*address), IFA_FLAGS, 4);
		if (at)
			memcpy(at, &flags, sizeof(flags));
	} else if (r->head.nlmsg_type == RTM_NEWNEIGH) {
		neighbour->ndm_ifindex = index;
	} else {
		route->rtm_flags &= RTNH_F_ONLINK;
		at = (void *)(uintptr_t)rtnl_find(&r->head, sizeof(*route), RTA_OIF, 4);
		if (at)
			memcpy(at, &index, sizeof(index));
	}
}

int rtnl_again(int fd, const struct nlmsghdr *m, int index)
{
	struct rtnl_request r;
	int code;

	if (m->nlmsg_len < sizeof(r.head) || m->nlmsg_len > sizeof(r))
		return -E2BIG;
	memset(&r, 0, sizeof(r));
	memcpy(&r, m, m->nlmsg_len);
	r.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
	r.head.nlmsg_seq = 0;
	r.head.nlmsg_pid = 0;
	patch(&r, index);
	code = rtnl_ask(fd, &r);
	return code == -EEXIST ? 0 : code;
}
