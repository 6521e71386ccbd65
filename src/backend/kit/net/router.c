/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/net/router.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "backend/kit/net/nearby.h"
#include "base/files/fd.h"
#include "base/text/cleanup.h"

#define LOOPBACK 1
#define INSIDE 64 /* index of both ends of the veth, or the next if the cable has that */
#define INSIDE_NAME "inside0"

static const unsigned char router_mac[6] = { 0x02, 'b', 'r', 'i', 'g', 3 };
static const unsigned char guest_mac[6] = { 0x02, 'b', 'r', 'i', 'g', 4 };

/* ---- the cable ---- */

struct cable_search {
	struct router_cable *c;
	char name[IFNAMSIZ];
	size_t devices;
};

static int router_on_link(void *arg, const struct nlmsghdr *m)
{
	const struct ifinfomsg *l = NLMSG_DATA(m);
	const unsigned *mtu = rtnl_find(m, sizeof(*l), IFLA_MTU, sizeof(*mtu));
	const int *other = rtnl_find(m, sizeof(*l), IFLA_LINK, sizeof(*other));
	struct cable_search *f = arg;

	if (m->nlmsg_type != RTM_NEWLINK || m->nlmsg_len < NLMSG_LENGTH(sizeof(*l)))
		return -EPROTO;
	if (l->ifi_flags & IFF_LOOPBACK || !(l->ifi_flags & IFF_UP))
		return 0;
	f->devices++;
	f->c->index = l->ifi_index;
	f->c->other = other ? *other : 0;
	f->c->mtu = mtu ? *mtu : 0;
	return 0;
}

static struct rtnl_addr router_one(const void *bytes)
{
	struct rtnl_addr a = { .family = AF_INET, .prefix = 32 };

	memcpy(a.bytes, bytes, 4);
	return a;
}

static int on_address(void *arg, const struct nlmsghdr *m)
{
	const struct ifaddrmsg *a = NLMSG_DATA(m);
	const void *own = rtnl_find(m, sizeof(*a), IFA_LOCAL, 4);
	struct cable_search *f = arg;

	if (m->nlmsg_type != RTM_NEWADDR || m->nlmsg_len < NLMSG_LENGTH(sizeof(*a)))
		return -EPROTO;
	if (own && a->ifa_family == AF_INET && (int)a->ifa_index == f->c->index &&
	    !f->c->own.family)
		f->c->own = router_one(own);
	return 0;
}

static int router_on_route(void *arg, const struct nlmsghdr *m)
{
	const struct rtmsg *t = NLMSG_DATA(m);
	const void *via = rtnl_find(m, sizeof(*t), RTA_GATEWAY, 4);
	const int *by = rtnl_find(m, sizeof(*t), RTA_OIF, sizeof(*by));
	struct cable_search *f = arg;

	if (m->nlmsg_type != RTM_NEWROUTE || m->nlmsg_len < NLMSG_LENGTH(sizeof(*t)))
		return -EPROTO;
	if (via && by && *by == f->c->index && !t->rtm_dst_len && t->rtm_family == AF_INET)
		f->c->gateway = router_one(via);
	return 0;
}

int router_find(int rtnl, struct router_cable *ret, struct err *e)
{
	struct cable_search f = { .c = ret };
	int r;

	*ret = (struct router_cable){ 0 };
	if ((r = rtnl_list(rtnl, RTM_GETLINK, AF_UNSPEC, router_on_link, &f)) < 0 ||
	    (r = rtnl_list(rtnl, RTM_GETADDR, AF_INET, on_address, &f)) < 0 ||
	    (r = rtnl_list(rtnl, RTM_GETROUTE, AF_INET, router_on_route, &f)) < 0)
		return err_errno(e, r, "cannot look at the cable to the outside");
	if (f.devices == 1 && ret->own.family && ret->gateway.family)
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, ENETUNREACH,
			  "see the engine's network settings; or use --network proxy",
			  "there is no one way out of IPv4 (devices: %d, address: %s, gateway: %s)",
			  (int)f.devices, ret->own.family ? "yes" : "no",
			  ret->gateway.family ? "yes" : "no");
}

