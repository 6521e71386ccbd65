/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/ports/conduit.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/sys/clock.h"
#include "base/text/cleanup.h"
#include "model/settings/door_spec.h"

#define ROOM (32 * 1024)
#define KERNEL_ROOM (64 * 1024) /* of each buffer in the kernel, which counts twice as much */
#define ROUNDS 4                /* of reading and writing at a time: others wait, too */
#define DIAL_US ((uint64_t)10 * 1000 * 1000)

/* Where a server may listen, in this order. */
enum dial_target { TARGET_V4, TARGET_V6, TARGET_GUEST, TARGETS };

struct conduit_side {
	struct loop_watch w; /* first */
	struct conduit *c;
	bool ended;   /* there is no more to be read */
	bool shut;    /* nothing is written to it any more */
	bool broken;  /* the kernel told of an error or of its end */
	bool reset;   /* it broke off: so is the other side, once that has what came before */
	size_t at, n; /* what was read from it, and not passed on yet */
	char data[ROOM];
};

struct conduit {
	struct loop *loop;
	struct conduit_port port;
	conduit_fn *over;
	void *arg;
	enum { CONDUIT_WAITS, CONDUIT_DIALS, CONDUIT_OPEN, CONDUIT_OVER } state;
	struct lent lent;
	enum dial_target target;
	bool ending; /* the sandbox has ended */
	struct conduit_timer {
		struct loop_timer t; /* first */
		struct conduit *c;
	} limit;
	struct conduit_side host, guest;
};

bool conduit_waits(const struct conduit *c)
{
	return c->state == CONDUIT_WAITS;
}

static void leave_side(struct conduit_side *s, bool reset)
{
	struct linger at_once = { .l_onoff = 1 };

	if (s->w.fd < 0)
		return;
	(void)loop_want(s->c->loop, &s->w, 0);
	if (reset)
		(void)setsockopt(s->w.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	s->w.fd = fd_close(s->w.fd);
}

static void conduit_let_go(struct conduit *c, bool reset)
{
	leave_side(&c->host, reset);
	leave_side(&c->guest, reset);
	lend_done(&c->lent);
	loop_at(c->loop, &c->limit.t, 0);
}

/* c is gone when this returns. */
static void conduit_is_over(struct conduit *c, bool reset)
{
	c->state = CONDUIT_OVER;
	conduit_let_go(c, reset);
	c->over(c->arg, c);
}

/* ---- bytes ---- */

static bool passing(int error)
{
	return error == EAGAIN || error == EINTR;
}

static void conduit_fill(struct conduit_side *s)
{
	ssize_t n = recv(s->w.fd, s->data, sizeof(s->data), MSG_DONTWAIT);

	if (n > 0) {
		s->at = 0;
		s->n = (size_t)n;
	} else if (n == 0 || !passing(errno)) {
		s->ended = true;
		s->reset = n < 0;
	}
}

/* false: the other side takes no more. */
static bool conduit_pass_on(struct conduit_side *from, struct conduit_side *to)
{
	ssize_t n;

	for (int i = 0; i < ROUNDS; i++) {
		if (!from->n && !from->ended)
			conduit_fill(from);
		if (!from->n)
			break;
		n = send(to->w.fd, from->data + from->at, from->n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return passing(errno);
		from->at += (size_t)n;
		from->n -= (size_t)n;
	}
	if (from->ended && !from->n && !to->shut && !from->reset) {
		(void)shutdown(to->w.fd, SHUT_WR);
		to->shut = true;
	}
	return true;
}

/* An end that nobody waits for is still listened to, so that a reset is heard, and nothing else: an
 * urgent byte would be told of all the time, as would the end of one that has told it already. */
static uint32_t conduit_wanted(const struct conduit_side *s, const struct conduit_side *other)
{
	uint32_t events = (!s->n && !s->ended ? EPOLLIN : 0U) | (other->n ? EPOLLOUT : 0U);

	return events ? events : s->broken || s->shut || s->ended ? 0U : EPOLLERR;
}

/* May free c. */
static void conduit_move(struct conduit *c)
{
	bool taken = conduit_pass_on(&c->host, &c->guest) && conduit_pass_on(&c->guest, &c->host);
	bool passed = !c->host.n && !c->guest.n;

	if (!taken || (c->guest.reset && !c->guest.n) || (c->host.reset && !c->host.n)) {
		conduit_is_over(c, true);
		return;
	}
	if ((passed && c->host.ended && c->guest.ended) ||
	    (c->ending && c->guest.ended && !c->guest.n)) {
		conduit_is_over(c, false);
		return;
	}
	if (loop_want(c->loop, &c->host.w, conduit_wanted(&c->host, &c->guest)) < 0 ||
	    loop_want(c->loop, &c->guest.w, conduit_wanted(&c->guest, &c->host)) < 0)
		conduit_is_over(c, true);
}

/* ---- reaching the server ---- */

static socklen_t address_of(const struct conduit *c, struct sockaddr_storage *ret)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
				    .sin6_port = htons(c->port.port),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(c->port.port) };

	if (c->target == TARGET_V6) {
		memcpy(ret, &six, sizeof(six));
		return sizeof(six);
	}
	four.sin_addr.s_addr = htonl(c->target == TARGET_V4 ? INADDR_LOOPBACK : DOOR_GUEST);
	memcpy(ret, &four, sizeof(four));
	return sizeof(four);
}

