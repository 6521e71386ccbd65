/* SPDX-License-Identifier: Apache-2.0 */
/* egress/names/members_serve.c - brig-egress as the resolver of a sandbox's own network.
 *
 *     packet: read, answered             stream: accepted -> a question, its answer... -> ended
 *
 * Locked down as a signer is: it makes no socket, opens nothing and asks nobody. Whoever asks is
 * hostile: messages and streams are bounded, and a packet counts only if it came by the cable of
 * the member whose address it bears: answers go to whoever has asked. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/loop.h"
#include "egress/members_named.h"
#include "egress/names/member_names.h"
#include "model/settings/door_spec.h"
#include "proc/confine.h"

#define PACKETS 3
#define STREAMS 4
#define NAMES 5
#define AT_ONCE 64
#define STREAMS_MAX 64
#define STREAM_US ((uint64_t)10 * 1000 * 1000) /* between two questions */
#define TICK_US ((uint64_t)1000 * 1000)

struct asker {
	struct loop_watch w; /* first; fd -1: a free place */
	struct members_server *s;
	uint64_t until;
	size_t n; /* bytes of `in` */
	unsigned char in[2 + DNS_UDP_MAX];
};

struct members_server {
	struct loop_watch packets, streams;
	struct loop_timer tick;
	struct loop *loop;
	struct member_names names;
	struct asker askers[STREAMS_MAX];
};

/* ---- packets ---- */

/* The nth member is at the end of the nth cable. */
static bool members_serve_is_own(struct msghdr *m, const struct sockaddr_in *from)
{
	const uint32_t address = ntohl(from->sin_addr.s_addr);

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			const struct in_pktinfo *i = (const struct in_pktinfo *)CMSG_DATA(c);

			return address ==
			       MEMBERS_FIRST + (uint32_t)(i->ipi_ifindex - MEMBERS_CABLE);
		}
	return false;
}

static void on_packet(struct loop_watch *w, uint32_t events UNUSED)
{
	struct members_server *s = CONTAINER_OF(w, struct members_server, packets);

	for (int i = 0; i < AT_ONCE; i++) {
		_Alignas(struct cmsghdr) char control[64];
		unsigned char in[DNS_UDP_MAX], out[DNS_UDP_MAX];
		struct sockaddr_in from = { 0 };
		struct iovec io = { .iov_base = in, .iov_len = sizeof(in) };
		struct msghdr m = { .msg_name = &from,
				    .msg_namelen = sizeof(from),
				    .msg_iov = &io,
				    .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(PACKETS, &m, MSG_DONTWAIT);

		if (n < 0)
			return;
		if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !members_serve_is_own(&m, &from))
			continue;
		n = member_names_answer(&s->names, in, (size_t)n, out, sizeof(out));
		if (n > 0)
			(void)sendto(PACKETS, out, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL,
				     (const struct sockaddr *)&from, sizeof(from));
	}
}

/* ---- streams: the same, with a length in front ---- */

static void asker_end(struct asker *a)
{
	(void)loop_want(a->s->loop, &a->w, 0);
	a->w.fd = fd_close(a->w.fd);
}

/* false: it is over, for what cannot be answered and for who does not take an answer. */
static bool answer_one(struct asker *a, size_t n)
{
	unsigned char out[2 + DNS_UDP_MAX];
	ssize_t m = member_names_answer(&a->s->names, a->in + 2, n, out + 2, sizeof(out) - 2);

	if (m <= 0)
		return false;
	out[0] = (unsigned char)(m >> 8);
	out[1] = (unsigned char)m;
	a->n -= 2 + n;
	memmove(a->in, a->in + 2 + n, a->n);
	a->until = clock_us() + STREAM_US;
	return send(a->w.fd, out, 2 + (size_t)m, MSG_DONTWAIT | MSG_NOSIGNAL) == 2 + m;
}

static void on_stream(struct loop_watch *w, uint32_t events UNUSED)
{
	struct asker *a = (struct asker *)w;
	ssize_t got = recv(a->w.fd, a->in + a->n, sizeof(a->in) - a->n, MSG_DONTWAIT);

	if (got < 0 && errno == EAGAIN)
		return;
	if (got <= 0) {
		asker_end(a);
		return;
	}
	a->n += (size_t)got;
	while (a->n >= 2) {
		size_t n = (size_t)a->in[0] << 8 | a->in[1];

		if (n <= DNS_UDP_MAX && a->n < 2 + n)
			return;
		if (n > DNS_UDP_MAX || !answer_one(a, n)) {
			asker_end(a);
			return;
		}
	}
}

/* Where all places are taken the oldest makes room: who asks nothing keeps nobody out. */
static struct asker *members_serve_place(struct members_server *s)
{
	struct asker *oldest = &s->askers[0];

	for (size_t i = 0; i < STREAMS_MAX; i++) {
		if (s->askers[i].w.fd < 0)
			return &s->askers[i];
		if (s->askers[i].until < oldest->until)
			oldest = &s->askers[i];
	}
	asker_end(oldest);
	return oldest;
}

static void members_serve_take(struct members_server *s, int fd)
{
	struct asker *a = members_serve_place(s);

	a->w = (struct loop_watch){ .fd = fd, .ready = on_stream };
	a->s = s;
	a->n = 0;
	a->until = clock_us() + STREAM_US;
	if (loop_want(s->loop, &a->w, EPOLLIN) < 0)
		asker_end(a);
	if (!s->tick.at)
		loop_at(s->loop, &s->tick, clock_us() + TICK_US);
}

static void on_caller(struct loop_watch *w, uint32_t events UNUSED)
{
	struct members_server *s = CONTAINER_OF(w, struct members_server, streams);
	int fd = 0;

	for (int i = 0; i < AT_ONCE && fd >= 0; i++) {
		fd = accept4(STREAMS, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			members_serve_take(s, fd);
	}
}

static void on_tick(struct loop_timer *t, uint64_t now)
{
	struct members_server *s = CONTAINER_OF(t, struct members_server, tick);
	size_t open = 0;

	for (size_t i = 0; i < STREAMS_MAX; i++) {
		if (s->askers[i].w.fd >= 0 && now >= s->askers[i].until)
			asker_end(&s->askers[i]);
		open += s->askers[i].w.fd >= 0;
	}
	if (open)
		loop_at(s->loop, t, now + TICK_US);
}

int members_main(void)
{
	static struct members_server s;
	struct err e = { 0 };

	s.packets = (struct loop_watch){ .fd = PACKETS, .ready = on_packet };
	s.streams = (struct loop_watch){ .fd = STREAMS, .ready = on_caller };
	s.tick.due = on_tick;
	for (size_t i = 0; i < STREAMS_MAX; i++)
		s.askers[i].w.fd = -1;
	if (confine_early(&e) < 0 || !member_names_take(&s.names, NAMES) ||
	    loop_new(&s.loop, &e) < 0 || confine(CONFINE_SIGNER, NULL, &e) < 0 ||
	    loop_want(s.loop, &s.packets, EPOLLIN) < 0 ||
	    loop_want(s.loop, &s.streams, EPOLLIN) < 0)
		return 1;
	loop_run(s.loop, NULL, NULL);
	return 0;
}