/* ---- the router ---- */

static int inside_index(const struct router_cable *c)
{
	return c->index == INSIDE ? INSIDE + 1 : INSIDE;
}

/* A kernel without IPv6 has nothing to be kept quiet. */
static int quiet(int fd, int index)
{
	int r = rtnl_quiet(fd, index);

	return r == -EAFNOSUPPORT ? 0 : r;
}

static struct rtnl_addr resolver(void)
{
	uint32_t net = htonl(DOOR_ADDRESS);

	return router_one(&net);
}

static int rules(int fd, const struct router_cable *c, const char *out)
{
	const struct rtnl_rule all[] = {
		{ 10, INSIDE_NAME, &c->own, NULL, IPPROTO_TCP, RTNL_ROUTER_TABLE },
		{ 11, INSIDE_NAME, &c->own, NULL, IPPROTO_UDP, RTNL_ROUTER_TABLE },
		{ 12, INSIDE_NAME, NULL, NULL, 0, 0 },
		{ 13, out, NULL, &c->own, 0, RT_TABLE_MAIN },
		{ 14, out, NULL, NULL, 0, 0 },
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(all) && r == 0; i++)
		r = rtnl_rule(fd, &all[i]);
	return r;
}

/* Until the last route is there nothing can leave: the rules come first, the way out at the end.
 * The main table is what the kernel compares sources with. */
static int router_side(int fd, const struct router_cable *c, const char *out)
{
	struct rtnl_addr own = resolver(), all = { .family = AF_INET }, a;
	int in = inside_index(c), r;

	if ((r = quiet(fd, in)) < 0 || (r = quiet(fd, c->index)) < 0 ||
	    (r = rules(fd, c, out)) < 0 || (r = rtnl_forwards(fd, in, true)) < 0 ||
	    (r = rtnl_forwards(fd, c->index, true)) < 0)
		return r;
	for (size_t i = 0; nearby_always(i, &a); i++)
		if ((r = rtnl_route(fd, RTNL_CLOSED, 0, &a, NULL)) < 0)
			return r;
	if ((r = rtnl_up(fd, in)) < 0 || (r = rtnl_up(fd, c->index)) < 0 ||
	    (r = rtnl_address(fd, in, &own, true)) < 0 ||
	    (r = rtnl_route(fd, RTNL_LINK, in, &c->own, NULL)) < 0 ||
	    (r = rtnl_neighbour(fd, in, &c->own, guest_mac)) < 0 ||
	    (r = rtnl_route(fd, RTNL_LINK, c->index, &c->gateway, NULL)) < 0 ||
	    (r = rtnl_route(fd, RTNL_VIA, c->index, &all, &c->gateway)) < 0)
		return r;
	return rtnl_route(fd, RTNL_OUT, c->index, &all, &c->gateway);
}

static int guest_side(int fd, const struct router_cable *c)
{
	struct rtnl_addr router = resolver(), all = { .family = AF_INET };
	int in = inside_index(c), r = quiet(fd, in);

	if (r == 0 && (r = rtnl_up(fd, in)) == 0 &&
	    (r = rtnl_address(fd, in, &c->own, false)) == 0 &&
	    (r = rtnl_route(fd, RTNL_LINK, in, &router, NULL)) == 0 &&
	    (r = rtnl_neighbour(fd, in, &router, router_mac)) == 0)
		r = rtnl_route(fd, RTNL_VIA, in, &all, &router);
	return r;
}

