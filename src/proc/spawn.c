/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/fd.h"

#define SIGNALS 64
#define STACK 16384

static void block_signals(sigset_t *old)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, old);
}

pid_t proc_clone(uint64_t flags, int cgroup, int *pidfd)
{
	struct clone_args a = {
		.flags = flags | (pidfd ? CLONE_PIDFD : 0) | (cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
		.pidfd = (uint64_t)(uintptr_t)pidfd,
		.cgroup = cgroup >= 0 ? (uint64_t)cgroup : 0,
	};
	sigset_t old;
	pid_t pid;

	block_signals(&old);
	pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	if (pid < 0 && cgroup < 0 && (errno == ENOSYS || errno == E2BIG))
		pid = (pid_t)syscall(SYS_clone, (unsigned long)a.flags, NULL, pidfd, NULL, NULL);
	if (pid != 0)
		(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid;
}

pid_t proc_fork(int *pidfd)
{
	return proc_clone(0, -1, pidfd);
}

struct in_network {
	int (*fn)(void *arg);
	void *arg;
	int r;
};

static int enter_network(void *arg)
{
	struct in_network *x = arg;

	x->r = x->fn(x->arg);
	return 0;
}

int proc_in_network(int (*fn)(void *arg), void *arg)
{
	_Alignas(16) char stack[STACK];
	struct in_network x = { .fn = fn, .arg = arg };
	sigset_t old;
	pid_t pid;

	block_signals(&old);
	pid = clone(enter_network, stack + sizeof(stack),
		    CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_NEWUSER | CLONE_NEWNET, &x);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return fn(arg);
	(void)proc_wait(pid);
	return x.r;
}

int proc_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

/* The pipe ends the child should the caller die. The caller does not rely on it: a process that
 * another thread has just forked may hold a copy of the other end. */
int proc_close_apart(int fd)
{
	CLEANUP(fd) int until = -1, over = -1;
	int ends[2];
	pid_t child;
	char unused;

	if (fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	until = ends[0];
	over = ends[1];
	child = proc_fork(NULL);
	if (child == 0) {
		(void)close(over);
		while (read(until, &unused, 1) < 0 && errno == EINTR)
			;
		_exit(0);
	}
	if (child < 0)
		return -1;
	(void)close(fd);
	(void)kill(child, SIGKILL);
	(void)proc_wait(child);
	return -1;
}

static pid_t spawn_copy(bool allocates)
{
	sigset_t old;
	pid_t pid;

	if (!allocates)
		return proc_fork(NULL);
	block_signals(&old);
	pid = fork();
	if (pid != 0)
		(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid;
}

int proc_fork_away(bool allocates)
{
	pid_t pid = spawn_copy(allocates);
	int status;

	if (pid < 0)
		return -1;
	if (pid == 0) {
		pid = spawn_copy(allocates);
		if (pid == 0)
			return 0;
		_exit(pid < 0 ? errno : 0);
	}
	status = proc_wait(pid);
	/* Another wait of the program's has reaped it: how it went cannot be known. */
	if (status <= 0)
		return 1;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
	return -1;
}

/* By the kernel's call: libc keeps two to itself, and the program that started brig may
 * have ignored them. */
void proc_default_signals(void)
{
	static const char dfl[64]; /* the kernel's struct sigaction of SIG_DFL, and room */

	for (int s = 1; s <= SIGNALS; s++)
		(void)syscall(SYS_rt_sigaction, s, dfl, NULL, SIGNALS / 8);
}

void proc_unblock_signals(void)
{
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Above the streams themselves: the caller may have closed one. */
static int open_null(void)
{
	/* Without O_NOCTTY the filter would ask init about it (seccomp_listen); init runs this,
	 * too, and would wait for itself. */
	int fd = open("/dev/null", O_RDWR | O_NOCTTY | O_CLOEXEC), up = fd;

	if (fd >= 0 && fd < 3) {
		up = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		(void)close(fd);
	}
	return up;
}

int proc_place_streams(int in, int out, int err)
{
	const int wanted[] = { in, out, err };
	CLEANUP(fd) int null = -1;

	if (in < 0 || out < 0 || err < 0) {
		null = open_null();
		if (null < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++) {
		int fd = wanted[i] >= 0 ? wanted[i] : null;

		if (fd == i ? fcntl(i, F_SETFD, 0) < 0 : dup2(fd, i) < 0)
			return -errno;
	}
	return 0;
}

void proc_forget_environment(void)
{
	for (char **v = environ; v && *v; v++)
		explicit_bzero(*v, strlen(*v));
}

int proc_leave_streams(void)
{
	return proc_place_streams(-1, -1, -1);
}
