/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/net/door_net.h"

#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "backend/kit/net/rtnl.h"
#include "base/text/cleanup.h"

#define BACKLOG 4096     /* the kernel has its own, smaller bound */
#define LOOPBACK 1       /* index of lo in every namespace */
#define CABLE DOOR_CABLE /* given at birth */

static const unsigned char door_mac[6] = { 0x02, 'b', 'r', 'i', 'g', 1 };
static const unsigned char guest_mac[6] = DOOR_GUEST_MAC;

static struct rtnl_addr v4(uint32_t address, unsigned prefix)
{
	struct rtnl_addr a = { .family = AF_INET, .prefix = prefix };
	uint32_t net = htonl(address);

	memcpy(a.bytes, &net, sizeof(net));
	return a;
}

static struct rtnl_addr v6(uint32_t address, unsigned prefix)
{
	struct rtnl_addr a = { .family = AF_INET6, .prefix = prefix, .bytes = DOOR_PREFIX6 };
	uint32_t net = htonl(address);

	memcpy(a.bytes + DOOR_PREFIX6_LEN, &net, sizeof(net));
	return a;
}

static struct rtnl_addr everything(int family)
{
	return (struct rtnl_addr){ .family = family };
}

/* One wildcard socket for both families, or for IPv4 alone where the kernel has no IPv6. */
static int listener(const struct door_socket *s, bool six)
{
	int type = s->kind == DOOR_DNS_PACKET ? SOCK_DGRAM : SOCK_STREAM, on = 1, off = 0;
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(s->port) };
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(s->port) };
	CLEANUP(fd)
	int fd = socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	if (six && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
		return -errno;
	/* A packet is answered from the address it was sent to, which no device has. */
	if (type == SOCK_DGRAM &&
	    (setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) < 0 ||
	     setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_RECVPKTINFO : IP_PKTINFO,
			&on, sizeof(on)) < 0))
		return -errno;
	if (bind(fd, six ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4,
		 six ? sizeof(a6) : sizeof(a4)) < 0)
		return -errno;
	if (type == SOCK_STREAM && listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static bool has_ipv6(void)
{
	CLEANUP(fd) int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };

	return fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0;
}

static int listeners(const struct door_want *w, bool six, int *fds, struct err *e)
{
	for (size_t i = 0; i < w->n; i++) {
		fds[i] = listener(&w->sockets[i], six);
		if (fds[i] < 0) {
			errno = -fds[i];
			return err_sys(e, "cannot listen on port %u of the door",
				       w->sockets[i].port);
		}
	}
	return 0;
}

/* The door's side: everything is local but the guest, who is at the other end of the cable. */
static int door_side(int fd, bool six)
{
	struct rtnl_addr own = v4(DOOR_ADDRESS, 32), guest = v4(DOOR_GUEST, 32),
			 all = everything(AF_INET);
	int r = six ? rtnl_quiet(fd, CABLE) : 0;

	if (r == 0 && (r = rtnl_up(fd, CABLE)) == 0 &&
	    (r = rtnl_address(fd, CABLE, &own, false)) == 0 &&
	    (r = rtnl_route(fd, RTNL_DIRECT, CABLE, &guest, NULL)) == 0 &&
	    (r = rtnl_neighbour(fd, CABLE, &guest, guest_mac)) == 0)
		r = rtnl_route(fd, RTNL_LOCAL, LOOPBACK, &all, NULL);
	if (r < 0 || !six)
		return r;
	own = v6(DOOR_ADDRESS, 128);
	guest = v6(DOOR_GUEST, 128);
	all = everything(AF_INET6);
	if ((r = rtnl_address(fd, CABLE, &own, false)) == 0 &&
	    (r = rtnl_route(fd, RTNL_DIRECT, CABLE, &guest, NULL)) == 0 &&
	    (r = rtnl_neighbour(fd, CABLE, &guest, guest_mac)) == 0)
		r = rtnl_route(fd, RTNL_LOCAL, LOOPBACK, &all, NULL);
	return r;
}