/* Would the kernel pass it on? Asked for the first and the last address of each. */
static int confirm(int fd, const struct router_cable *c, const struct rtnl_addr *a)
{
	uint32_t bits, host = a->prefix ? ~0U >> (a->prefix - 1) >> 1 : ~0U;
	struct rtnl_addr to = *a;

	memcpy(&bits, a->bytes, sizeof(bits));
	for (int last = 0; last < 2; last++) {
		static const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP };
		uint32_t at = last ? bits | htonl(host) : bits;

		memcpy(to.bytes, &at, sizeof(at));
		/* The router itself and the sandbox are neither near nor far, and a broadcast to
		 * everybody is never passed on. */
		if (memcmp(to.bytes, c->own.bytes, 4) == 0 || at == htonl(DOOR_ADDRESS) ||
		    at == INADDR_BROADCAST)
			continue;
		for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
			if (rtnl_asks(fd, inside_index(c), &c->own, &to, protocols[i]) >= 0)
				return -EPERM;
	}
	return 0;
}

static int not_closed(const struct rtnl_addr *a, int r, struct err *e)
{
	char text[INET_ADDRSTRLEN] = "?";

	(void)inet_ntop(AF_INET, a->bytes, text, sizeof(text));
	return err_refuse(e, ERR_UNAVAILABLE, -r, "use --network proxy",
			  "network bridge cannot close %s/%u", text, a->prefix);
}

int router_close(int rtnl, const struct router_cable *c, const struct rtnl_addr *v, size_t n,
		 struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		int r = v[i].family == AF_INET && v[i].prefix && v[i].prefix <= 32
				? rtnl_route(rtnl, RTNL_CLOSED, 0, &v[i], NULL)
				: -EINVAL;

		if (r == 0)
			r = confirm(rtnl, c, &v[i]);
		if (r < 0)
			return not_closed(&v[i], r, e);
	}
	return 0;
}

static int confirm_all(int rtnl, const struct router_cable *c, struct err *e)
{
	struct rtnl_addr a;

	for (size_t i = 0; nearby_always(i, &a); i++)
		if (confirm(rtnl, c, &a) < 0)
			return not_closed(&a, -EPERM, e);
	if (confirm(rtnl, c, &c->gateway) < 0)
		return not_closed(&c->gateway, -EPERM, e);
	return 0;
}

static int inside(const struct door_room *room, const struct router_cable *c, int here)
{
	CLEANUP(fd) int router = ioctl(room->rtnl, SIOCGSKNS);
	int r;

	if (router < 0)
		return -errno;
	if ((c->index && (r = rtnl_move(here, c->index, router)) < 0) ||
	    (r = rtnl_up(here, LOOPBACK)) < 0 ||
	    (r = rtnl_veth(here, "eth0", guest_mac, INSIDE_NAME, router_mac, router,
			   inside_index(c), c->mtu)) < 0)
		return r;
	return guest_side(here, c);
}

int router_inside(const struct door_room *room, const struct router_cable *c, struct err *e)
{
	CLEANUP(fd) int here = rtnl_open();
	int r = here < 0 ? here : inside(room, c, here);

	return r < 0 ? err_errno(e, r, "cannot lay the cable to the router") : 0;
}

int router_outside(int rtnl, const struct router_cable *c, const char *name, struct err *e)
{
	int r = router_side(rtnl, c, name);

	if (r < 0)
		return err_errno(e, r, "cannot set the router up");
	return router_close(rtnl, c, &c->gateway, 1, e) < 0 ? -e->code : confirm_all(rtnl, c, e);
}

int router_lay(const struct door_room *room, const struct router_cable *c, struct err *e)
{
	char name[IFNAMSIZ];

	if (!if_indextoname((unsigned)c->index, name))
		return err_sys(e, "cannot find the cable");
	return router_inside(room, c, e) < 0 ? -e->code : router_outside(room->rtnl, c, name, e);
}

void router_cut(int rtnl, const struct router_cable *c)
{
	(void)rtnl_down(rtnl, inside_index(c));
	(void)rtnl_down(rtnl, c->index);
}
