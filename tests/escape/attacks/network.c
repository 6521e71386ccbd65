/* SPDX-License-Identifier: Apache-2.0 */
/* network.c - reaching addresses that the host listens on, and being reached. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include "attack.h"

static socklen_t address(const char *host, const char *port, struct sockaddr_storage *a)
{
	struct sockaddr_in *four = (struct sockaddr_in *)a;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)a;

	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons((uint16_t)atoi(port));
		return sizeof(*six);
	}
	four->sin_family = AF_INET;
	four->sin_port = htons((uint16_t)atoi(port));
	return inet_aton(host, &four->sin_addr) ? sizeof(*four) : 0;
}

/* tcp|udp HOST PORT... */
static void reach(int argc, char **argv)
{
	for (int i = 0; i + 2 < argc; i += 3) {
		int type = strcmp(argv[i], "tcp") == 0 ? SOCK_STREAM : SOCK_DGRAM;
		struct sockaddr_storage a;
		socklen_t n = address(argv[i + 1], argv[i + 2], &a);
		char name[256], byte;
		int s;

		snprintf(name, sizeof(name), "%s:%s:%s", argv[i], argv[i + 1], argv[i + 2]);
		if (!n) {
			no(name, EINVAL);
			continue;
		}
		s = socket(a.ss_family, type | SOCK_NONBLOCK, 0);
		errno = s < 0 || connect(s, (struct sockaddr *)&a, n) < 0 ? errno : 0;
		if (errno == EINPROGRESS) {
			struct pollfd p = { .fd = s, .events = POLLOUT };
			socklen_t size = sizeof(errno);

			errno = ETIMEDOUT;
			if (poll(&p, 1, 4000) == 1)
				getsockopt(s, SOL_SOCKET, SO_ERROR, &errno, &size);
		} else if (!errno && type == SOCK_DGRAM) { /* an answer is the proof */
			struct pollfd p = { .fd = s, .events = POLLIN };

			errno = ETIMEDOUT;
			if (send(s, "PWNED", 5, MSG_NOSIGNAL) == 5 && poll(&p, 1, 1000) == 1 &&
			    recv(s, &byte, 1, 0) >= 0)
				errno = 0;
		}
		if (errno)
			no(name, errno);
		else
			yes(name, "reached");
		close(s);
	}
}

/* Interfaces that are not loopback, routes that lead anywhere, and making either. */
static void surroundings(int argc, char **argv)
{
	struct ifaddrs *all = NULL;
	struct ifreq r = { .ifr_name = "lo" };
	int s = socket(AF_INET, SOCK_DGRAM, 0), nl = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
		struct rtattr info;
		struct rtattr kind;
		char name[8];
	} add = { .h = { .nlmsg_len = sizeof(add),
			 .nlmsg_type = RTM_NEWLINK,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK },
		  .info = { .rta_len = 16, .rta_type = IFLA_LINKINFO },
		  .kind = { .rta_len = 9, .rta_type = IFLA_INFO_KIND },
		  .name = "veth" };
	char line[512];
	FILE *f;

	(void)argc, (void)argv;
	getifaddrs(&all);
	for (struct ifaddrs *i = all; i; i = i->ifa_next)
		if (!(i->ifa_flags & IFF_LOOPBACK))
			yes("interface", "%s", i->ifa_name);
	f = fopen("/proc/net/route", "r");
	for (int n = 0; f && fgets(line, sizeof(line), f); n++)
		if (n)
			yes("route", "%s", strtok(line, "\n"));
	f = fopen("/proc/net/ipv6_route", "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strstr(line, " lo\n"))
			yes("route6", "%s", strtok(line, "\n"));
	f = fopen("/proc/net/if_inet6", "r");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "00000000000000000000000000000001 ", 33) != 0)
			yes("address6", "%s", strtok(line, "\n"));
	no("surroundings", 0);
	r.ifr_flags = 0;
	tried("lo-down", ioctl(s, SIOCSIFFLAGS, &r));
	((struct sockaddr_in *)&r.ifr_addr)->sin_family = AF_INET;
	((struct sockaddr_in *)&r.ifr_addr)->sin_addr.s_addr = htonl(0x0a000001);
	tried("lo-address", ioctl(s, SIOCSIFADDR, &r));
	if (nl >= 0 && send(nl, &add, sizeof(add), 0) > 0) {
		struct {
			struct nlmsghdr h;
			struct nlmsgerr e;
			char rest[512];
		} answer = { 0 };

		recv(nl, &answer, sizeof(answer), 0);
		errno = -answer.e.error;
		tried("new-link", errno ? -1 : 0);
	} else {
		no("new-link", errno);
	}
	tried("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	tried("ping", socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
	tried("packet", socket(AF_PACKET, SOCK_RAW, 0));
	tried("mptcp", socket(AF_INET, SOCK_STREAM, 262));
	tried("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
}

/* Listens on PORT everywhere, tells the host, and says whether anybody came. */
static void listen_on(int argc, char **argv)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6,
				  .sin6_port = htons((uint16_t)atoi(argv[0])) };
	int s = socket(AF_INET6, SOCK_STREAM, 0), off = 0;
	struct pollfd p = { .fd = s, .events = POLLIN };

	setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(s, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s, 8) < 0) {
		cannot("listen", strerrorname_np(errno));
		return;
	}
	if (argc > 1)
		let_host_look(argv[1]);
	if (poll(&p, 1, 100) == 1)
		yes("visited", "yes");
	else
		no("visited", 0);
}

/* multicast: GROUP PORT... , sent on every interface there is */
static void multicast(int argc, char **argv)
{
	for (int i = 0; i + 1 < argc; i += 2) {
		struct sockaddr_storage a;
		socklen_t n = address(argv[i], argv[i + 1], &a);
		int s = socket(a.ss_family, SOCK_DGRAM, 0), on = 1;
		unsigned lo = if_nametoindex("lo");
		struct ip_mreqn m = { .imr_ifindex = (int)lo };

		if (a.ss_family == AF_INET6) {
			setsockopt(s, IPPROTO_IPV6, IPV6_MULTICAST_IF, &lo, sizeof(lo));
			setsockopt(s, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &on, sizeof(on));
			((struct sockaddr_in6 *)&a)->sin6_scope_id = lo;
		} else {
			setsockopt(s, IPPROTO_IP, IP_MULTICAST_IF, &m, sizeof(m));
			setsockopt(s, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof(on));
		}
		printf("= %s %s\n", argv[i],
		       sendto(s, "PWNED", 5, 0, (struct sockaddr *)&a, n) < 0
			       ? strerrorname_np(errno)
			       : "sent");
	}
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "reach", reach },      { "surroundings", surroundings },
		{ "listen", listen_on }, { "multicast", multicast },
		{ NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
