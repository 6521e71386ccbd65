/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/net/members.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "backend/kit/net/rtnl.h"
#include "base/files/fd.h"
#include "model/settings/door_spec.h"
#include "model/settings/spec.h"
#include "proc/spawn.h"

#define FIRST_INDEX MEMBERS_CABLE /* of both ends; a bridge and a door have lower ones */
#define FIRST_RULE 10
#define DEVICE "brig0"
#define GATEWAY MEMBERS_RESOLVER
#define DNS_PORT 53
#define STREAMS_WAITING 128

static const unsigned char router_mac[6] = { 0x02, 'b', 'r', 'i', 'g', 5 };
static const unsigned char member_mac[6] = { 0x02, 'b', 'r', 'i', 'g', 6 };

struct member {
	char name[IFNAMSIZ]; /* of the router's end */
	int index;
	struct rtnl_addr own, gateway, net;
};

static struct rtnl_addr address(const char *text, unsigned prefix)
{
	struct rtnl_addr a = { .family = AF_INET, .prefix = prefix };

	(void)inet_pton(AF_INET, text, a.bytes);
	return a;
}

static struct member members_describe(unsigned n)
{
	struct member m = { .index = FIRST_INDEX + (int)n,
			    .gateway = address(GATEWAY, 32),
			    .net = address(MEMBERS_NET "0", 24) };
	char text[INET_ADDRSTRLEN];

	(void)snprintf(m.name, sizeof(m.name), "m%u", n + 1);
	(void)snprintf(text, sizeof(text), MEMBERS_NET "%u", n + 1);
	m.own = address(text, 32);
	return m;
}

/* A kernel without IPv6 has nothing to be kept quiet. */
static int quiet(int fd, int index)
{
	int r = rtnl_quiet(fd, index);

	return r == -EAFNOSUPPORT ? 0 : r;
}

static int rules(int fd, const struct member *m, unsigned n)
{
	const struct rtnl_rule all[] = {
		{ FIRST_RULE + 2 * n, m->name, &m->own, &m->net, 0, RT_TABLE_MAIN },
		{ FIRST_RULE + 2 * n + 1, m->name, NULL, NULL, 0, 0 },
	};
	int r = rtnl_rule(fd, &all[0]);

	if (r == 0 || r == -EEXIST) /* of one that had this seat before */
		r = rtnl_rule(fd, &all[1]);
	return r == -EEXIST ? 0 : r;
}

/* The rules come first: until the device is up nothing comes by it. */
static int router_side(int fd, const struct member *m, unsigned n)
{
	int r;

	if ((r = quiet(fd, m->index)) < 0 || (r = rules(fd, m, n)) < 0 ||
	    (r = rtnl_forwards(fd, m->index, false)) < 0 || (r = rtnl_up(fd, m->index)) < 0 ||
	    (r = rtnl_address(fd, m->index, &m->gateway, true)) < 0 ||
	    (r = rtnl_route(fd, RTNL_LINK, m->index, &m->own, NULL)) < 0)
		return r;
	return rtnl_neighbour(fd, m->index, &m->own, member_mac);
}

static int member_side(int fd, const struct member *m)
{
	int r;

	if ((r = quiet(fd, m->index)) < 0 || (r = rtnl_up(fd, m->index)) < 0 ||
	    (r = rtnl_address(fd, m->index, &m->own, false)) < 0 ||
	    (r = rtnl_route(fd, RTNL_LINK, m->index, &m->gateway, NULL)) < 0 ||
	    (r = rtnl_neighbour(fd, m->index, &m->gateway, router_mac)) < 0)
		return r;
	return rtnl_route(fd, RTNL_VIA, m->index, &m->net, &m->gateway);
}

