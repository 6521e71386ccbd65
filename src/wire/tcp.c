/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tcp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/cleanup.h"

int tcp_resolve(const char *host, uint16_t port, struct addrinfo **ret, struct err *e)
{
	const struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	char service[8];
	int r;

	(void)snprintf(service, sizeof(service), "%u", port);
	r = getaddrinfo(host, service, &want, ret);
	if (r == 0)
		return 0;
	return err_set(e, ERR_UNAVAILABLE, EHOSTUNREACH, "cannot resolve '%.200s': %s", host,
		       gai_strerror(r));
}

static int connect_one(const struct addrinfo *a, uint64_t deadline)
{
	CLEANUP(fd)
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	int failed = 0, r;

	if (fd < 0)
		return -errno;
	if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
		return TAKE_FD(fd);
	if (errno != EINPROGRESS)
		return -errno;
	r = wait_fd(fd, POLLOUT, deadline);
	if (r < 0)
		return r;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &(socklen_t){ sizeof(failed) }) < 0)
		return -errno;
	return failed ? -failed : TAKE_FD(fd);
}

int tcp_connect(const struct addrinfo *list, uint64_t deadline, struct err *e)
{
	int r = -EADDRNOTAVAIL;

	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		uint64_t now = clock_us();

		if (now >= deadline)
			break;
		r = connect_one(a, a->ai_next ? now + (deadline - now) / 2 : deadline);
		if (r >= 0)
			return r;
	}
	errno = -r;
	return err_sys(e, "cannot connect");
}
