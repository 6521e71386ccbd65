/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/ports/publish.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/sys/clock.h"
#include "base/sys/loop.h"
#include "sandbox/ports/conduit.h"

#define BACKLOG 64
#define AT_ONCE 16                      /* accepted at a turn */
#define PAUSE_US ((uint64_t)100 * 1000) /* when the machine has no descriptor for one more */
#define TRIES 16                        /* to find a port that is free in both families */
#define LOWEST_ORDINARY 1024

enum { FAMILIES = 2 };

struct publish_listener {
	struct loop_watch w; /* first */
	struct publish *p;
	uint16_t port; /* inside */
};

struct publish {
	struct loop *loop;
	bool door, ended;
	struct publish_listener listeners[PUBLISHED_MAX * FAMILIES];
	size_t n_listeners;
	struct published ports[PUBLISHED_MAX];
	size_t n_ports;
	struct conduit *open[PUBLISH_CONNECTIONS];
	size_t n_open;
	publish_lend_fn *lend;
	void *arg;
	struct publish_timer {
		struct loop_timer t; /* first */
		struct publish *p;
	} pause;
};

/* ---- listening ---- */

static int bind_to(int fd, int family, uint16_t port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
				    .sin6_port = htons(port),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	return family == AF_INET6 ? bind(fd, (struct sockaddr *)&six, sizeof(six))
				  : bind(fd, (struct sockaddr *)&four, sizeof(four));
}

