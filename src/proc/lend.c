/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/lend.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "proc/supervisor.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static int tcp_socket(int family)
{
	return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
}

void lend_sockets(int control)
{
	struct supervisor_msg m = { .said = SUPERVISOR_SOCKETS };
	static const int families[LEND_FDS] = { AF_INET, AF_INET6 };
	int fds[LEND_FDS];
	size_t n = 0;

	for (size_t i = 0; i < LEND_FDS; i++)
		if ((fds[n] = tcp_socket(families[i])) >= 0)
			n++;
	/* Without them the answer is that there are none: somebody waits for it. */
	if (fd_send(control, &m, sizeof(m), fds, n) < 0)
		(void)fd_send(control, &m, sizeof(m), NULL, 0);
	for (size_t i = 0; i < n; i++)
		(void)fd_close(fds[i]);
}

static int lend_option(int fd, int name)
{
	socklen_t n = sizeof(int);
	int value = -1;

	return getsockopt(fd, SOL_SOCKET, name, &value, &n) < 0 ? -1 : value;
}

/* 0: this kernel does not tell. */
static uint64_t network_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t n = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &n) < 0 ? 0 : cookie;
}

static bool of_our_network(int fd)
{
	CLEANUP(fd) int own = tcp_socket(AF_INET);
	uint64_t network = network_of(fd);

	if (own < 0)
		own = tcp_socket(AF_INET6);
	return network && (own < 0 || network_of(own) == network);
}

static bool unconnected(int fd)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);

	return getpeername(fd, (struct sockaddr *)&a, &n) < 0 && errno == ENOTCONN;
}

static int family_of(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (lend_option(fd, SO_TYPE) != SOCK_STREAM ||
	    lend_option(fd, SO_PROTOCOL) != IPPROTO_TCP || lend_option(fd, SO_ACCEPTCONN) != 0 ||
	    !unconnected(fd) || of_our_network(fd) || flags < 0 || !(flags & O_NONBLOCK))
		return -1;
	return lend_option(fd, SO_DOMAIN);
}

struct lent lend_take(const int *fds, size_t n)
{
	struct lent l = { -1, -1 };

	for (size_t i = 0; i < n; i++) {
		int family = family_of(fds[i]);
		int *place = family == AF_INET ? &l.v4 : family == AF_INET6 ? &l.v6 : NULL;

		if (place && *place < 0)
			*place = fds[i];
		else
			(void)fd_close(fds[i]);
	}
	return l;
}

void lend_done(struct lent *l)
{
	l->v4 = fd_close(l->v4);
	l->v6 = fd_close(l->v6);
}

int lend_ask(struct lend_pool *p, int control, struct lent *ret)
{
	const struct supervisor_request r = { .asks = ASK_SOCKETS };
	int got = -EAGAIN;

	if (p->n) {
		*ret = p->have[--p->n];
		got = 0;
	}
	while (p->n + p->asked < LEND_AHEAD) {
		int sent = fd_send(control, &r, sizeof(r), NULL, 0);

		if (sent < 0)
			return got == 0 || p->asked ? got : sent;
		p->asked++;
	}
	return got;
}

void lend_heard(struct lend_pool *p, const struct supervisor_msg *m, const int *fds, size_t n)
{
	struct lent l = lend_take(fds, n);

	if (m->said == SUPERVISOR_SOCKETS && p->asked) {
		p->asked--;
		p->have[p->n++] = l;
		return;
	}
	lend_done(&l);
}

void lend_pool_done(struct lend_pool *p)
{
	while (p->n)
		lend_done(&p->have[--p->n]);
}
