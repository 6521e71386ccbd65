/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod/door_move.c - the pod's network device moves away from the command.
 *
 *     the pod's namespace ── a cable ──▶ the room, where every address is local
 *                                        outside: the pod's own device, and the door's worker
 *
 * Read first, moved, and said again where it went: addresses, permanent neighbours, routes. What
 * the command is left with has no device but the cable (kit/net/door_net.h). */
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/kit/net/door_net.h"
#include "backend/kubernetes/pod/pod_talk.h"
#include "base/files/fd.h"

#define KEPT_BYTES 32768
#define LOOPBACK 1
#define OWN_NETWORK "/proc/self/ns/net"
#define NO_SIX "/proc/sys/net/ipv6/conf/default/disable_ipv6"

/* What a device had, as the kernel lists it. */
struct pod_device {
	int index;
	size_t up; /* devices that are */
	char name[IFNAMSIZ];
	struct rtnl_addr address; /* the first of IPv4 */
	_Alignas(struct nlmsghdr) char data[KEPT_BYTES];
	size_t len;
};

/* ---- reading ---- */

static int on_device(void *arg, const struct nlmsghdr *m)
{
	const struct ifinfomsg *l = NLMSG_DATA(m);
	const char *name = rtnl_find(m, sizeof(*l), IFLA_IFNAME, 1);
	struct pod_device *k = arg;

	if (m->nlmsg_type != RTM_NEWLINK || l->ifi_flags & IFF_LOOPBACK || !(l->ifi_flags & IFF_UP))
		return 0;
	k->up++;
	k->index = l->ifi_index;
	(void)snprintf(k->name, sizeof(k->name), "%s", name ? name : "");
	return 0;
}

static int door_move_keep(struct pod_device *k, const struct nlmsghdr *m)
{
	size_t n = NLMSG_ALIGN(m->nlmsg_len);

	if (n > sizeof(k->data) - k->len)
		return -E2BIG;
	memset(k->data + k->len, 0, n);
	memcpy(k->data + k->len, m, m->nlmsg_len);
	k->len += n;
	return 0;
}

static int on_address(void *arg, const struct nlmsghdr *m)
{
	const struct ifaddrmsg *a = NLMSG_DATA(m);
	struct pod_device *k = arg;
	const void *own;

	if (m->nlmsg_type != RTM_NEWADDR || (int)a->ifa_index != k->index ||
	    a->ifa_scope >= RT_SCOPE_LINK) /* the kernel makes these itself */
		return 0;
	own = rtnl_find(m, sizeof(*a), IFA_LOCAL, 4);
	if (a->ifa_family == AF_INET && own && !k->address.family) {
		k->address.family = AF_INET;
		k->address.prefix = 32;
		memcpy(k->address.bytes, own, 4);
	}
	return door_move_keep(k, m);
}

static int on_neighbour(void *arg, const struct nlmsghdr *m)
{
	const struct ndmsg *n = NLMSG_DATA(m);
	struct pod_device *k = arg;

	return m->nlmsg_type == RTM_NEWNEIGH && n->ndm_ifindex == k->index &&
			       n->ndm_state & NUD_PERMANENT && n->ndm_type == RTN_UNICAST
		       ? door_move_keep(k, m)
		       : 0;
}

static bool has_gateway(const struct nlmsghdr *m)
{
	return rtnl_find(m, sizeof(struct rtmsg), RTA_GATEWAY, 4) != NULL;
}

static bool is_of(const struct pod_device *k, const struct nlmsghdr *m)
{
	const struct rtmsg *t = NLMSG_DATA(m);
	const int *out = rtnl_find(m, sizeof(*t), RTA_OIF, sizeof(*out));

	return m->nlmsg_type == RTM_NEWROUTE && t->rtm_type == RTN_UNICAST &&
	       t->rtm_table == RT_TABLE_MAIN && t->rtm_protocol != RTPROT_KERNEL && out &&
	       *out == k->index;
}

static int on_near(void *arg, const struct nlmsghdr *m)
{
	return is_of(arg, m) && !has_gateway(m) ? door_move_keep(arg, m) : 0;
}

static int on_far(void *arg, const struct nlmsghdr *m)
{
	return is_of(arg, m) && has_gateway(m) ? door_move_keep(arg, m) : 0;
}

/* In the order in which the kernel takes them: a gateway must be reached by a route before it. */
static int read_device(int fd, struct pod_device *k, struct err *e)
{
	static const struct {
		uint16_t type;
		rtnl_fn *each;
	} all[] = { { RTM_GETADDR, on_address },
		    { RTM_GETNEIGH, on_neighbour },
		    { RTM_GETROUTE, on_near },
		    { RTM_GETROUTE, on_far } };
	static const int families[] = { AF_INET, AF_INET6 };
	int r = rtnl_list(fd, RTM_GETLINK, AF_UNSPEC, on_device, k);

	if (r < 0)
		return err_errno(e, r, "cannot list the pod's network devices");
	if (k->up != 1)
		return err_set(e, ERR_UNAVAILABLE, ENOTSUP,
			       "the pod has %zu network devices that are up: one is expected",
			       k->up);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		for (size_t f = 0; f < ARRAY_LEN(families); f++) {
			r = rtnl_list(fd, all[i].type, families[f], all[i].each, k);
			if (r < 0 &&
			    !(families[f] == AF_INET6 && (r == -EOPNOTSUPP || r == -EAFNOSUPPORT)))
				return err_errno(e, r, "cannot read the pod's network");
		}
	if (!k->address.family)
		return err_set(e, ERR_UNAVAILABLE, ENOTSUP, "the pod has no address of IPv4");
	return 0;
}

