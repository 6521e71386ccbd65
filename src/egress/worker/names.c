/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/names.c - the door's DNS: an address of ours for every valid name, and no question
 * to anybody.
 *
 * Whether the name may be reached is decided when it is dialled, where a program can be told why
 * not. So a question carries nothing out, and answers leak nothing about what is allowed. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/text/cleanup.h"
#include "egress/rules/labels.h"
#include "egress/worker/worker.h"
#include "wire/dns.h"

#define TTL 30
#define PACKETS_AT_ONCE 64
#define STREAM_US ((uint64_t)30 * 1000 * 1000) /* between two questions over TCP */

static bool names_labels_may(struct worker *k, struct egress_verdict *v)
{
	size_t n = labels_below(v->rule, &v->host);
	const char *what = n && k->plan->leaks.labels != UNREADABLE_ALLOW
				   ? labels_packed(v->host.name, n)
				   : NULL;
	char rule[sizeof("*.") + HOST_NAME_MAX_LEN];

	if (!what)
		return true;
	if (k->plan->leaks.labels == UNREADABLE_WARN) {
		report_leak(k, "packed labels", false);
		return true;
	}
	(void)snprintf(rule, sizeof(rule), "*%s", v->host.name + n);
	v->host = (struct host){ 0 }; /* the record is no place for it */
	return verdict_deny(v, EGRESS_LEAK,
			    "name the host in egress.allow, or --set egress.labels=warn",
			    "a name below %s is shaped like packed data: it has %s", rule, what);
}

bool name_may_leave(struct worker *k, struct egress_verdict *v)
{
	return (!k->scanner || scan_host(k->scanner, &v->host, v)) && names_labels_may(k, v);
}

/* Of names below an allowed wildcard: one that is shaped like data has no address either. */
static bool names_asks_plainly(struct worker *k, const struct host *h)
{
	const struct egress_request q = { .via = EGRESS_VIA_TUNNEL,
					  .host = egress_text(h->name, h->len),
					  .port = 443 };
	struct egress_verdict v = { 0 };

	if (!egress_decide(k->rules, &q, &v) || name_may_leave(k, &v))
		return true;
	report_deny(k, &v, (struct http1_text){ "DNS", 3 });
	return false;
}

/* The length of the answer, or -1 when there is none to give. */
static ssize_t names_answer(struct worker *k, const unsigned char *p, size_t n, unsigned char *out,
			    size_t room)
{
	struct dns_question q;
	struct egress_verdict v = { 0 };
	struct dns_address da = { 0 };
	struct host h;
	struct addr a;
	ssize_t r = dns_take_question(p, n, &q, out, room);

	if (!r)
		r = member_names_own(&k->members, p, &q, out, room);
	if (r)
		return r;
	if (host_parse(egress_text(q.name, q.name_len), &h) != HOST_OK || host_is_local(&h))
		return dns_write_answer(p, &q, DNS_NXDOMAIN, NULL, 0, out, room);
	/* Also for HTTPS, TXT and the rest: the name exists and has none of it. */
	if (q.type != DNS_A && (q.type != DNS_AAAA || !k->six))
		return dns_write_answer(p, &q, DNS_NOERROR, NULL, 0, out, room);
	if (!rate_name(k->rate, &h, &v)) {
		v.host = h;
		report_deny(k, &v, (struct http1_text){ "DNS", 3 });
		return dns_write_answer(p, &q, DNS_REFUSED, NULL, 0, out, room);
	}
	if (!names_asks_plainly(k, &h))
		return dns_write_answer(p, &q, DNS_REFUSED, NULL, 0, out, room);
	if (!synth_address(k->synth, &h, q.type == DNS_AAAA, &a))
		return dns_write_answer(p, &q, DNS_SERVFAIL, NULL, 0, out, room);
	da.six = a.family == 6;
	memcpy(da.bytes, a.b, sizeof(da.bytes));
	return dns_write_answer(p, &q, DNS_NOERROR, &da, TTL, out, room);
}