static int reach(const struct conduit *c, int fd)
{
	struct sockaddr_storage a;
	socklen_t n = address_of(c, &a);

	return connect(fd, (struct sockaddr *)&a, n) < 0 ? -errno : 0;
}

/* Where nobody listens, a port that the kernel gave out may turn out to be the same one. */
static bool met_itself(int fd)
{
	struct sockaddr_storage here = { 0 }, there = { 0 };
	socklen_t n = sizeof(here), m = sizeof(there);

	return getsockname(fd, (struct sockaddr *)&here, &n) < 0 ||
	       getpeername(fd, (struct sockaddr *)&there, &m) < 0 ||
	       (n == m && memcmp(&here, &there, n) == 0);
}

static void bound(int fd)
{
	int room = KERNEL_ROOM, on = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void open_up(struct conduit *c)
{
	c->state = CONDUIT_OPEN;
	loop_at(c->loop, &c->limit.t, 0);
	lend_done(&c->lent);
	conduit_move(c);
}

static int *socket_for(struct conduit *c)
{
	return c->target == TARGET_V6 ? &c->lent.v6 : &c->lent.v4;
}

/* From c->target on. May free c. */
static void conduit_dial_next(struct conduit *c)
{
	for (; c->target < TARGETS; c->target++) {
		int *fd = socket_for(c), r;

		if (*fd < 0 || (c->target == TARGET_GUEST && !c->port.door))
			continue;
		bound(*fd);
		r = reach(c, *fd);
		if (r < 0 && r != -EINPROGRESS)
			continue;
		c->guest.w.fd = TAKE_FD(*fd);
		if (loop_want(c->loop, &c->guest.w, EPOLLOUT) < 0)
			break;
		return;
	}
	conduit_is_over(c, true);
}

/* The same call again says how it went, and leaves a socket that can be used for another. */
static void dialled(struct conduit *c)
{
	int r = reach(c, c->guest.w.fd);
	bool there = r == 0 || r == -EISCONN;

	if (r == -EALREADY || r == -EINPROGRESS || r == -EINTR)
		return;
	(void)loop_want(c->loop, &c->guest.w, 0);
	if (there && !met_itself(c->guest.w.fd)) {
		open_up(c);
		return;
	}
	if (there) /* one that met itself is of no further use */
		c->guest.w.fd = fd_close(c->guest.w.fd);
	*socket_for(c) = TAKE_FD(c->guest.w.fd);
	c->target++;
	conduit_dial_next(c);
}

void conduit_dial(struct conduit *c, struct lent *sockets)
{
	c->lent = *sockets;
	*sockets = (struct lent){ -1, -1 };
	c->state = CONDUIT_DIALS;
	c->target = TARGET_V4;
	conduit_dial_next(c);
}

/* ---- events ---- */

static void on_side(struct loop_watch *w, uint32_t events)
{
	struct conduit_side *s = (struct conduit_side *)w;

	s->broken |= (events & (EPOLLERR | EPOLLHUP)) != 0;
	if (s->c->state == CONDUIT_DIALS)
		dialled(s->c);
	else
		conduit_move(s->c);
}

static void on_limit(struct loop_timer *t, uint64_t now UNUSED)
{
	conduit_is_over(((struct conduit_timer *)t)->c, true);
}

struct conduit *conduit_new(struct loop *l, int host, struct conduit_port port, conduit_fn *over,
			    void *arg)
{
	struct conduit *c = malloc(sizeof(*c));

	if (!c) {
		(void)fd_close(host);
		return NULL;
	}
	memset(c, 0, offsetof(struct conduit, host));
	memset(&c->host, 0, offsetof(struct conduit_side, data));
	memset(&c->guest, 0, offsetof(struct conduit_side, data));
	c->loop = l;
	c->port = port;
	c->over = over;
	c->arg = arg;
	c->lent = (struct lent){ -1, -1 };
	c->host.w = (struct loop_watch){ .fd = host, .ready = on_side };
	c->guest.w = (struct loop_watch){ .fd = -1, .ready = on_side };
	c->host.c = c->guest.c = c->limit.c = c;
	c->limit.t.due = on_limit;
	bound(host);
	loop_at(l, &c->limit.t, clock_us() + DIAL_US);
	return c;
}

void conduit_end(struct conduit *c)
{
	c->ending = true;
	if (c->state == CONDUIT_OPEN)
		conduit_move(c);
	else
		conduit_is_over(c, true);
}

struct conduit *conduit_free(struct conduit *c)
{
	if (c && c->state != CONDUIT_OVER)
		conduit_let_go(c, true);
	free(c);
	return NULL;
}
