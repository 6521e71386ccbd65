/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define SEND_FDS_MAX 32

const char *fd_kind_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "folder";
	case S_IFLNK:
		return "link";
	default:
		return "other";
	}
}

struct ident ident_of(const struct stat *st)
{
	return (struct ident){ .dev = st->st_dev, .ino = st->st_ino, .type = st->st_mode & S_IFMT };
}

bool ident_same(const struct ident *a, const struct ident *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->type == b->type;
}

struct stamp stamp_of(const struct stat *st)
{
	return (struct stamp){ .ident = ident_of(st),
			       .size = st->st_size,
			       .mtime = st->st_mtim,
			       .ctime = st->st_ctim };
}

static bool time_same(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool stamp_same(const struct stamp *a, const struct stamp *b)
{
	return ident_same(&a->ident, &b->ident) && a->size == b->size &&
	       time_same(&a->mtime, &b->mtime) && time_same(&a->ctime, &b->ctime);
}

bool time_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* One component of a walk. O_NOFOLLOW alone would open a link itself under O_PATH, hence the look.
 */
static int open_step(int dirfd, const char *name, int flags)
{
	struct stat st;
	int fd = openat(dirfd, name, flags | O_NOFOLLOW | O_CLOEXEC);

	/* With O_DIRECTORY the kernel says of a link only that it is no directory. */
	if (fd < 0 && errno == ENOTDIR && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISLNK(st.st_mode))
		return -ELOOP;
	if (fd < 0)
		return -errno;
	if ((flags & O_PATH) && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
		(void)fd_close(fd);
		return -ELOOP;
	}
	return fd;
}

/* The kernel without openat2: every component by itself, ".." refused outright. */
static int fd_walk(int dirfd, const char *path, int flags)
{
	CLEANUP(fd) int at = openat(dirfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[256];

	if (at < 0 || !*path)
		return at < 0 ? -errno : -ENOENT;
	if (strnlen(path, PATH_MAX) == PATH_MAX)
		return -ENAMETOOLONG; /* as the kernel has it */
	for (;;) {
		size_t n;
		bool last;
		int next;

		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, n ? path : ".", n ? n : 1);
		name[n ? n : 1] = '\0';
		if (n == 2 && memcmp(path, "..", 2) == 0)
			return -EXDEV;
		path += n;
		last = path[strspn(path, "/")] == '\0';
		next = open_step(at, name,
				 last ? flags | (*path ? O_DIRECTORY : 0) : O_PATH | O_DIRECTORY);
		if (next < 0 || last)
			return next;
		(void)fd_close(at);
		at = next;
	}
}

int fd_open_nolinks(int dirfd, const char *path, int flags, unsigned how)
{
	struct open_how h = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	CLEANUP(fd) int root = -1;
	int fd;

	if (how & FD_BENEATH)
		h.resolve |= RESOLVE_BENEATH;
	if (how & FD_IN_ROOT)
		h.resolve |= RESOLVE_IN_ROOT;
	fd = (int)syscall(SYS_openat2, dirfd, path, &h, sizeof(h));
	if (fd >= 0 || errno != ENOSYS)
		return fd >= 0 ? fd : -errno;
	if (path[0] != '/' || (how & FD_IN_ROOT))
		return fd_walk(dirfd, path, flags);
	if (how & FD_BENEATH)
		return -EXDEV;
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? -errno : fd_walk(root, path, flags);
}

int fd_real_path(int fd, char out[PATH_MAX])
{
	char link[32];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, PATH_MAX - 1);
	if (n == PATH_MAX - 1) /* it may have been cut */
		errno = ENAMETOOLONG;
	if (n < 0 || n == PATH_MAX - 1)
		return -errno;
	out[n] = '\0';
	return 0;
}