/* Answers from the very address that was asked, which comes with the packet. */
static void reply(int fd, struct msghdr *m, unsigned char *out, size_t n)
{
	struct iovec io = { .iov_base = out, .iov_len = n };

	m->msg_iov = &io;
	m->msg_iovlen = 1;
	m->msg_flags = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO)
			((struct in6_pktinfo *)CMSG_DATA(c))->ipi6_ifindex = 0;
		else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo *i = (struct in_pktinfo *)CMSG_DATA(c);

			i->ipi_spec_dst = i->ipi_addr;
			i->ipi_ifindex = 0;
		}
	(void)sendmsg(fd, m, MSG_DONTWAIT | MSG_NOSIGNAL);
	m->msg_iov = NULL;
}

void names_packet(struct listener *l)
{
	for (int i = 0; i < PACKETS_AT_ONCE; i++) {
		_Alignas(struct cmsghdr) char control[256];
		unsigned char in[DNS_UDP_MAX], out[DNS_UDP_MAX];
		struct sockaddr_storage from;
		struct iovec io = { .iov_base = in, .iov_len = sizeof(in) };
		struct msghdr m = { .msg_name = &from,
				    .msg_namelen = sizeof(from),
				    .msg_iov = &io,
				    .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(l->w.fd, &m, MSG_DONTWAIT);

		if (n < 0)
			return;
		if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
			continue;
		n = names_answer(l->k, in, (size_t)n, out, sizeof(out));
		if (n > 0)
			reply(l->w.fd, &m, out, (size_t)n);
	}
}

/* ---- over TCP: the same, with a length in front ---- */

struct dns_stream {
	struct link link; /* first */
	struct worker *k;
	struct dns_stream *next, **at;
	uint64_t deadline;
};

static void stream_end(struct dns_stream *t)
{
	*t->at = t->next;
	if (t->next)
		t->next->at = t->at;
	link_done(t->k->loop, &t->link);
	rate_disconnect(t->k->rate);
	free(t);
}

static bool stream_one(struct dns_stream *t)
{
	const unsigned char *p = (const unsigned char *)link_data(&t->link);
	unsigned char out[2 + DNS_UDP_MAX];
	size_t n;
	ssize_t m;

	if (t->link.in.len < 2)
		return false;
	n = (size_t)p[0] << 8 | p[1];
	if (n > DNS_UDP_MAX) { /* no question is that long, and the rest would never fit */
		t->link.broken = true;
		return false;
	}
	if (t->link.in.len < 2 + n)
		return false;
	m = names_answer(t->k, p + 2, n, out + 2, sizeof(out) - 2);
	link_take(&t->link, 2 + n);
	if (m < 0) {
		t->link.broken = true;
		return false;
	}
	out[0] = (unsigned char)(m >> 8);
	out[1] = (unsigned char)m;
	return link_add(&t->link, out, 2 + (size_t)m);
}

static void on_stream(struct loop_watch *w, uint32_t events UNUSED)
{
	struct dns_stream *t = (struct dns_stream *)w;

	if (link_fill(&t->link))
		t->deadline = loop_now(t->k->loop) + STREAM_US;
	while (!link_full(&t->link) && stream_one(t))
		;
	(void)link_flush(&t->link);
	if (t->link.broken || (t->link.eof && !t->link.out.len) ||
	    link_wait(t->k->loop, &t->link, true) < 0)
		stream_end(t);
}

void names_stream(struct listener *l, int fd)
{
	struct dns_stream *t = calloc(1, sizeof(*t));
	struct egress_verdict v = { 0 };

	if (!t || !rate_connect(l->k->rate, &v)) {
		free(t);
		(void)close(fd);
		return;
	}
	t->k = l->k;
	t->deadline = loop_now(t->k->loop) + STREAM_US;
	t->next = t->k->streams;
	if (t->next)
		t->next->at = &t->next;
	t->at = &t->k->streams;
	t->k->streams = t;
	link_init(&t->link, fd, on_stream);
	on_stream(&t->link.w, 0);
}

void names_tick(struct worker *k, uint64_t now)
{
	for (struct dns_stream *t = k->streams, *next; t; t = next) {
		next = t->next;
		if (now >= t->deadline)
			stream_end(t);
	}
}
