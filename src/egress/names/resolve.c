/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/names/resolve.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "egress/names/ask_tcp.h"
#include "wire/dns.h"

#define SERVERS_MAX 3
#define HOSTS_MAX 1024
#define FILE_MAX 65536
#define TRY_US (2 * 1000 * 1000)
#define TRIES 3
#define DNS_PORT 53

struct known {
	struct host name;
	struct addr addr;
};

struct resolver {
	struct loop *loop;
	struct addr servers[SERVERS_MAX];
	size_t n_servers;
	struct known *known;
	size_t n_known;
	struct lookup *all;
};

enum { ASK_A, ASK_AAAA, ASKS };

struct lookup {
	struct loop_watch w; /* first: found through it */
	struct resolver *r;
	struct lookup *next, **at;
	struct host name;
	lookup_fn *done;
	void *arg;
	struct ask {
		uint16_t id;
		bool answered, cut;
		struct addr found[RESOLVE_MAX];
		size_t n;
		struct ask_tcp *tcp; /* once more, for all of a cut answer */
	} asks[ASKS];
	const struct addr *server; /* that was asked last */
	unsigned tries;
	uint64_t until;
};

static const uint16_t types[ASKS] = { [ASK_A] = DNS_A, [ASK_AAAA] = DNS_AAAA };

/* ---- the two files ---- */

static void add_server(struct resolver *r, const char *text, size_t n)
{
	struct addr a;

	if (r->n_servers < SERVERS_MAX && addr_parse(text, n, &a) == 0)
		r->servers[r->n_servers++] = a;
}

static void add_known(struct resolver *r, const struct addr *a, const char *name, size_t n)
{
	struct known k = { .addr = *a };
	struct known *v;

	if (r->n_known == HOSTS_MAX || host_parse(egress_text(name, n), &k.name) != HOST_OK)
		return;
	v = realloc(r->known, (r->n_known + 1) * sizeof(*v));
	if (!v)
		return;
	r->known = v;
	r->known[r->n_known++] = k;
}

static size_t blanks(const char *p)
{
	return strspn(p, " \t\r");
}

static size_t resolve_word(const char *p)
{
	return strcspn(p, " \t\r\n#;");
}

static void hosts_line(struct resolver *r, const char *p)
{
	size_t n = resolve_word(p);
	struct addr a;

	if (!n || addr_parse(p, n, &a) < 0)
		return;
	for (p += n, p += blanks(p); (n = resolve_word(p)); p += n, p += blanks(p))
		add_known(r, &a, p, n);
}

void resolver_read(struct resolver *r, const char *resolv_conf, const char *hosts)
{
	for (const char *p = resolv_conf; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		p += blanks(p);
		if (strncmp(p, "nameserver", 10) == 0 && blanks(p + 10)) {
			p += 10 + blanks(p + 10);
			add_server(r, p, resolve_word(p));
		}
	}
	for (const char *p = hosts; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		p += blanks(p);
		hosts_line(r, p);
	}
}

int resolver_new(struct loop *loop, struct resolver **ret, struct err *e)
{
	struct resolver *r = calloc(1, sizeof(*r));
	char conf[FILE_MAX] = "", hosts[FILE_MAX] = "";

	if (!r)
		return err_nomem(e);
	r->loop = loop;
	/* A machine without these files resolves nothing; pins still work. */
	if (fd_read_file(AT_FDCWD, "/etc/resolv.conf", conf, sizeof(conf)) < 0)
		conf[0] = '\0';
	if (fd_read_file(AT_FDCWD, "/etc/hosts", hosts, sizeof(hosts)) < 0)
		hosts[0] = '\0';
	resolver_read(r, conf, hosts);
	*ret = r;
	return 0;
}

struct resolver *resolver_free(struct resolver *r)
{
	if (!r)
		return NULL;
	while (r->all)
		(void)lookup_cancel(r->all);
	free(r->known);
	free(r);
	return NULL;
}

/* ---- one name ---- */

struct lookup *lookup_cancel(struct lookup *l)
{
	if (!l)
		return NULL;
	(void)loop_want(l->r->loop, &l->w, 0);
	(void)fd_close(l->w.fd);
	for (int i = 0; i < ASKS; i++)
		(void)ask_tcp_free(l->asks[i].tcp);
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	free(l);
	return NULL;
}

static void resolve_finish(struct lookup *l)
{
	struct addr found[RESOLVE_MAX];
	lookup_fn *done = l->done;
	void *arg = l->arg;
	size_t n = 0;

	for (int i = 0; i < ASKS; i++)
		for (size_t j = 0; j < l->asks[i].n && n < RESOLVE_MAX; j++)
			found[n++] = l->asks[i].found[j];
	(void)lookup_cancel(l);
	done(arg, found, n);
}

int resolver_connect(const struct addr *server, int type)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(DNS_PORT) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(DNS_PORT) };
	bool six = server->family == 6;
	CLEANUP(fd)
	int fd = socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(&a4.sin_addr, server->b, 4);
	memcpy(&a6.sin6_addr, server->b, 16);
	if (fd < 0)
		return -errno;
	if (connect(fd, six ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4,
		    six ? sizeof(a6) : sizeof(a4)) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	return TAKE_FD(fd);
}

