/* SPDX-License-Identifier: Apache-2.0 */
/* wire/peer.c - see peer.h.
 *
 * A pid says who connected, and may be somebody else's by now. With SO_PEERPIDFD the kernel names
 * the process itself: when that is still alive after its namespaces were looked at, they were its
 * own. Older kernels: a pidfd made from the number, and its start compared before and after. */
#include "wire/peer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* The 22nd word of /proc/PID/stat; the second is in brackets and may hold anything. */
static bool started(pid_t pid, char *out, size_t n)
{
	char path[64], text[1024];
	const char *at;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0 || !(at = strrchr(text, ')')))
		return false;
	for (int word = 2; word < 22; word++)
		if (!(at = strchr(at + 1, ' ')))
			return false;
	(void)snprintf(out, n, "%.*s", (int)strcspn(at + 1, " \n"), at + 1);
	return true;
}

static bool same_namespace(pid_t pid, const char *kind)
{
	char path[64], own[64];
	struct stat theirs, ours;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
	(void)snprintf(own, sizeof(own), "/proc/self/ns/%s", kind);
	return stat(path, &theirs) == 0 && stat(own, &ours) == 0 && theirs.st_dev == ours.st_dev &&
	       theirs.st_ino == ours.st_ino;
}

/* 1: the process itself; 0: this kernel does not say; -1: it does, and the process is gone. */
static int peer_process(int sock, int *pidfd)
{
	socklen_t n = sizeof(*pidfd);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, pidfd, &n) == 0)
		return 1;
	*pidfd = -1;
	return errno == ENOPROTOOPT ? 0 : -1;
}

static bool alive(int pidfd)
{
	return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0 || errno == EPERM;
}

static const char *peer_look_at(int sock, const struct ucred *c)
{
	CLEANUP(fd) int pidfd = -1;
	char before[32] = "", after[32] = "";
	int named = peer_process(sock, &pidfd);

	if (c->uid != geteuid() && c->uid != 0)
		return "the caller is another user";
	if (c->pid <= 0) /* what has no number here lives in another pid namespace */
		return "the caller lives in another pid namespace";
	if (named < 0)
		return "the caller is gone";
	if (!named) {
		pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
		if (pidfd < 0 || !started(c->pid, before, sizeof(before)))
			return "the caller is gone";
	}
	if (!same_namespace(c->pid, "user"))
		return "the caller lives in another user namespace, or cannot be looked at";
	if (!same_namespace(c->pid, "pid"))
		return "the caller lives in another pid namespace";
	if (!named && (!started(c->pid, after, sizeof(after)) || strcmp(before, after) != 0))
		return "the caller is gone";
	return alive(pidfd) ? NULL : "the caller is gone";
}

void peer_look(int sock, struct peer *ret)
{
	struct ucred c = { 0 };
	socklen_t n = sizeof(c);

	*ret = (struct peer){ .why = "the caller is not known" };
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &c, &n) < 0)
		return;
	ret->why = peer_look_at(sock, &c);
	ret->ours = !ret->why;
	ret->pid = c.pid;
	ret->uid = c.uid;
}

/* In how many pid namespaces it has a number, seen from here; everybody may read that. */
static int depth(pid_t pid)
{
	char path[64], text[8192];
	const char *at;
	int n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return -1;
	at = strstr(text, "\nNSpid:");
	for (at = at ? at + 7 : ""; *at && *at != '\n'; at++)
		n += *at == '\t';
	return n;
}

const char *peer_distrust(int sock)
{
	CLEANUP(fd) int pidfd = -1;
	struct ucred c = { 0 };
	socklen_t n = sizeof(c);
	int deep, named;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &c, &n) < 0)
		return "what listens there is not known";
	if (c.uid != geteuid() && c.uid != 0)
		return "what listens there is another user's";
	deep = c.pid > 0 ? depth(c.pid) : 2;
	if (deep > 1)
		return "what listens there lives in another pid namespace";
	/* Looked at last: while it lives, its number is nobody else's. */
	named = peer_process(sock, &pidfd);
	if (deep < 0 || named < 0 || (named && !alive(pidfd)))
		return "what began to listen there is gone";
	return NULL;
}