/* A descriptor or -errno. */
static int listener(int family, uint16_t port)
{
	CLEANUP(fd)
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	int on = 1;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    (family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
	    bind_to(fd, family, port) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in a = { 0 };
	socklen_t n = sizeof(a);

	return getsockname(fd, (struct sockaddr *)&a, &n) < 0 ? 0 : ntohs(a.sin_port);
}

/* A host without IPv6 has no ::1 to be reached at. 0 or -errno. */
static int listen_both(uint16_t want, int fds[FAMILIES], uint16_t *port)
{
	fds[0] = listener(AF_INET, want);
	fds[1] = -1;
	if (fds[0] < 0)
		return fds[0];
	*port = port_of(fds[0]);
	fds[1] = listener(AF_INET6, *port);
	if (fds[1] >= 0 || fds[1] == -EAFNOSUPPORT || fds[1] == -EADDRNOTAVAIL)
		return 0;
	fds[0] = fd_close(fds[0]);
	return fds[1];
}

static int publish_refused(const struct port_spec *w, int code, struct err *e)
{
	if (code == -EADDRINUSE && w->host)
		return err_refuse(e, ERR_UNAVAILABLE, EADDRINUSE,
				  "choose another one, or none to get one that is free: "
				  "--publish PORT",
				  "port %u of the host is in use", w->host);
	if (code == -EACCES && w->host && w->host < LOWEST_ORDINARY)
		return err_refuse(e, ERR_UNAVAILABLE, EACCES,
				  "choose one from 1024 up: --publish 8080:80 shows port 80 of the "
				  "sandbox",
				  "port %u of the host is root's to listen on", w->host);
	return err_errno(e, code, "cannot listen on port %u of the host", w->host);
}

static void publish_add(struct publish *p, int fd, uint16_t port)
{
	struct publish_listener *l = &p->listeners[p->n_listeners++];

	*l = (struct publish_listener){ .w = { .fd = fd }, .p = p, .port = port };
}

static int open_port(struct publish *p, const struct port_spec *w, struct err *e)
{
	struct published *ret = &p->ports[p->n_ports];
	/* The server prints its own: that one is the best that nobody has asked for. */
	uint16_t own = w->container < LOWEST_ORDINARY ? 0 : w->container;
	int fds[FAMILIES] = { -1, -1 };
	int r = listen_both(w->host ? w->host : own, fds, &ret->host);

	/* A free one is asked for in one family, and may be taken in the other. */
	for (int i = 0; i < TRIES && r < 0 && !w->host; i++)
		r = listen_both(0, fds, &ret->host);
	if (r < 0)
		return publish_refused(w, r, e);
	ret->port = w->container;
	ret->six = fds[1] >= 0;
	p->n_ports++;
	publish_add(p, fds[0], w->container);
	if (ret->six)
		publish_add(p, fds[1], w->container);
	return 0;
}

/* ---- accepting ---- */

static bool full(const struct publish *p)
{
	return p->n_open == PUBLISH_CONNECTIONS || p->pause.t.at;
}

/* What is not accepted waits in the kernel, which has a bound for it. */
static void arrange(struct publish *p)
{
	for (size_t i = 0; i < p->n_listeners; i++)
		(void)loop_want(p->loop, &p->listeners[i].w, full(p) || p->ended ? 0 : EPOLLIN);
}

static void on_over(void *arg, struct conduit *c)
{
	struct publish *p = arg;

	for (size_t i = 0; i < p->n_open; i++)
		if (p->open[i] == c) {
			p->open[i] = p->open[--p->n_open];
			break;
		}
	(void)conduit_free(c);
	arrange(p);
}

/* One that waits longest is dialled first; any of them may be over at once. */
void publish_lent(struct publish *p)
{
	for (size_t i = 0; i < p->n_open;) {
		struct conduit *c = p->open[i];
		struct lent sockets = { -1, -1 };
		int r;

		if (!conduit_waits(c)) {
			i++;
			continue;
		}
		r = p->lend(p->arg, &sockets);
		if (r == -EAGAIN)
			return;
		conduit_dial(c, &sockets); /* with none of them: it is over */
		i += i < p->n_open && p->open[i] == c;
	}
}

/* 1: another may be there. */
static int accept_one(struct publish_listener *l)
{
	struct publish *p = l->p;
	int fd = accept4(l->w.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct conduit *c;

	if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
		return 1;
	if (fd < 0 && errno == EAGAIN)
		return 0;
	c = fd < 0 ? NULL
		   : conduit_new(p->loop, fd,
				 (struct conduit_port){ .port = l->port, .door = p->door }, on_over,
				 p);
	if (c) {
		p->open[p->n_open++] = c;
		return 1;
	}
	loop_at(p->loop, &p->pause.t, clock_us() + PAUSE_US);
	return 0;
}

static void on_connection(struct loop_watch *w, uint32_t events UNUSED)
{
	struct publish_listener *l = (struct publish_listener *)w;
	struct publish *p = l->p;

	for (int i = 0; i < AT_ONCE && !full(p) && accept_one(l); i++)
		;
	publish_lent(p);
	arrange(p);
}

static void on_pause(struct loop_timer *t, uint64_t now UNUSED)
{
	arrange(((struct publish_timer *)t)->p);
}

/* ---- from outside ---- */

int publish_open(const struct spec *s, struct publish **ret, struct err *e)
{
	CLEANUP(publish) struct publish *p = calloc(1, sizeof(*p));

	if (!p)
		return err_nomem(e);
	p->door = s->network == NETWORK_PROXY;
	p->pause = (struct publish_timer){ .t.due = on_pause, .p = p };
	if (loop_new(&p->loop, e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->ports.n; i++)
		if (open_port(p, &s->ports.v[i], e) < 0)
			return -e->code;
	*ret = TAKE_PTR(p);
	return 0;
}

static void close_listeners(struct publish *p)
{
	p->ended = true;
	while (p->n_listeners) {
		struct publish_listener *l = &p->listeners[--p->n_listeners];

		(void)loop_want(p->loop, &l->w, 0);
		l->w.fd = fd_close(l->w.fd);
	}
	loop_at(p->loop, &p->pause.t, 0);
}

struct publish *publish_free(struct publish *p)
{
	if (!p)
		return NULL;
	if (p->loop)
		close_listeners(p);
	while (p->n_open)
		(void)conduit_free(p->open[--p->n_open]);
	(void)loop_free(p->loop);
	free(p);
	return NULL;
}

bool publish_nth(const struct publish *p, size_t n, struct published *ret)
{
	if (n >= p->n_ports)
		return false;
	*ret = p->ports[n];
	return true;
}

void publish_start(struct publish *p, publish_lend_fn *lend, void *arg)
{
	p->lend = lend;
	p->arg = arg;
	for (size_t i = 0; i < p->n_listeners; i++)
		p->listeners[i].w.ready = on_connection;
	arrange(p);
}

int publish_fd(struct publish *p)
{
	int fd = p ? loop_fd(p->loop) : -1;

	return fd < 0 ? -1 : fd;
}

void publish_turn(struct publish *p)
{
	loop_turn(p->loop, 0);
}

void publish_end(struct publish *p)
{
	close_listeners(p);
	for (size_t i = p->n_open; i-- > 0;)
		if (i < p->n_open)
			conduit_end(p->open[i]);
}

bool publish_done(const struct publish *p)
{
	return !p || (p->ended && !p->n_open);
}
