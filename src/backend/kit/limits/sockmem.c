/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/limits/sockmem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/cleanup.h"
#include "proc/spawn.h"

#define ANSWER_BYTES 16384
#define ANSWERS 32 /* a step */

static const struct {
	uint8_t family, protocol;
} kinds[] = { { AF_UNIX, 0 },
	      { AF_INET, IPPROTO_TCP },
	      { AF_INET, IPPROTO_UDP },
	      { AF_INET6, IPPROTO_TCP },
	      { AF_INET6, IPPROTO_UDP } };

int sockmem_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);

	return fd < 0 ? -errno : fd;
}

static bool sockmem_begin(int fd, unsigned kind)
{
	struct {
		struct nlmsghdr head;
		union {
			struct unix_diag_req local;
			struct inet_diag_req_v2 inet;
		} want;
	} r = { .head = { .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP } };

	if (kinds[kind].family == AF_UNIX) {
		r.want.local = (struct unix_diag_req){ .sdiag_family = AF_UNIX,
						       .udiag_states = ~0U,
						       .udiag_show = UDIAG_SHOW_MEMINFO };
		r.head.nlmsg_len = NLMSG_LENGTH(sizeof(r.want.local));
	} else {
		r.want.inet =
			(struct inet_diag_req_v2){ .sdiag_family = kinds[kind].family,
						   .sdiag_protocol = kinds[kind].protocol,
						   .idiag_ext = 1U << (INET_DIAG_SKMEMINFO - 1),
						   .idiag_states = ~0U };
		r.head.nlmsg_len = NLMSG_LENGTH(sizeof(r.want.inet));
	}
	return send(fd, &r, r.head.nlmsg_len, 0) == (ssize_t)r.head.nlmsg_len;
}

/* What waits to be sent or to be read. */
static uint64_t of_socket(const struct nlmsghdr *h, unsigned kind)
{
	bool local = kinds[kind].family == AF_UNIX;
	size_t fixed =
		NLMSG_ALIGN(local ? sizeof(struct unix_diag_msg) : sizeof(struct inet_diag_msg));
	const struct rtattr *a = (const void *)((const char *)NLMSG_DATA(h) + fixed);
	int left = (int)h->nlmsg_len - (int)NLMSG_LENGTH(fixed);
	int want = local ? UNIX_DIAG_MEMINFO : INET_DIAG_SKMEMINFO;

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		uint32_t n[SK_MEMINFO_VARS];

		if (a->rta_type != want || RTA_PAYLOAD(a) < sizeof(uint32_t) * SK_MEMINFO_BACKLOG)
			continue;
		memcpy(n, RTA_DATA(a), sizeof(uint32_t) * SK_MEMINFO_BACKLOG);
		return (uint64_t)n[SK_MEMINFO_RMEM_ALLOC] +
		       (n[SK_MEMINFO_WMEM_ALLOC] > n[SK_MEMINFO_WMEM_QUEUED]
				? n[SK_MEMINFO_WMEM_ALLOC]
				: n[SK_MEMINFO_WMEM_QUEUED]);
	}
	return 0;
}

/* One answer; false when there is none now. At the end of a list the next kind is due. */
static bool sockmem_take(struct sockmem *m, int fd)
{
	_Alignas(struct nlmsghdr) char data[ANSWER_BYTES];
	ssize_t n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
	const struct nlmsghdr *h = (const void *)data;

	if (n <= 0)
		return false;
	for (int left = (int)n; NLMSG_OK(h, (unsigned)left); h = NLMSG_NEXT(h, left)) {
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR) {
			m->listing = false;
			m->kind++;
			return true;
		}
		m->sum += of_socket(h, m->kind);
	}
	return true;
}

/* Of the local ones only the sum of all is told. */
static bool sockmem_none(const struct sock_counts *c, unsigned kind)
{
	bool six = kinds[kind].family == AF_INET6;

	return kinds[kind].family != AF_UNIX &&
	       (kinds[kind].protocol == IPPROTO_TCP ? c->tcp : c->udp)[six] == 0;
}

uint64_t sockmem_step(struct sockmem *m, int fd, const struct sock_counts *c)
{
	for (int i = 0; i < ANSWERS && fd >= 0; i++) {
		if (m->kind == ARRAY_LEN(kinds)) {
			m->last = m->sum;
			m->sum = m->kind = 0;
			break;
		}
		if (!m->listing &&
		    (sockmem_none(c, m->kind) || !(m->listing = sockmem_begin(fd, m->kind))))
			m->kind++;
		else if (!sockmem_take(m, fd))
			break;
	}
	return m->sum > m->last ? m->sum : m->last;
}

/* ---- the most ---- */

/* The last number of a file of the kernel's, such as "4096 131072 6291456". */
static bool last_number(const char *path, uint64_t *ret)
{
	char text[128], *at = text, *end;
	ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	bool any = false;

	while (n > 0) {
		uint64_t v = strtoull(at, &end, 10);

		if (end == at)
			break;
		*ret = v;
		any = true;
		at = end;
	}
	return any;
}

/* A program may ask for the first two, and the kernel doubles what it asks for; the others TCP
 * takes by itself, by the values that a new namespace copies. Twice that: what a buffer counts for
 * is looked at before the last message is added. */
static bool of_one(uint64_t *any, uint64_t *tcp)
{
	static const struct {
		const char *path;
		unsigned times;
		bool tcp;
	} files[] = { { "/proc/sys/net/core/rmem_max", 2, false },
		      { "/proc/sys/net/core/wmem_max", 2, false },
		      { "/proc/sys/net/ipv4/tcp_rmem", 1, true },
		      { "/proc/sys/net/ipv4/tcp_wmem", 1, true } };

	*any = *tcp = 0;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		uint64_t n = 0;

		if (!last_number(files[i].path, &n) || n > UINT32_MAX)
			return false;
		*tcp += 2 * n * files[i].times;
		if (!files[i].tcp)
			*any += 2 * n * files[i].times;
	}
	return true;
}

/* The number behind a word that begins a line, such as "TCP: inuse "; UINT64_MAX: there is none. */
static uint64_t count_in(const char *text, const char *word)
{
	const char *at = text;
	uint64_t n;

	while (at && strncmp(at, word, strlen(word)) != 0)
		at = (at = strchr(at, '\n')) ? at + 1 : NULL;
	if (!at)
		return UINT64_MAX;
	n = strtoull(at + strlen(word), NULL, 10);
	return n > UINT32_MAX ? UINT64_MAX : n;
}

struct sock_counts sockmem_counts(int netfd)
{
	char four[1024] = "", six[1024] = "";
	ssize_t r = fd_read_file(netfd, "sockstat", four, sizeof(four));
	/* Without IPv6 in the kernel there is no such file, and no such socket. */
	bool no_six = fd_read_file(netfd, "sockstat6", six, sizeof(six)) == -ENOENT && r > 0;

	return (struct sock_counts){
		.used = count_in(four, "sockets: used "),
		.tcp = { count_in(four, "TCP: inuse "),
			 no_six ? 0 : count_in(six, "TCP6: inuse ") },
		.udp = { count_in(four, "UDP: inuse "),
			 no_six ? 0 : count_in(six, "UDP6: inuse ") },
	};
}

uint64_t sockmem_most(const struct sock_counts *c)
{
	uint64_t any, tcp;

	if (c->used == UINT64_MAX || c->tcp[0] == UINT64_MAX || c->tcp[1] == UINT64_MAX ||
	    !of_one(&any, &tcp))
		return UINT64_MAX;
	return c->used * any + (c->tcp[0] + c->tcp[1]) * tcp;
}