int fd_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n) {
		ssize_t w = write(fd, at, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return w < 0 ? -errno : -EIO;
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

int fd_read_all(int fd, void *p, size_t n)
{
	char *at = p;

	while (n) {
		ssize_t r = read(fd, at, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -ENODATA;
		at += r;
		n -= (size_t)r;
	}
	return 0;
}

int fd_write_file(int dirfd, const char *path, const char *text)
{
	CLEANUP(fd) int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	ssize_t w;

	if (fd < 0)
		return -errno;
	w = write(fd, text, n);
	if (w < 0)
		return -errno;
	return (size_t)w == n ? 0 : -EIO;
}

ssize_t fd_read_file(int dirfd, const char *path, char *out, size_t n)
{
	CLEANUP(fd) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;

	if (fd < 0)
		return -errno;
	while (have + 1 < n) {
		ssize_t r = read(fd, out + have, n - 1 - have);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		have += (size_t)r;
	}
	out[have] = '\0';
	return (ssize_t)have;
}

/* Closes what one getdents64 buffer names; returns how many were closed. */
static int close_listed(int dir, int first, int last, const char *data, long n)
{
	int closed = 0;

	for (long at = 0; at < n;) {
		const struct fd_entry *d = (const void *)(data + at);
		int fd = d->name[0] >= '0' && d->name[0] <= '9' ? (int)strtol(d->name, NULL, 10)
								: -1;

		if (fd >= first && fd <= last && fd != dir) {
			(void)close(fd);
			closed++;
		}
		at += d->reclen;
	}
	return closed;
}

/* The kernel without close_range: whatever /proc/self/fd lists, until a pass finds nothing more. */
static int close_by_list(int first, int last)
{
	CLEANUP(fd) int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(8) char data[4096];
	bool again = true;

	if (dir < 0)
		return -errno;
	for (int pass = 0; again && pass < 1024; pass++) {
		long n;

		again = false;
		if (lseek(dir, 0, SEEK_SET) < 0)
			return -errno;
		while ((n = syscall(SYS_getdents64, dir, data, sizeof(data))) > 0)
			again |= close_listed(dir, first, last, data, n) > 0;
		if (n < 0)
			return -errno;
	}
	return 0;
}

int fd_close_range(int first, int last)
{
	if (syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0U) == 0)
		return 0;
	return errno == ENOSYS ? close_by_list(first, last) : -errno;
}

int fd_close_except(int first, const int *keep, size_t n)
{
	for (;;) {
		int kept = INT_MAX, r = 0;

		for (size_t i = 0; i < n; i++)
			if (keep[i] >= first && keep[i] < kept)
				kept = keep[i];
		if (kept > first)
			r = fd_close_range(first, kept == INT_MAX ? INT_MAX : kept - 1);
		if (r < 0 || kept == INT_MAX)
			return r;
		first = kept + 1;
	}
}

static ssize_t send_once(int sock, const struct msghdr *m)
{
	ssize_t w;

	do
		w = sendmsg(sock, m, MSG_NOSIGNAL);
	while (w < 0 && errno == EINTR);
	return w;
}

/* The kernel counts what is on its way per user, against the sender's soft limit: somebody else may
 * have used up all of it. The hard limit is what we may do, and for one message we do. */
static ssize_t send_harder(int sock, const struct msghdr *m)
{
	struct rlimit old, more;
	ssize_t w;
	int saved;

	if (getrlimit(RLIMIT_NOFILE, &old) < 0)
		return errno = ETOOMANYREFS, -1;
	more = (struct rlimit){ .rlim_cur = old.rlim_max, .rlim_max = old.rlim_max };
	if (old.rlim_cur == old.rlim_max || setrlimit(RLIMIT_NOFILE, &more) < 0)
		return errno = ETOOMANYREFS, -1;
	w = send_once(sock, m);
	saved = errno;
	(void)setrlimit(RLIMIT_NOFILE, &old);
	errno = saved;
	return w;
}

int fd_send(int sock, const void *p, size_t n, const int *fds, size_t nfds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * SEND_FDS_MAX)] = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t w;

	if (nfds > SEND_FDS_MAX)
		return -EINVAL;
	if (nfds) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
	}
	w = send_once(sock, &m);
	if (w < 0 && errno == ETOOMANYREFS)
		w = send_harder(sock, &m);
	if (w < 0)
		return -errno;
	return (size_t)w == n ? 0 : -EIO;
}

ssize_t fd_recv(int sock, void *p, size_t n, int *fds, size_t *nfds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * SEND_FDS_MAX)];
	struct iovec iov = { .iov_base = p, .iov_len = n };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	size_t room = *nfds;
	ssize_t r;

	*nfds = 0;
	/* One that left without reading what we sent is told of first, and once; then comes what it
	 * had to say. */
	do
		r = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (r < 0 && (errno == EINTR || errno == ECONNRESET));
	if (r < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		size_t have = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < have; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (*nfds < room)
				fds[(*nfds)++] = fd;
			else
				(void)close(fd);
		}
	}
	return r;
}

int fd_ensure_stdio(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* The lowest free number is this one: all below it are open. */
		if (open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0)
			return -errno;
	}
	return 0;
}

void fd_raise_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return;
	r.rlim_cur = r.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
}
