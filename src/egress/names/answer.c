/* SPDX-License-Identifier: Apache-2.0 */
/* egress/names/answer.c - brig-egress as the resolver of network bridge.
 *
 *     question -> read, or refused -> the hosts file, or asked of the host's resolvers -> answered
 *
 * Locked down as the worker is. Questions under way are bounded; one that finds no place, and one
 * that nobody answers, is answered SERVFAIL. */
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/sys/clock.h"
#include "egress/names/member_names.h"
#include "egress/names/resolve.h"
#include "egress/resolving.h"
#include "proc/confine.h"
#include "wire/dns.h"

#define SOCKET 3
#define MEMBERS 4
#define QUESTIONS 256 /* at a time */
#define AT_ONCE 64
#define TICK_US 250000
#define TTL 30

struct open_question {
	struct lookup *lookup; /* NULL: a free place */
	struct sockaddr_storage from;
	socklen_t from_size;
	struct dns_question q;
	unsigned char packet[DNS_UDP_MAX]; /* as far as its question goes */
};

struct answering {
	struct loop_watch w; /* first */
	struct loop *loop;
	struct loop_timer tick;
	struct resolver *resolver;
	struct member_names members;
	struct open_question asked[QUESTIONS];
};

/* IPv4 alone is routed, and only the internet: another address would only be tried in vain. */
static const struct addr *answer_choose(const struct addr *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].family == 4 && addr_class(&v[i]) == ADDR_PUBLIC)
			return &v[i];
	return NULL;
}

static void send_back(const struct open_question *k, const unsigned char *out, ssize_t n)
{
	if (n > 0)
		(void)sendto(SOCKET, out, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL,
			     (const struct sockaddr *)&k->from, k->from_size);
}

static void reply(const struct open_question *k, enum dns_code code, const struct addr *a)
{
	unsigned char out[DNS_UDP_MAX];
	struct dns_address da = { 0 };

	if (a)
		memcpy(da.bytes, a->b, 4);
	send_back(k, out,
		  dns_write_answer(k->packet, &k->q, code, a ? &da : NULL, TTL, out, sizeof(out)));
}

static void on_found(void *arg, const struct addr *v, size_t n)
{
	struct open_question *k = arg;
	const struct addr *a = answer_choose(v, n);

	k->lookup = NULL;
	reply(k, a || n ? DNS_NOERROR : DNS_NXDOMAIN, a);
}

/* What needs no question to anybody. A companion is beside the sandbox: no resolver of the host's
 * hears its name. */
static bool answer_now(struct answering *s, struct open_question *k, size_t size, struct host *h)
{
	unsigned char out[DNS_UDP_MAX];
	struct addr known[RESOLVE_MAX];
	ssize_t said = dns_take_question(k->packet, size, &k->q, out, sizeof(out));
	size_t n;

	if (!said)
		said = member_names_own(&s->members, k->packet, &k->q, out, sizeof(out));
	if (said) {
		send_back(k, out, said);
		return true;
	}
	if (host_parse(egress_text(k->q.name, k->q.name_len), h) != HOST_OK || host_is_local(h)) {
		reply(k, DNS_NXDOMAIN, NULL);
		return true;
	}
	if (k->q.type != DNS_A) { /* the name may exist, and has nothing of that kind */
		reply(k, DNS_NOERROR, NULL);
		return true;
	}
	n = resolver_known(s->resolver, h, known);
	if (n)
		reply(k, DNS_NOERROR, answer_choose(known, n));
	return n > 0;
}

static struct open_question *question_place(struct answering *s)
{
	for (size_t i = 0; i < QUESTIONS; i++)
		if (!s->asked[i].lookup)
			return &s->asked[i];
	return NULL;
}

static void on_question(struct loop_watch *w, uint32_t events UNUSED)
{
	struct answering *s = (struct answering *)w;
	static struct open_question none; /* for those that find no place */

	for (int i = 0; i < AT_ONCE; i++) {
		struct open_question *free_one = question_place(s),
				     *k = free_one ? free_one : &none;
		struct host h;
		ssize_t n;

		k->from_size = sizeof(k->from);
		n = recvfrom(SOCKET, k->packet, sizeof(k->packet), MSG_DONTWAIT | MSG_TRUNC,
			     (struct sockaddr *)&k->from, &k->from_size);
		if (n < 0)
			return;
		if ((size_t)n > sizeof(k->packet))
			continue;
		if (answer_now(s, k, (size_t)n, &h))
			continue;
		k->lookup = free_one ? resolver_ask(s->resolver, &h, on_found, k) : NULL;
		if (!k->lookup)
			reply(k, DNS_SERVFAIL, NULL);
	}
}

static void on_tick(struct loop_timer *t, uint64_t now)
{
	struct answering *s = CONTAINER_OF(t, struct answering, tick);

	resolver_tick(s->resolver, now);
}

static void on_settle(void *arg)
{
	struct answering *s = arg;

	if (!s->tick.at && resolver_busy(s->resolver))
		loop_at(s->loop, &s->tick, loop_now(s->loop) + TICK_US);
}

int answer_main(void)
{
	static struct answering s;
	struct err e = { 0 };

	s.w = (struct loop_watch){ .fd = SOCKET, .ready = on_question };
	s.tick.due = on_tick;
	(void)member_names_take(&s.members, MEMBERS); /* there may be none */
	if (confine_early(&e) < 0 || loop_new(&s.loop, &e) < 0 ||
	    resolver_new(s.loop, &s.resolver, &e) < 0 || confine(CONFINE_WORKER, NULL, &e) < 0 ||
	    loop_want(s.loop, &s.w, EPOLLIN) < 0)
		return 1;
	loop_run(s.loop, on_settle, &s);
	return 0;
}
