/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/host_program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/spawn.h"

#define STACK 32768
#define FIRST 3
#define LOW 64 /* above what a process has when it begins */

int host_exec(const char *program, const char *const *argv, const char *const *envp)
{
	static const char *const none[] = { NULL };

	if (chdir("/") < 0)
		return errno;
	(void)execve(program, (char *const *)(uintptr_t)argv,
		     (char *const *)(uintptr_t)(envp ? envp : none));
	return errno;
}

int host_reserve(void)
{
	CLEANUP(fd) int null = open("/dev/null", O_RDWR | O_NOCTTY | O_CLOEXEC);

	/* One more than are ever given away, to put back in their places. */
	for (int i = 0; i <= HOST_FDS_MAX; i++) {
		int fd = null < 0 ? -1 : fcntl(null, F_DUPFD_CLOEXEC, LOW + i);

		if (fd == LOW + i)
			continue;
		(void)fd_close(fd);
		while (i > 0)
			(void)close(LOW + --i);
		return 0;
	}
	return LOW;
}

void host_release(int low)
{
	for (int i = 0; low && i <= HOST_FDS_MAX; i++)
		(void)close(low + i);
}

/* The caller's descriptors are still ours: those that are wanted take the places that it keeps, and
 * the others are left behind, not copied. An errno. */
static int leave_table(const struct host_program *h)
{
	if (h->streams || h->fd_count > HOST_FDS_MAX)
		return EINVAL;
	for (int i = 0; i < (int)h->fd_count; i++)
		if (dup3(h->fds[i], h->low + i, O_CLOEXEC) < 0)
			return errno;
	if (syscall(SYS_close_range, (unsigned)h->low + (unsigned)h->fd_count, ~0U,
		    CLOSE_RANGE_UNSHARE) == 0)
		return 0;
	return unshare(CLONE_FILES) < 0 ? errno : 0;
}

static void put_back(const struct host_program *h)
{
	for (int i = 0; h->low && i < (int)h->fd_count && i < HOST_FDS_MAX; i++)
		(void)dup3(h->low + HOST_FDS_MAX, h->low + i, O_CLOEXEC);
}

static int host_fd(const struct host_program *h, int i)
{
	return h->low ? h->low + i : h->fds[i];
}

/* Each may be in the place of another: all go up before the first comes down. */
static int host_program_place(const struct host_program *h)
{
	int up[FIRST + HOST_FDS_MAX], above = FIRST + (int)h->fd_count;
	int r;

	if (h->fd_count > HOST_FDS_MAX)
		return EMFILE;
	for (int i = 0; i < above; i++) {
		int fd = i >= FIRST ? host_fd(h, i - FIRST) : h->streams ? h->streams[i] : -1;

		up[i] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, above);
		/* The caller may have closed one of its own streams. */
		if (up[i] < 0 && (i >= FIRST || (fd >= 0 && errno != EBADF)))
			return fd < 0 ? EBADF : errno;
	}
	r = proc_place_streams(up[0], up[1], up[2]);
	for (int i = FIRST; r == 0 && i < above; i++)
		r = dup2(up[i], i) < 0 ? -errno : 0;
	return r < 0 ? -r : -fd_close_range(above, INT_MAX);
}

/* Its memory may hold a secret of the user's. */
static int no_core(void)
{
	const struct rlimit none = { 0, 0 };

	return setrlimit(RLIMIT_CORE, &none) < 0 ? errno : 0;
}

/* An errno, if it returns; nothing is allocated. */
static int become(const struct host_program *h)
{
	int r = h->low ? leave_table(h) : 0;

	if (r == 0 && h->first)
		r = h->first();
	if (r == 0 && h->dies_with && prctl(PR_SET_PDEATHSIG, h->dies_with, 0, 0, 0) < 0)
		r = errno;
	if (h->session)
		(void)setsid();
	proc_default_signals();
	if (r == 0)
		r = host_program_place(h);
	if (r == 0 && !h->own)
		r = no_core();
	if (r)
		return r;
	proc_unblock_signals();
	return host_exec(h->program, h->argv, h->envp);
}

_Noreturn void host_become(const struct host_program *h)
{
	(void)become(h);
	_exit(127);
}

struct host_program_entry {
	const struct host_program *h;
	volatile int failed;
};

static int host_program_enter(void *arg)
{
	struct host_program_entry *x = arg;

	x->failed = become(x->h);
	_exit(127);
}

int host_start(const struct host_program *h, pid_t *pid, int *pidfd, struct err *e)
{
	_Alignas(16) char stack[STACK];
	struct host_program_entry x = { .h = h };
	sigset_t all, old;
	int fd = -1;
	pid_t child;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	child = clone(host_program_enter, stack + sizeof(stack),
		      CLONE_VM | CLONE_VFORK | CLONE_PIDFD | (h->low ? CLONE_FILES : 0), &x, &fd);
	put_back(h);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (child < 0)
		return err_sys(e, "cannot start a process for '%s'", h->program);
	if (x.failed) {
		(void)proc_wait(child);
		(void)fd_close(fd);
		return err_errno(e, x.failed, "cannot start '%s'", h->program);
	}
	*pid = child;
	if (pidfd)
		*pidfd = fd;
	else
		(void)fd_close(fd);
	return 0;
}
