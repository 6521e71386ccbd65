/* SPDX-License-Identifier: Apache-2.0 */
/* egress/names/refuse.c - brig-egress without a door: refuses every question for a name, and keeps
 * the names of hosts for the monitor to tell.
 *
 * It is locked down as the keeper is, so that it can make no socket, and reads one datagram at a
 * time, at most RATE a second. */
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/sys/clock.h"
#include "base/text/cleanup.h"
#include "egress/unresolved.h"
#include "proc/confine.h"
#include "wire/dns.h"

#define SOCKET 3
#define WAKE 4
#define PAGE 5
#define RATE 1000
#define SECOND_US ((uint64_t)1000 * 1000)

/* The lockdown has no sleep; this one wakes nobody and is woken by nobody. */
static void refuse_rest(uint64_t us)
{
	const struct timespec ts = { .tv_sec = (time_t)(us / SECOND_US),
				     .tv_nsec = (long)(us % SECOND_US) * 1000 };
	uint32_t word = 0;

	(void)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0);
}

/* What was asked for each name that is kept, and for all others together, by family. */
struct refused {
	struct unresolved_page *page;
	uint64_t asked[UNRESOLVED_NAMES + 1][2];
};

/* Its place; UNRESOLVED_NAMES for one that is not kept. */
static uint32_t refuse_keep(struct unresolved_page *p, const struct host *h)
{
	uint32_t n = p->names;

	for (uint32_t i = 0; i < n; i++)
		if (host_eq(&p->name[i], h))
			return i;
	if (n == UNRESOLVED_NAMES)
		return n;
	p->name[n] = *h;
	__atomic_store_n(&p->names, n + 1, __ATOMIC_RELEASE);
	if (n == 0)
		(void)!write(WAKE, "!", 1);
	return n;
}

/* Who looks a name up asks for addresses of both families: that is one question. */
static void refuse_note(struct refused *r, const struct dns_question *q)
{
	struct unresolved_page *p = r->page;
	uint64_t *asked, most;
	struct host h;
	uint32_t at;

	if ((q->type != DNS_A && q->type != DNS_AAAA) ||
	    host_parse(egress_text(q->name, q->name_len), &h) != HOST_OK || host_is_local(&h))
		return;
	at = refuse_keep(p, &h);
	asked = r->asked[at];
	most = asked[0] > asked[1] ? asked[0] : asked[1];
	if (++asked[q->type == DNS_AAAA] <= most)
		return;
	if (at < UNRESOLVED_NAMES)
		__atomic_store_n(&p->last[at], p->questions + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&p->questions, p->questions + 1, __ATOMIC_RELEASE);
}

/* The answer's length; -1: none is given. */
static ssize_t refuse_here(struct refused *f, const unsigned char *in, size_t n, unsigned char *out,
			   size_t room)
{
	struct dns_question q;
	ssize_t r = dns_take_question(in, n, &q, out, room);

	if (r)
		return r;
	refuse_note(f, &q);
	return dns_write_answer(in, &q, DNS_REFUSED, NULL, 0, out, room);
}

static void refuse_serve(struct refused *r)
{
	uint64_t began = clock_us(), done = 0;

	for (;;) {
		unsigned char in[DNS_UDP_MAX], out[DNS_UDP_MAX];
		struct sockaddr_storage from;
		socklen_t size = sizeof(from);
		ssize_t n = recvfrom(SOCKET, in, sizeof(in), MSG_TRUNC, (struct sockaddr *)&from,
				     &size);

		if (n < 0 && errno != EINTR)
			return;
		if (n >= 0 && (size_t)n <= sizeof(in))
			n = refuse_here(r, in, (size_t)n, out, sizeof(out));
		if (n > 0 && (size_t)n <= sizeof(out))
			(void)sendto(SOCKET, out, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL,
				     (struct sockaddr *)&from, size);
		if (++done < RATE)
			continue;
		if (clock_us() < began + SECOND_US)
			refuse_rest(began + SECOND_US - clock_us());
		began = clock_us();
		done = 0;
	}
}

int refuse_main(void)
{
	struct unresolved_page *p =
		mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED, PAGE, 0);
	struct refused r = { .page = p };
	struct err e;

	if (p == MAP_FAILED || close(PAGE) < 0 || confine_early(&e) < 0 ||
	    confine(CONFINE_KEEPER, NULL, &e) < 0)
		return 1;
	refuse_serve(&r);
	return 0;
}
