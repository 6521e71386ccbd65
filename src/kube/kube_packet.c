/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_packet.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "kube/kube.h"

static int file_of(const struct buf *b)
{
	CLEANUP(fd) int fd = memfd_create("brig-kube", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, b->data, b->len);
	return r < 0 ? r : TAKE_FD(fd);
}

/* A socket that is full is waited for: its reader is a process of ours. */
static int send_packet(int sock, const void *p, size_t n, const int *fds, size_t nfds)
{
	int r;

	while ((r = fd_send(sock, p, n, fds, nfds)) == -EAGAIN) {
		r = wait_fd(sock, POLLOUT, 0);
		if (r < 0)
			break;
	}
	return r == -ECONNRESET ? -EPIPE : r;
}

int kube_packet_send(int sock, struct kube_packet *p, const struct buf *text)
{
	CLEANUP(fd) int fd = -1;

	p->len = text ? text->len : 0;
	if (p->len) {
		fd = file_of(text);
		if (fd < 0)
			return fd;
	}
	return send_packet(sock, p, sizeof(*p), &fd, p->len > 0);
}

/* Copied, never mapped: the other side still has the file, and could cut it short. */
static int kube_packet_take_text(int fd, uint64_t len, struct buf *text)
{
	char piece[16384];

	if (!text || len > text->max)
		return -EMSGSIZE;
	for (uint64_t at = 0; at < len;) {
		uint64_t want = len - at < sizeof(piece) ? len - at : sizeof(piece);
		ssize_t n = pread(fd, piece, (size_t)want, (off_t)at);

		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		buf_add(text, piece, (size_t)n);
		at += (uint64_t)n;
	}
	return text->failed ? -ENOMEM : 0;
}

int kube_packet_recv(int sock, uint64_t deadline, struct kube_packet *ret, struct buf *text)
{
	CLEANUP(fd) int fd = -1;
	size_t nfds;
	ssize_t n;
	struct stat st;

	do {
		int r = wait_fd(sock, POLLIN, deadline);

		if (r < 0)
			return r;
		nfds = 1;
		n = fd_recv(sock, ret, sizeof(*ret), &fd, &nfds);
	} while (n == -EAGAIN);
	if (n <= 0)
		return n < 0 ? (int)n : -EPIPE;
	/* What is no regular file could keep us for as long as it likes. */
	if (n != sizeof(*ret) || (ret->len > 0) != (nfds == 1) ||
	    (nfds && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))))
		return -EBADMSG;
	ret->err.what[sizeof(ret->err.what) - 1] = '\0';
	ret->err.hint[sizeof(ret->err.hint) - 1] = '\0';
	if (ret->err.code < 0 || ret->err.kind < 0 || ret->err.kind >= ERR_KINDS)
		return -EBADMSG;
	return nfds ? kube_packet_take_text(fd, ret->len, text) : 0;
}

/* ---- texts ---- */

static void optional(struct parcel *p, const char **v)
{
	if (p->out && !*v)
		*v = "";
	parcel_text(p, v);
}

void kube_begin_fields(struct parcel *p, struct kube_begin *b)
{
	optional(p, &b->kubeconfig);
	optional(p, &b->context);
	optional(p, &b->namespace);
	optional(p, &b->listed);
	optional(p, &b->home);
	optional(p, &b->user);
	optional(p, &b->service_host);
	optional(p, &b->service_port);
}

void kube_place_fields(struct parcel *p, struct kube_place *v)
{
	optional(p, &v->server);
	optional(p, &v->context);
	optional(p, &v->cluster);
	optional(p, &v->namespace);
	optional(p, &v->user);
}

void kube_letter_fields(struct parcel *p, struct kube_letter *l)
{
	optional(p, &l->method);
	optional(p, &l->path);
	optional(p, &l->type);
	optional(p, &l->label);
	optional(p, &l->value);
	parcel_number(p, &l->ms);
	parcel_flag(p, &l->has_body);
	parcel_flag(p, &l->again);
	if (p->out && !l->body)
		l->body = "";
	parcel_bytes(p, &l->body, &l->len);
}
