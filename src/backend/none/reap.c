/* SPDX-License-Identifier: Apache-2.0 */
/* backend/none/reap.c - ends a tree of processes that may be forking all the while.
 *
 * A pass walks the tree from the top: stop a process, so that its list of children holds still,
 * then its children, then kill it. What a pass misses (a fork in flight, a child of a thread, a
 * tree too deep) is handed to this process by the kernel when its parent dies, since it is a
 * subreaper, and found by the next pass.
 *
 * No stranger may be hit. A direct child's number stays its own until this process reaps it. A
 * deeper one may be reaped by its parent and its number given away at any moment: it is held by a
 * pidfd, its parent read after that, and both must still exist after the reading. Without pidfds
 * only direct children are signalled, layer by layer.
 *
 * Safe between clone and exec. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "backend/none/none.h"
#include "base/files/fd.h"

#define DEPTH_MAX 32

/* A process whose children are being visited. */
struct parent {
	pid_t pid;
	int pidfd; /* -1: a direct child, or this process itself */
	int depth;
};

static void visit(pid_t pid, const struct parent *above);

static void each_child(const char *list, const struct parent *of)
{
	CLEANUP(fd) int fd = open(list, O_RDONLY | O_CLOEXEC);
	char text[128];
	pid_t pid = 0;
	ssize_t n;

	/* Numbers with a blank behind each; one may continue in the next read. */
	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 0)
				visit(pid, of);
			pid = 0;
		}
}

static void reap_below(const struct parent *p)
{
	char list[64];

	if (p->depth >= DEPTH_MAX)
		return;
	(void)snprintf(list, sizeof(list), "/proc/%d/task/%d/children", p->pid, p->pid);
	each_child(list, p);
}

static bool exists(int pidfd)
{
	return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0 || errno == EPERM;
}

static pid_t parent_of(pid_t pid)
{
	char path[64], text[256];
	const char *at;
	int ppid = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return -1;
	at = strrchr(text, ')'); /* a name may hold anything but ends here */
	if (!at || strlen(at) < 5)
		return -1;
	for (at += 4; *at >= '0' && *at <= '9'; at++)
		ppid = ppid * 10 + (*at - '0');
	return ppid;
}

static void visit_direct(pid_t pid)
{
	struct parent p = { .pid = pid, .pidfd = -1, .depth = 1 };

	(void)kill(pid, SIGSTOP);
	reap_below(&p);
	(void)kill(pid, SIGKILL);
}

static void visit_deep(pid_t pid, const struct parent *above)
{
	CLEANUP(fd) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct parent p = { .pid = pid, .pidfd = fd, .depth = above->depth + 1 };

	if (fd < 0 || parent_of(pid) != above->pid || !exists(fd) ||
	    (above->pidfd >= 0 && !exists(above->pidfd)))
		return;
	(void)syscall(SYS_pidfd_send_signal, fd, SIGSTOP, NULL, 0);
	reap_below(&p);
	(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

static void visit(pid_t pid, const struct parent *above)
{
	if (above->depth == 0)
		visit_direct(pid);
	else
		visit_deep(pid, above);
}

/* A /proc of another pid namespace would list numbers that mean somebody else here. */
bool reap_sees_children(void)
{
	char link[16], mine[16];
	ssize_t n = readlink("/proc/self", link, sizeof(link));
	int want = snprintf(mine, sizeof(mine), "%d", getpid());

	return n == want && memcmp(link, mine, (size_t)want) == 0 &&
	       access("/proc/thread-self/children", R_OK) == 0;
}

void reap_kill_descendants(void)
{
	const struct parent self = { .pid = getpid(), .pidfd = -1 };

	if (reap_sees_children())
		each_child("/proc/thread-self/children", &self);
}
