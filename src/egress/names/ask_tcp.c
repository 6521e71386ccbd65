/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/names/ask_tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "egress/names/resolve.h"
#include "wire/link.h"

struct ask_tcp {
	struct link link; /* first */
	struct loop *loop;
	const char *name;
	uint16_t id, type;
	ask_tcp_fn *done;
	void *arg;
};

struct ask_tcp *ask_tcp_free(struct ask_tcp *t)
{
	if (!t)
		return NULL;
	link_done(t->loop, &t->link);
	free(t);
	return NULL;
}

/* Whole, too long, or still on its way: 1, -EBADMSG, 0. */
static int ask_tcp_answer(const struct ask_tcp *t, struct dns_answer *ret)
{
	const unsigned char *p = (const unsigned char *)link_data(&t->link);
	size_t have = t->link.in.len, n = have < 2 ? 0 : (size_t)p[0] << 8 | p[1];

	if (n > FLOW_FULL / 2)
		return -EBADMSG;
	if (have < 2 || have < 2 + n)
		return t->link.eof || t->link.broken ? -EBADMSG : 0;
	if (dns_read_answer(p + 2, n, t->id, t->name, t->type, ret) < 0 ||
	    (ret->code != DNS_NOERROR && ret->code != DNS_NXDOMAIN))
		return -EBADMSG;
	return 1;
}

static void ask_tcp_on_event(struct loop_watch *w, uint32_t events UNUSED)
{
	struct ask_tcp *t = (struct ask_tcp *)w;
	struct dns_answer a;
	int r;

	(void)link_flush(&t->link);
	(void)link_fill(&t->link);
	r = ask_tcp_answer(t, &a);
	if (r == 0 && link_wait(t->loop, &t->link, true) == 0)
		return;
	t->done(t->arg, r == 1 ? &a : NULL);
}

static bool write_question(struct ask_tcp *t)
{
	unsigned char packet[2 + DNS_UDP_MAX];
	ssize_t n;

	if (getrandom(&t->id, sizeof(t->id), 0) != (ssize_t)sizeof(t->id))
		return false;
	n = dns_write_question(t->id, t->name, t->type, packet + 2, sizeof(packet) - 2);
	if (n < 0)
		return false;
	packet[0] = (unsigned char)(n >> 8);
	packet[1] = (unsigned char)n;
	return link_add(&t->link, packet, 2 + (size_t)n);
}

struct ask_tcp *ask_tcp_new(struct loop *loop, const struct addr *server, const char *name,
			    uint16_t type, ask_tcp_fn *done, void *arg)
{
	struct ask_tcp *t = calloc(1, sizeof(*t));
	int fd = t ? resolver_connect(server, SOCK_STREAM) : -ENOMEM;

	if (!t)
		return NULL;
	*t = (struct ask_tcp){ .loop = loop, .name = name, .type = type, .done = done, .arg = arg };
	link_init(&t->link, fd < 0 ? -1 : fd, ask_tcp_on_event);
	if (fd < 0 || !write_question(t) || link_wait(loop, &t->link, true) < 0)
		return ask_tcp_free(t);
	return t;
}
