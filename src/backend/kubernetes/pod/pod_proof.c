/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod/pod_proof.c - inside, under network proxy: does everything lead to the
 * door?
 *
 * First what the kernel says: one device, the cable, every route through it, and no rule but its
 * own three. Then by trying: addresses that a cluster, a cloud and the world have are dialled, and
 * each must answer with the number that only the door was told. */
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/kit/net/door_net.h"
#include "backend/kubernetes/pod/pod_talk.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"

#define PROOF_MS 5000
#define LOOPBACK 1

static const unsigned char guest_mac[6] = DOOR_GUEST_MAC;

static int not_closed(struct err *e, const char *what)
{
	return err_refuse(e, ERR_POLICY, EPERM,
			  "the cluster's runtime does not give the pod a network that can be "
			  "changed: use another RuntimeClass, or network none",
			  "not everything leads to the door: %s", what);
}

/* ---- what the kernel says ---- */

struct seen_net {
	size_t up, others; /* devices: the cable; what else is up */
	size_t routes;     /* that do not go through the cable */
	size_t rules;      /* that are not the kernel's */
};

static int pod_proof_on_link(void *arg, const struct nlmsghdr *m)
{
	const struct ifinfomsg *l = NLMSG_DATA(m);
	const void *mac = rtnl_find(m, sizeof(*l), IFLA_ADDRESS, sizeof(guest_mac));
	struct seen_net *s = arg;
	bool cable =
		l->ifi_index == DOOR_CABLE && mac && memcmp(mac, guest_mac, sizeof(guest_mac)) == 0;

	if (m->nlmsg_type != RTM_NEWLINK || l->ifi_flags & IFF_LOOPBACK || !(l->ifi_flags & IFF_UP))
		return 0;
	s->up += cable;
	s->others += !cable;
	return 0;
}

static int pod_proof_on_route(void *arg, const struct nlmsghdr *m)
{
	const struct rtmsg *t = NLMSG_DATA(m);
	const int *out = rtnl_find(m, sizeof(*t), RTA_OIF, sizeof(*out));
	struct seen_net *s = arg;

	if (m->nlmsg_type == RTM_NEWROUTE &&
	    (t->rtm_type == RTN_UNICAST || t->rtm_type == RTN_LOCAL))
		s->routes += !out || (*out != DOOR_CABLE && *out != LOOPBACK);
	return 0;
}

/* 0, 32766 and 32767 look into the tables local, main and default. */
static int on_rule(void *arg, const struct nlmsghdr *m)
{
	const struct fib_rule_hdr *h = NLMSG_DATA(m);
	const uint32_t *order = rtnl_find(m, sizeof(*h), FRA_PRIORITY, sizeof(*order));
	uint32_t at = order ? *order : 0;
	struct seen_net *s = arg;

	if (m->nlmsg_type == RTM_NEWRULE)
		s->rules += !((at == 0 && h->table == RT_TABLE_LOCAL) ||
			      (at == 32766 && h->table == RT_TABLE_MAIN) ||
			      (at == 32767 && h->table == RT_TABLE_DEFAULT));
	return 0;
}

static int pod_proof_look(struct err *e)
{
	static const int families[] = { AF_INET, AF_INET6 };
	CLEANUP(fd) int fd = rtnl_open();
	struct seen_net s = { 0 };
	int r = fd < 0 ? fd : rtnl_list(fd, RTM_GETLINK, AF_UNSPEC, pod_proof_on_link, &s);

	for (size_t i = 0; i < ARRAY_LEN(families) && r == 0; i++) {
		r = rtnl_list(fd, RTM_GETROUTE, families[i], pod_proof_on_route, &s);
		if (r == 0)
			r = rtnl_list(fd, RTM_GETRULE, families[i], on_rule, &s);
		if (families[i] == AF_INET6 && (r == -EOPNOTSUPP || r == -EAFNOSUPPORT))
			r = 0;
	}
	if (r < 0)
		return err_errno(e, r, "cannot look at the pod's network");
	if (s.up != 1 || s.others)
		return not_closed(e, "there is another network device");
	if (s.routes)
		return not_closed(e, "there is another route");
	return s.rules ? not_closed(e, "there are routing rules") : 0;
}

/* ---- trying ---- */

static int pod_proof_dial(const struct pod_target *t, uint16_t port)
{
	CLEANUP(fd) int fd = socket(t->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	const struct timeval most = { .tv_sec = PROOF_MS / 1000 };
	int r;

	if (fd < 0)
		return -errno;
	memcpy(&four.sin_addr, t->address, sizeof(four.sin_addr));
	memcpy(&six.sin6_addr, t->address, sizeof(six.sin6_addr));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)); /* of connect, too */
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	r = t->family == AF_INET ? connect(fd, (struct sockaddr *)&four, sizeof(four))
				 : connect(fd, (struct sockaddr *)&six, sizeof(six));
	return r < 0 ? -errno : TAKE_FD(fd);
}

/* Nothing of that family goes anywhere. */
static bool is_nowhere(int error)
{
	return error == -ENETUNREACH || error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT ||
	       error == -EACCES || error == -EHOSTUNREACH;
}

static int try_one(const struct pod_want *w, const struct pod_target *t, struct err *e)
{
	CLEANUP(fd) int fd = pod_proof_dial(t, w->door_port);
	uint8_t heard[sizeof(w->door_number)];
	size_t n = 0;

	if (fd < 0)
		return t->family == AF_INET6 && is_nowhere(fd)
			       ? 0
			       : not_closed(e, "an address does not answer as the door does");
	while (n < sizeof(heard)) {
		ssize_t got = recv(fd, heard + n, sizeof(heard) - n, 0);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	return n == sizeof(heard) && memcmp(heard, w->door_number, n) == 0
		       ? 0
		       : not_closed(e, "somebody else answers at an address");
}

int pod_try_door(const struct pod_want *w, struct err *e)
{
	if (pod_proof_look(e) < 0)
		return -e->code;
	for (size_t i = 0; i < w->targets; i++)
		if (try_one(w, &w->target[i], e) < 0)
			return -e->code;
	return 0;
}
