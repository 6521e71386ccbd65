/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod/pod_net.c - the pod's network: taken away by an init container, tried from
 * inside before a command runs. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "backend/kit/net/rtnl.h"
#include "backend/kubernetes/pod/pod_talk.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"

#define LINKS_MAX 64
#define TRY_MS 700 /* for all targets together: what is closed by a policy says nothing at all */
#define POLICY_MS 10000 /* for a cluster to begin with a policy */
#define QUIET_MS 3000   /* without an answer: a network that is late is not a closed one */
#define PORT_OF_NAMES 53

struct link_list {
	int index[LINKS_MAX];
	size_t n;
	int up; /* one that is */
	size_t n_up;
};

static int pod_net_on_link(void *arg, const struct nlmsghdr *m)
{
	const struct ifinfomsg *l = NLMSG_DATA(m);
	struct link_list *all = arg;

	if (m->nlmsg_type != RTM_NEWLINK || l->ifi_flags & IFF_LOOPBACK)
		return 0;
	if (all->n == LINKS_MAX)
		return -E2BIG;
	all->index[all->n++] = l->ifi_index;
	if (l->ifi_flags & IFF_UP) {
		all->up = l->ifi_index;
		all->n_up++;
	}
	return 0;
}

static int list_links(int fd, struct link_list *all, struct err *e)
{
	int r = rtnl_list(fd, RTM_GETLINK, AF_UNSPEC, pod_net_on_link, all);

	return r < 0 ? err_errno(e, r, "cannot list the pod's network devices") : 0;
}

/* The kernel's own answers about loopback are in the list, too: of those the device is 1. */
static int pod_net_on_route(void *arg, const struct nlmsghdr *m)
{
	const struct rtmsg *t = NLMSG_DATA(m);
	const int *out = rtnl_find(m, sizeof(*t), RTA_OIF, sizeof(*out));
	int *left = arg;

	if (m->nlmsg_type == RTM_NEWROUTE && t->rtm_type == RTN_UNICAST &&
	    !(out && *out == (int)if_nametoindex("lo")))
		(*left)++;
	return 0;
}

static int no_routes(int fd, struct err *e)
{
	static const int families[] = { AF_INET, AF_INET6 };
	int left = 0;

	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		int r = rtnl_list(fd, RTM_GETROUTE, families[i], pod_net_on_route, &left);

		if (r < 0 && r != -EOPNOTSUPP && r != -EAFNOSUPPORT)
			return err_errno(e, r, "cannot list the pod's routes");
	}
	return left ? err_set(e, ERR_UNAVAILABLE, EBUSY,
			      "%d routes are left once all devices are down", left)
		    : 0;
}

/* Taking a node's own devices down would take the node away from its cluster. */
int pod_network_is_own(struct err *e)
{
	const char *own = getenv(POD_ADDRESS), *node = getenv(POD_ADDRESS_OF_NODE);

	if (!own || !node)
		return err_set(e, ERR_UNAVAILABLE, EINVAL,
			       "whose network this is was not told: nothing is closed");
	return *own && str_eq(own, node)
		       ? err_set(e, ERR_UNAVAILABLE, EPERM,
				 "this is the node's network: it is left as it is")
		       : 0;
}

int pod_close_network(struct err *e)
{
	CLEANUP(fd) int fd = rtnl_open();
	struct link_list all = { .n = 0 };

	if (pod_network_is_own(e) < 0)
		return -e->code;
	if (fd < 0)
		return err_errno(e, fd, "cannot reach the kernel's routing socket");
	if (list_links(fd, &all, e) < 0)
		return -e->code;
	for (size_t i = 0; i < all.n; i++) {
		int r = rtnl_down(fd, all.index[i]);

		if (r < 0)
			return err_errno(e, r, "cannot take network device %d down", all.index[i]);
	}
	all = (struct link_list){ .n = 0 };
	if (list_links(fd, &all, e) < 0)
		return -e->code;
	if (all.up)
		return err_set(e, ERR_UNAVAILABLE, EBUSY, "network device %d came up again",
			       all.up);
	return no_routes(fd, e);
}

/* ---- from inside ---- */