static int guest_side(int fd, bool six)
{
	struct rtnl_addr own = v4(DOOR_GUEST, 30), door = v4(DOOR_ADDRESS, 32),
			 all = everything(AF_INET);
	int r = six ? rtnl_quiet(fd, CABLE) : 0;

	if (r == 0 && (r = rtnl_up(fd, CABLE)) == 0 &&
	    (r = rtnl_address(fd, CABLE, &own, false)) == 0 &&
	    (r = rtnl_neighbour(fd, CABLE, &door, door_mac)) == 0)
		r = rtnl_route(fd, RTNL_VIA, CABLE, &all, &door);
	if (r < 0 || !six)
		return r;
	own = v6(DOOR_GUEST, 126);
	door = v6(DOOR_ADDRESS, 128);
	all = everything(AF_INET6);
	if ((r = rtnl_address(fd, CABLE, &own, false)) == 0 &&
	    (r = rtnl_neighbour(fd, CABLE, &door, door_mac)) == 0)
		r = rtnl_route(fd, RTNL_VIA, CABLE, &all, &door);
	return r;
}

/* `here` speaks for the door's namespace; the caller is in the guest's. */
static int cable(const struct door_room *room)
{
	int here = room->rtnl;
	bool six = room->six;
	CLEANUP(fd) int door = ioctl(here, SIOCGSKNS), there = -1;
	int r;

	if (door < 0)
		return -errno;
	there = rtnl_open();
	if (there < 0)
		return there;
	if ((r = rtnl_up(there, LOOPBACK)) < 0 ||
	    (r = rtnl_veth(there, "eth0", guest_mac, "door0", door_mac, door, CABLE, 0)) < 0 ||
	    (r = door_side(here, six)) < 0)
		return r;
	if (room->shown.family && (r = rtnl_address(there, CABLE, &room->shown, false)) < 0)
		return r;
	return guest_side(there, six);
}

int door_names(void)
{
	const struct sockaddr_in6 at = { .sin6_family = AF_INET6,
					 .sin6_port = htons(53),
					 .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	CLEANUP(fd) int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 ? TAKE_FD(fd)
										  : -1;
}

int door_room(const struct door_want *w, struct door_room *room, struct err *e)
{
	int r;

	*room = (struct door_room){ .rtnl = rtnl_open(), .six = has_ipv6() };
	for (size_t i = 0; i < DOOR_SOCKETS_MAX; i++)
		room->fds[i] = -1;
	r = room->rtnl < 0 ? room->rtnl : rtnl_up(room->rtnl, LOOPBACK);
	if (r < 0)
		return err_errno(e, r, "cannot set the door up");
	return listeners(w, room->six, room->fds, e);
}

int door_cable(const struct door_room *room, struct err *e)
{
	int r = cable(room);

	return r < 0 ? err_errno(e, r, "cannot lay the cable to the door") : 0;
}

void door_room_done(struct door_room *room)
{
	room->rtnl = fd_close(room->rtnl);
	for (size_t i = 0; i < DOOR_SOCKETS_MAX; i++)
		room->fds[i] = fd_close(room->fds[i]);
}

int door_open(const struct door_want *w, int guest, int fds[DOOR_SOCKETS_MAX], struct err *e)
{
	struct door_room room;
	int r = door_room(w, &room, e);

	if (r == 0 && (guest < 0 ? unshare(CLONE_NEWNET) : setns(guest, CLONE_NEWNET)) < 0)
		r = err_sys(e, "cannot leave the door's namespace");
	if (r == 0)
		r = door_cable(&room, e);
	for (size_t i = 0; i < DOOR_SOCKETS_MAX; i++)
		fds[i] = r == 0 ? TAKE_FD(room.fds[i]) : -1;
	door_room_done(&room);
	return r;
}
