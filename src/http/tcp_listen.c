/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tcp_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define BACKLOG 512

struct tcp_address {
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	};
	socklen_t size;
};

/* ADDR:PORT, [ADDR]:PORT or localhost:PORT. */
static int read_address(const char *text, struct tcp_address *a, struct err *e)
{
	const char *colon = strrchr(text, ':');
	uint64_t port = 0;
	char host[64];
	size_t n = colon ? (size_t)(colon - text) : 0;
	bool six = n > 1 && text[0] == '[' && text[n - 1] == ']';

	*a = (struct tcp_address){ .size = 0 };
	if (!colon || num_count(colon + 1, &port) < 0 || port > UINT16_MAX || n >= sizeof(host))
		return err_refuse(e, ERR_USAGE, EINVAL, "such as 127.0.0.1:8700",
				  "'%.100s' is not ADDR:PORT", text);
	(void)snprintf(host, sizeof(host), "%.*s", (int)(six ? n - 2 : n), text + six);
	if (six && inet_pton(AF_INET6, host, &a->six.sin6_addr) == 1) {
		a->six.sin6_family = AF_INET6;
		a->six.sin6_port = htons((uint16_t)port);
		a->size = sizeof(a->six);
	} else if (inet_pton(AF_INET, str_eq(host, "localhost") ? "127.0.0.1" : host,
			     &a->four.sin_addr) == 1) {
		a->four.sin_family = AF_INET;
		a->four.sin_port = htons((uint16_t)port);
		a->size = sizeof(a->four);
	} else {
		return err_refuse(e, ERR_USAGE, EINVAL, "such as 127.0.0.1:8700",
				  "'%.100s' is not ADDR:PORT", text);
	}
	return 0;
}

static bool is_loopback(const struct tcp_address *a)
{
	if (a->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&a->six.sin6_addr);
	return ntohl(a->four.sin_addr.s_addr) >> 24 == 127;
}

static void authority_of(int fd, char out[TCP_AUTHORITY])
{
	struct tcp_address a = { .size = sizeof(a.six) };
	char host[64] = "";

	(void)getsockname(fd, &a.any, &a.size);
	if (a.any.sa_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &a.six.sin6_addr, host, sizeof(host));
		(void)snprintf(out, TCP_AUTHORITY, "[%s]:%u", host, ntohs(a.six.sin6_port));
	} else {
		(void)inet_ntop(AF_INET, &a.four.sin_addr, host, sizeof(host));
		(void)snprintf(out, TCP_AUTHORITY, "%s:%u", host, ntohs(a.four.sin_port));
	}
}

static int open_tcp(const struct tcp_address *a, const char *text, struct err *e)
{
	CLEANUP(fd)
	int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, &a->any, a->size) < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(e, "cannot listen on '%.100s'", text);
	return TAKE_FD(fd);
}

int tcp_listen(const char *text, const char *far, char authority[TCP_AUTHORITY], struct err *e)
{
	struct tcp_address a;
	int fd;

	if (read_address(text, &a, e) < 0)
		return -e->code;
	if (far && !is_loopback(&a))
		return err_refuse(e, ERR_USAGE, EINVAL, far,
				  "'%.100s' is not loopback: tokens would travel in clear", text);
	fd = open_tcp(&a, text, e);
	if (fd >= 0)
		authority_of(fd, authority);
	return fd;
}