static int begin_try(const struct pod_target *t, int *ret)
{
	CLEANUP(fd)
	int fd = socket(t->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in six4 = { .sin_family = AF_INET, .sin_port = htons(t->port) };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(t->port) };
	int r;

	*ret = -1;
	if (fd < 0)
		return -errno;
	memcpy(&six4.sin_addr, t->address, sizeof(six4.sin_addr));
	memcpy(&six.sin6_addr, t->address, sizeof(six.sin6_addr));
	r = t->family == AF_INET ? connect(fd, (struct sockaddr *)&six4, sizeof(six4))
				 : connect(fd, (struct sockaddr *)&six, sizeof(six));
	if (r < 0 && errno != EINPROGRESS)
		return -errno;
	*ret = TAKE_FD(fd);
	return 0;
}

/* Somebody has answered, be it by a refusal. */
static bool was_reached(int error)
{
	return error == 0 || error == ECONNREFUSED || error == ECONNRESET;
}

static bool hears(int fd)
{
	socklen_t n = sizeof(int);
	int error = EIO;

	(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n);
	return was_reached(error);
}

static int reached(const struct pod_want *w, size_t i, bool *node, struct err *e)
{
	static const char *const names[] = { "something", "its own node" };

	if (w->target[i].node) {
		*node = true;
		return 0;
	}
	return err_refuse(e, ERR_POLICY, EPERM,
			  "the cluster's network does not honour NetworkPolicy: let brig's pods "
			  "have NET_ADMIN, or use another cluster",
			  "the pod's network is not closed: %s answers on port %u",
			  names[w->target[i].node], w->target[i].port);
}

static int try_targets(const struct pod_want *w, bool *node, struct err *e)
{
	struct pollfd p[POD_TARGETS_MAX];
	uint64_t until = clock_us() + (uint64_t)TRY_MS * 1000;
	size_t open = 0; /* those that nobody has an answer for yet */
	int r = 0;

	for (size_t i = 0; i < w->targets; i++) {
		int error = begin_try(&w->target[i], &p[i].fd);

		p[i].events = POLLOUT;
		open += p[i].fd >= 0;
		if (r == 0 && error < 0 && was_reached(-error))
			r = reached(w, i, node, e);
	}
	while (r == 0 && open && clock_us() < until) {
		open = 0;
		(void)wait_any(p, w->targets, until);
		for (size_t i = 0; i < w->targets && r == 0; i++) {
			if (p[i].fd >= 0 && p[i].revents && hears(p[i].fd))
				r = reached(w, i, node, e);
			if (p[i].fd >= 0 && p[i].revents)
				p[i].fd = fd_close(p[i].fd);
			open += p[i].fd >= 0;
		}
	}
	for (size_t i = 0; i < w->targets; i++)
		(void)fd_close(p[i].fd);
	return r;
}

void pod_add_services(const char *host, const char *port, struct pod_want *w)
{
	struct pod_target t = { .port = (uint16_t)(port ? strtoul(port, NULL, 10) : 0) };

	if (!host || w->targets + 2 > POD_TARGETS_MAX)
		return;
	t.family = strchr(host, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(t.family, host, t.address) != 1)
		return;
	w->target[w->targets++] = t;
	/* The tenth of the same range is where installers put it. */
	t.address[t.family == AF_INET ? 3 : 15] = 10;
	t.port = PORT_OF_NAMES;
	w->target[w->targets++] = t;
}

/* A policy is obeyed some time after it was made. */
static int wait_for_policy(const struct pod_want *w, bool *node, struct err *e)
{
	uint64_t until = clock_us() + (uint64_t)POLICY_MS * 1000, since = clock_us();
	const struct timespec pause = { .tv_nsec = 250000000 };

	while (clock_us() < since + (uint64_t)QUIET_MS * 1000) {
		if (try_targets(w, node, e) < 0) {
			if (clock_us() > until)
				return -e->code;
			*e = (struct err){ 0 };
			*node = false;
			since = clock_us();
		}
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

int pod_try_network(const struct pod_want *w, bool *node, struct err *e)
{
	CLEANUP(fd) int fd = rtnl_open();
	struct link_list all = { .n = 0 };

	*node = false;
	if (fd < 0)
		return err_errno(e, fd, "cannot reach the kernel's routing socket");
	if (list_links(fd, &all, e) < 0)
		return -e->code;
	if (w->no_links && all.up)
		return err_set(e, ERR_POLICY, EPERM,
			       "the pod's network is not closed: device %d is up", all.up);
	if (all.n_up > 1)
		return err_refuse(e, ERR_POLICY, EPERM,
				  "a NetworkPolicy is about the first alone: use a namespace "
				  "whose pods have one, or let brig's pods have NET_ADMIN",
				  "the pod's network is not closed: it has %zu network devices",
				  all.n_up);
	return w->no_links ? try_targets(w, node, e) : wait_for_policy(w, node, e);
}
