/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text/cleanup.h"

#define LIST "/proc/net/unix"
#define ANSWER_BYTES 32768
#define MINOR_BITS 20 /* of a device's number within the kernel */
#define LISTS 8       /* of the same sockets, until two agree */

/* States in which others reach a socket, now or once its owner says so. */
#define REACHED (1U << TCP_LISTEN | 1U << TCP_CLOSE)

/* Without a file it is abstract, or has no name. */
static bool read_socket(const struct nlmsghdr *h, char name[], size_t n, struct bound_socket *ret)
{
	size_t fixed = NLMSG_ALIGN(sizeof(struct unix_diag_msg));
	const struct rtattr *a = (const void *)((const char *)NLMSG_DATA(h) + fixed);
	int left = (int)h->nlmsg_len - (int)NLMSG_LENGTH(fixed);
	struct unix_diag_msg m;
	struct unix_diag_vfs file;

	*ret = (struct bound_socket){ .name = name };
	if (left >= 0) {
		memcpy(&m, NLMSG_DATA(h), sizeof(m));
		ret->number = m.udiag_ino;
		ret->connected = m.udiag_state > 31 || !(1U << m.udiag_state & REACHED);
	}
	name[0] = '\0';
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == UNIX_DIAG_NAME && RTA_PAYLOAD(a) < n) {
			memcpy(name, RTA_DATA(a), RTA_PAYLOAD(a));
			name[RTA_PAYLOAD(a)] = '\0';
		} else if (a->rta_type == UNIX_DIAG_VFS && RTA_PAYLOAD(a) >= sizeof(file)) {
			memcpy(&file, RTA_DATA(a), sizeof(file));
			ret->dev = makedev(file.udiag_vfs_dev >> MINOR_BITS,
					   file.udiag_vfs_dev & ((1U << MINOR_BITS) - 1));
			ret->ino = file.udiag_vfs_ino;
			ret->known = true;
		}
	}
	return ret->known;
}

int sockets_answer(const void *data, size_t n, sockets_each *each, void *ctx, bool *end,
		   struct err *e)
{
	const struct nlmsghdr *h = data;
	char name[sizeof(struct sockaddr_un) + 1];

	for (int left = (int)n; NLMSG_OK(h, (unsigned)left); h = NLMSG_NEXT(h, left)) {
		struct bound_socket b;
		int r;

		if (h->nlmsg_type == NLMSG_ERROR)
			return -EOPNOTSUPP;
		*end = h->nlmsg_type == NLMSG_DONE;
		if (*end)
			return 0;
		if (!read_socket(h, name, sizeof(name), &b))
			continue;
		r = each(ctx, &b, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* One list; `each` may be NULL. */
struct socket_list {
	sockets_each *each;
	void *ctx;
	uint64_t sum; /* over those that can be reached */
	size_t parts; /* that the list came in */
};

static int sockets_count(void *ctx, const struct bound_socket *b, struct err *e)
{
	struct socket_list *l = ctx;

	if (!b->connected)
		l->sum += b->number * (uint64_t)0x9e3779b97f4a7c15;
	return l->each ? l->each(l->ctx, b, e) : 0;
}

/* -errno where the kernel has no such list; 1: `each` has ended it, and *e says why. */
static int list_once(int fd, uint32_t states, struct socket_list *l, struct err *e)
{
	const struct {
		struct nlmsghdr head;
		struct unix_diag_req want;
	} ask = { .head = { .nlmsg_len = sizeof(ask),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		  .want = { .sdiag_family = AF_UNIX,
			    .udiag_states = states,
			    .udiag_show = UDIAG_SHOW_VFS | (l->each ? UDIAG_SHOW_NAME : 0) } };
	_Alignas(struct nlmsghdr) char data[ANSWER_BYTES];
	bool end = false;

	if (send(fd, &ask, sizeof(ask), 0) < 0)
		return -errno;
	*e = (struct err){ 0 };
	l->sum = l->parts = 0;
	while (!end) {
		ssize_t n = recv(fd, data, sizeof(data), 0);
		int r;

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		l->parts += n > (ssize_t)NLMSG_SPACE(sizeof(int)); /* the end alone is none */
		r = sockets_answer(data, (size_t)n, sockets_count, l, &end, e);
		if (r < 0)
			return e->code ? 1 : r;
	}
	return 0;
}

/* Between two parts of a list the kernel only remembers how far it was: when a socket ends
 * meanwhile it passes over another. So a list of several parts is made until two agree. */
static int by_diagnosis(sockets_each *each, void *ctx, struct err *e)
{
	CLEANUP(fd)
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	struct socket_list l = { .each = each, .ctx = ctx };
	/* All states: a datagram socket that somebody has connected to counts as connected itself,
	 * and takes datagrams of others all the same. */
	int r = fd < 0 ? -errno : list_once(fd, ~0U, &l, e);

	for (int i = 0; r == 0 && l.parts > 1 && i < LISTS; i++) {
		struct socket_list again = { 0 };

		r = list_once(fd, REACHED, &again, e);
		if (r != 0 || again.sum == l.sum)
			break;
		r = list_once(fd, REACHED, &l, e);
	}
	return r;
}

/* Seven columns, then the name, if there is one; '@' begins one that is no file. */
static int sockets_one_line(const char *line, sockets_each *each, void *ctx, struct err *e)
{
	for (int column = 0; column < 7; column++) {
		while (*line && *line != ' ')
			line++;
		while (*line == ' ')
			line++;
	}
	return *line && *line != '@' ? each(ctx, &(struct bound_socket){ .name = line }, e) : 0;
}

static int by_names(sockets_each *each, void *ctx, struct err *e)
{
	CLEANUP(fd) int fd = open(LIST, O_RDONLY | O_CLOEXEC);
	bool headed = false; /* the first line names the columns */
	char text[8192];
	size_t have = 0;
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "cannot read the list of sockets '" LIST "'");
	while ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *line = text, *end;

		have += (size_t)n;
		text[have] = '\0';
		while ((end = memchr(line, '\n', have - (size_t)(line - text)))) {
			*end = '\0';
			if (headed && sockets_one_line(line, each, ctx, e) < 0)
				return -e->code;
			headed = true;
			line = end + 1;
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
		if (have == sizeof(text) - 1)
			return err_set(e, ERR_INTERNAL, EIO, "a line of '" LIST "' is too long");
	}
	return n < 0 ? err_sys(e, "cannot read '" LIST "'") : 0;
}

int sockets_list(sockets_each *each, void *ctx, bool *known, struct err *e)
{
	int r = by_diagnosis(each, ctx, e);

	*known = r >= 0;
	return r == 0 ? 0 : r > 0 ? -e->code : by_names(each, ctx, e);
}

void socket_address(int folder, const char *name, struct sockaddr_un *ret)
{
	char by[32], path[sizeof(ret->sun_path)];
	ssize_t n;
	int all;

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(by, sizeof(by), "/proc/self/fd/%d", folder);
	n = readlink(by, path, sizeof(path));
	all = n > 0 && (size_t)n < sizeof(path) ? snprintf(ret->sun_path, sizeof(ret->sun_path),
							   "%.*s/%s", (int)n, path, name)
						: -1;
	if (all < 0 || (size_t)all >= sizeof(ret->sun_path))
		(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/%s", by, name);
}