static void send_asks(struct lookup *l)
{
	unsigned char packet[DNS_UDP_MAX];

	for (int i = 0; i < ASKS; i++) {
		ssize_t n = dns_write_question(l->asks[i].id, l->name.name, types[i], packet,
					       sizeof(packet));

		if (n > 0 && !l->asks[i].answered)
			(void)send(l->w.fd, packet, (size_t)n, MSG_NOSIGNAL);
	}
}

static bool new_ids(struct lookup *l)
{
	for (int i = 0; i < ASKS; i++)
		if (getrandom(&l->asks[i].id, sizeof(l->asks[i].id), 0) !=
		    (ssize_t)sizeof(l->asks[i].id))
			return false;
	return true;
}

static bool all_answered(const struct lookup *l)
{
	return l->asks[ASK_A].answered && l->asks[ASK_AAAA].answered;
}

/* A new socket for each try: its port is as hard to guess as the ids. Once the answers are there,
 * and only TCP is waited for, there is no further try: what was cut has to do. */
static bool ask_next(struct lookup *l)
{
	struct resolver *r = l->r;

	(void)loop_want(r->loop, &l->w, 0);
	l->w.fd = fd_close(l->w.fd);
	if (!r->n_servers || l->tries == TRIES || all_answered(l) || !new_ids(l))
		return false;
	l->until = clock_us() + TRY_US;
	l->server = &r->servers[l->tries++ % r->n_servers];
	l->w.fd = resolver_connect(l->server, SOCK_DGRAM);
	if (l->w.fd < 0)
		return l->w.fd = -1, true; /* the next server at the next tick */
	send_asks(l);
	return loop_want(r->loop, &l->w, EPOLLIN) == 0;
}

static void resolve_take(struct ask *k, const struct dns_answer *a)
{
	k->answered = true;
	k->cut = a->cut;
	k->n = 0;
	for (size_t i = 0; i < a->n && k->n < RESOLVE_MAX; i++) {
		k->found[k->n].family = a->addrs[i].six ? 6 : 4;
		memcpy(k->found[k->n++].b, a->addrs[i].bytes, 16);
	}
}

static bool waits_for_tcp(const struct lookup *l)
{
	return l->asks[ASK_A].tcp || l->asks[ASK_AAAA].tcp;
}

static void on_whole(struct lookup *l, int which, const struct dns_answer *a)
{
	struct ask *k = &l->asks[which];

	k->tcp = ask_tcp_free(k->tcp);
	if (a)
		resolve_take(k, a);
	if (all_answered(l) && !waits_for_tcp(l))
		resolve_finish(l);
}

static void on_whole_a(void *arg, const struct dns_answer *a)
{
	on_whole(arg, ASK_A, a);
}

static void on_whole_aaaa(void *arg, const struct dns_answer *a)
{
	on_whole(arg, ASK_AAAA, a);
}

/* The same server has the whole of it, over TCP. */
static void ask_whole(struct lookup *l, int which)
{
	struct ask *k = &l->asks[which];

	if (!k->cut || k->tcp)
		return;
	l->until = clock_us() + TRY_US;
	k->tcp = ask_tcp_new(l->r->loop, l->server, l->name.name, types[which],
			     which == ASK_A ? on_whole_a : on_whole_aaaa, l);
}

static void on_packet(struct loop_watch *w, uint32_t events UNUSED)
{
	struct lookup *l = (struct lookup *)w;
	unsigned char packet[DNS_PACKET_MAX];
	ssize_t n = recv(w->fd, packet, sizeof(packet), 0);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		l->until = 0; /* nobody is there: the next server at the next tick */
		(void)loop_want(l->r->loop, w, 0);
		return;
	}
	for (int i = 0; n > 0 && i < ASKS; i++) {
		struct dns_answer a;

		if (!l->asks[i].answered &&
		    dns_read_answer(packet, (size_t)n, l->asks[i].id, l->name.name, types[i], &a) ==
			    0 &&
		    (a.code == DNS_NOERROR || a.code == DNS_NXDOMAIN)) {
			resolve_take(&l->asks[i], &a);
			ask_whole(l, i);
		}
	}
	if (all_answered(l) && !waits_for_tcp(l))
		resolve_finish(l);
}

size_t resolver_known(const struct resolver *r, const struct host *h, struct addr v[RESOLVE_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_known && n < RESOLVE_MAX; i++)
		if (host_eq(&r->known[i].name, h))
			v[n++] = r->known[i].addr;
	return n;
}

struct lookup *resolver_ask(struct resolver *r, const struct host *h, lookup_fn *done, void *arg)
{
	struct lookup *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct lookup){ .w = { .fd = -1, .ready = on_packet },
			      .r = r,
			      .next = r->all,
			      .at = &r->all,
			      .name = *h,
			      .done = done,
			      .arg = arg };
	if (r->all)
		r->all->at = &l->next;
	r->all = l;
	return ask_next(l) ? l : lookup_cancel(l);
}

bool resolver_busy(const struct resolver *r)
{
	return r->all;
}

void resolver_tick(struct resolver *r, uint64_t now_us)
{
	/* Whoever is told may ask or cancel others: begin again each time. */
	for (struct lookup *l = r->all; l;) {
		if (now_us < l->until || ask_next(l)) {
			l = l->next;
			continue;
		}
		resolve_finish(l);
		l = r->all;
	}
}