/* Would the kernel pass it on? It has nowhere to; this is asked nevertheless. */
static int confirm(int fd, const struct member *m, struct err *e)
{
	static const char *const far[] = { "127.0.0.1",   "10.0.0.1",    "169.254.169.254",
					   "172.17.0.1",  "192.168.1.1", "198.19.255.253",
					   "203.0.113.1", "8.8.8.8" };
	const struct rtnl_addr other = address(MEMBERS_NET "253", 32);

	for (size_t i = 0; i < ARRAY_LEN(far); i++) {
		const struct rtnl_addr to = address(far[i], 32);

		if (rtnl_asks(fd, m->index, &m->own, &to, IPPROTO_TCP) >= 0)
			return err_set(e, ERR_UNAVAILABLE, EPERM,
				       "the companions' network cannot close %s", far[i]);
	}
	if (rtnl_asks(fd, m->index, &other, &m->own, IPPROTO_TCP) >= 0)
		return err_set(e, ERR_UNAVAILABLE, EPERM,
			       "the companions' network takes packets from strange addresses");
	return 0;
}

int members_join(int router, int member, unsigned n, struct err *e)
{
	CLEANUP(fd) int ns = ioctl(router, SIOCGSKNS);
	struct member m = members_describe(n);
	int r;

	if (n >= MEMBERS_MAX || member < 0)
		return err_set(e, ERR_INTERNAL, EINVAL, "no such member of a network");
	if (ns < 0)
		return err_sys(e, "cannot find the companions' router");
	/* Several guards may join at a time, and hear their answers on one socket. The lock is the
	 * namespace's, and goes with the descriptor. */
	if (flock(ns, LOCK_EX) < 0)
		return err_sys(e, "cannot have the companions' router to itself");
	/* The kernel takes its time with the cable of a member that is gone. */
	(void)rtnl_delete(router, m.index);
	if ((r = rtnl_veth(member, DEVICE, member_mac, m.name, router_mac, ns, m.index, 0)) < 0 ||
	    (r = router_side(router, &m, n)) < 0 || (r = member_side(member, &m)) < 0)
		return err_errno(e, r, "cannot lay a cable to the companions' router");
	return confirm(router, &m, e);
}

/* ---- the router ---- */

/* Its address comes with the first cable. */
static int resolver(int type)
{
	CLEANUP(fd) int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(DNS_PORT) };
	const int on = 1;

	(void)inet_pton(AF_INET, MEMBERS_RESOLVER, &at.sin_addr);
	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, STREAMS_WAITING) < 0))
		return -errno;
	return TAKE_FD(fd);
}

static _Noreturn void in_router(int to)
{
	const int fds[MEMBERS_SOCKETS] = { [MEMBERS_ROUTES] = rtnl_open(),
					   [MEMBERS_PACKETS] = resolver(SOCK_DGRAM),
					   [MEMBERS_STREAMS] = resolver(SOCK_STREAM) };
	int said = 0;

	for (size_t i = 0; i < MEMBERS_SOCKETS && said == 0; i++)
		said = fds[i] < 0 ? fds[i] : 0;
	(void)fd_send(to, &said, sizeof(said), fds, said == 0 ? MEMBERS_SOCKETS : 0);
	_exit(0);
}

int members_open(int ret[MEMBERS_SOCKETS], struct err *e)
{
	CLEANUP(fd) int ours = -1, theirs = -1;
	int pair[2], said = -ECHILD, fds[MEMBERS_SOCKETS];
	size_t n = MEMBERS_SOCKETS;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "cannot make a socket pair");
	ours = pair[0];
	theirs = pair[1];
	child = proc_clone(CLONE_NEWUSER | CLONE_NEWNET, -1, NULL);
	if (child == 0)
		in_router(theirs);
	if (child < 0)
		return err_sys(e, "cannot make a namespace for the companions' router");
	(void)fd_close(TAKE_FD(theirs));
	(void)proc_wait(child);
	if (fd_recv(ours, &said, sizeof(said), fds, &n) != (ssize_t)sizeof(said) ||
	    n != MEMBERS_SOCKETS)
		return err_errno(e, said < 0 ? said : -ECHILD,
				 "cannot make the companions' router");
	memcpy(ret, fds, sizeof(fds));
	return 0;
}