/* ---- saying it again ---- */

static int family_of(const struct nlmsghdr *m)
{
	return *(const unsigned char *)NLMSG_DATA(m); /* the first byte of all three */
}

/* Without IPv6 behind the device the door reaches the rest of the world all the same. */
static int say_again(int fd, const struct pod_device *k, int index, struct err *e)
{
	const char *at = k->data;

	while (at < k->data + k->len) {
		const struct nlmsghdr *m = (const struct nlmsghdr *)at;
		int r = rtnl_again(fd, m, index);

		if (r < 0 && family_of(m) == AF_INET)
			return err_errno(e, r, "cannot set the pod's network device up again");
		at += NLMSG_ALIGN(m->nlmsg_len);
	}
	return 0;
}

static int open_network(void)
{
	return open(OWN_NETWORK, O_RDONLY | O_CLOEXEC);
}

static int leave_for_new(int *ns, struct err *e)
{
	if (unshare(CLONE_NEWNET) < 0)
		return err_refuse(e, ERR_UNAVAILABLE, errno,
				  "the door's container needs SYS_ADMIN: kubectl label namespace "
				  "NAME pod-security.kubernetes.io/enforce=privileged",
				  "the door cannot make a network of its own");
	*ns = open_network();
	return *ns < 0 ? err_sys(e, "cannot open the door's network") : 0;
}

/* From here on the caller is outside. */
static int move_out(int pod, struct pod_device *k, int *outside, struct err *e)
{
	CLEANUP(fd) int there = -1;
	struct pod_device moved = { .up = 0 };
	int r;

	if (leave_for_new(outside, e) < 0)
		return -e->code;
	there = rtnl_open();
	r = there < 0 ? there : rtnl_up(there, LOOPBACK);
	if (r == 0)
		r = rtnl_move(pod, k->index, *outside);
	if (r < 0)
		return err_errno(e, r, "cannot move the pod's network device");
	moved.index = (int)if_nametoindex(k->name);
	r = moved.index ? rtnl_up(there, moved.index) : -ENODEV;
	if (r < 0)
		return err_errno(e, r, "cannot bring the pod's network device up again");
	return say_again(there, k, moved.index, e);
}

/* ---- the room ---- */

static bool has_six(void)
{
	char text[8] = "1";

	return fd_read_file(AT_FDCWD, NO_SIX, text, sizeof(text)) > 0 && text[0] == '0';
}

/* Where brig-pod, on the other side, looks whether it is here that all addresses lead to. */
static int open_proof(bool six, struct pod_doorway *ret, struct err *e)
{
	struct sockaddr_in6 at = { .sin6_family = six ? AF_INET6 : AF_INET };
	socklen_t n = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	int off = 0;

	ret->proof = socket(at.sin6_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (ret->proof < 0 ||
	    (six && setsockopt(ret->proof, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0) ||
	    bind(ret->proof, (struct sockaddr *)&at, n) < 0 || listen(ret->proof, 64) < 0 ||
	    getsockname(ret->proof, (struct sockaddr *)&at, &n) < 0)
		return err_sys(e, "cannot listen in the door's room");
	ret->port = ntohs(at.sin6_port); /* at the same place in both */
	return 0;
}

static int door_move_join(int ns, struct err *e)
{
	return setns(ns, CLONE_NEWNET) < 0 ? err_sys(e, "cannot go back to a network") : 0;
}

static int open_room(const struct door_want *w, int pod, const struct pod_device *k, bool six,
		     struct pod_doorway *ret, struct err *e)
{
	CLEANUP(fd) int own = -1;
	struct door_room room = { .rtnl = -1 };
	int r;

	if (leave_for_new(&own, e) < 0)
		return -e->code;
	r = door_room(w, &room, e);
	room.shown = k->address;
	if (r == 0)
		r = open_proof(room.six, ret, e);
	room.six &= six;
	if (r == 0)
		r = door_move_join(pod, e);
	if (r == 0)
		r = door_cable(&room, e);
	for (size_t i = 0; r == 0 && i < DOOR_SOCKETS_MAX; i++)
		ret->fds[i] = TAKE_FD(room.fds[i]);
	ret->six = room.six;
	door_room_done(&room);
	return r;
}

int pod_open_door(const struct door_want *w, struct pod_doorway *ret, struct err *e)
{
	static struct pod_device k; /* large, and there is one */
	CLEANUP(fd) int here = rtnl_open(), pod = open_network(), outside = -1;
	bool six = has_six();

	ret->proof = -1;
	for (size_t i = 0; i < DOOR_SOCKETS_MAX; i++)
		ret->fds[i] = -1;
	if (pod_network_is_own(e) < 0)
		return -e->code;
	if (here < 0 || pod < 0)
		return err_sys(e, "cannot look at the pod's network");
	if (read_device(here, &k, e) < 0 || move_out(here, &k, &outside, e) < 0 ||
	    open_room(w, pod, &k, six, ret, e) < 0)
		return -e->code;
	return door_move_join(outside, e);
}
