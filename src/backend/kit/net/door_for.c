/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/net/door_for.c - the door of a sandbox that another program has built.
 *
 * Only a process of one thread may enter a user namespace, and it cannot come back: hence a helper.
 * It has every capability in the sandbox's user namespace and none in ours, opens nothing by path
 * but one sysctl, and is gone before anything of the sandbox's owner runs. */
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "backend/kit/net/door_net.h"
#include "base/files/fd.h"
#include "proc/spawn.h"

/* The helper's only word; err.code 0: the sockets come along. */
struct word {
	struct err err;
};

/* A sandbox without a network of its own would get its door in ours. */
static int guest_of(pid_t pid, struct err *e)
{
	struct stat own, other;
	char path[64];
	CLEANUP(fd) int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &other) < 0 || stat("/proc/self/ns/net", &own) < 0)
		return err_sys(e, "cannot look at the network of the sandbox");
	if (own.st_dev == other.st_dev && own.st_ino == other.st_ino)
		return err_set(e, ERR_INTERNAL, EPERM, "the sandbox has no network of its own");
	return TAKE_FD(fd);
}

/* As native: a server inside may listen on port 80, where /proc/sys is open. */
static void free_ports(void)
{
	(void)fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
}

static int open_names(int guest, int *fd, struct err *e)
{
	if (setns(guest, CLONE_NEWNET) < 0)
		return err_sys(e, "cannot enter the network of the sandbox");
	*fd = door_names();
	free_ports();
	return *fd < 0 ? err_sys(e, "cannot listen for names") : 0;
}

/* Ends in the sandbox's network namespace. Without a door to make: for names alone. */
static int work(int guest, const struct door_want *w, int *fds, struct err *e)
{
	CLEANUP(fd) int user = ioctl(guest, NS_GET_USERNS);

	if (!w && user >= 0 && setns(user, CLONE_NEWUSER) == 0)
		return open_names(guest, fds, e);
	if (user < 0 || !w || setns(user, CLONE_NEWUSER) < 0 || unshare(CLONE_NEWNET) < 0)
		return err_sys(e, "cannot enter the network of the sandbox");
	if (door_open(w, guest, fds, e) < 0)
		return -e->code;
	free_ports();
	return 0;
}

static _Noreturn void helper(int guest, int say, const struct door_want *w)
{
	struct word word = { 0 };
	int fds[DOOR_SOCKETS_MAX];
	bool done;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* a copy of the monitor's memory goes in there */
	done = work(guest, w, fds, &word.err) == 0;
	_exit(fd_send(say, &word, sizeof(word), done ? fds : NULL, !done ? 0 : w ? w->n : 1) < 0);
}

static int door_for_hear(int from, const struct door_want *w, int *fds, struct err *e)
{
	size_t n = DOOR_SOCKETS_MAX;
	struct word word;
	ssize_t got = fd_recv(from, &word, sizeof(word), fds, &n);

	if (got == (ssize_t)sizeof(word) && !word.err.code && n == (w ? w->n : 1))
		return 0;
	for (size_t i = 0; got >= 0 && i < n; i++)
		(void)fd_close(fds[i]);
	if (got == (ssize_t)sizeof(word) && word.err.code) {
		*e = word.err;
		return -e->code;
	}
	return err_set(e, ERR_INTERNAL, ECHILD, "the door's helper died");
}

static int open_for(pid_t pid, const struct door_want *w, int fds[DOOR_SOCKETS_MAX], struct err *e)
{
	CLEANUP(fd) int guest = guest_of(pid, e), ours = -1, theirs = -1;
	int pair[2];
	pid_t child;

	for (size_t i = 0; i < DOOR_SOCKETS_MAX; i++)
		fds[i] = -1;
	if (guest < 0)
		return guest;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "cannot make a socket pair");
	ours = pair[0];
	theirs = pair[1];
	child = proc_fork(NULL);
	if (child == 0)
		helper(guest, theirs, w);
	if (child < 0)
		return err_sys(e, "cannot start the door's helper");
	(void)proc_wait(child);
	return door_for_hear(ours, w, fds, e);
}

int door_open_for(pid_t pid, const struct door_want *w, int fds[DOOR_SOCKETS_MAX], struct err *e)
{
	return open_for(pid, w, fds, e);
}

int door_names_for(pid_t pid)
{
	int fds[DOOR_SOCKETS_MAX];
	struct err unused;

	return open_for(pid, NULL, fds, &unused) < 0 ? -1 : fds[0];
}
