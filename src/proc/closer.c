/* SPDX-License-Identifier: Apache-2.0 */
/* proc/closer.c - a process in our memory and with our descriptors, which closes some of them. */
#include "proc/closer.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/cpus.h"
#include "proc/spawn.h"

#define STACK 16384 /* a sanitizer takes its share */

struct closer {
	pid_t pid;
	size_t n;
	int fds[CLOSER_MAX];
	_Alignas(16) char stack[STACK];
};

static int closer_close_all(void *arg)
{
	const struct closer *c = arg;

	/* Not close(), a cancellation point: it would note itself in the thread we share. */
	for (size_t i = 0; i < c->n; i++)
		(void)syscall(SYS_close, c->fds[i]);
	return 0;
}

static pid_t closer_start_process(struct closer *c)
{
	cpu_set_t cpus;
	sigset_t all, old;
	pid_t pid;

	if (!cpus_idle(&cpus))
		return -1;
	/* No handler of the embedding program may run in it. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(closer_close_all, c->stack + STACK, CLONE_VM | CLONE_FILES, c);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (pid > 0)
		(void)cpus_move(pid, &cpus);
	return pid;
}

struct closer *closer_start(int *fds, size_t n, bool here)
{
	struct closer *c = malloc(sizeof(*c));

	if (c) {
		c->n = 0;
		for (size_t i = 0; i < n && c->n < CLOSER_MAX; i++)
			if (fds[i] >= 0)
				c->fds[c->n++] = TAKE_FD(fds[i]);
		c->pid = c->n && !here ? closer_start_process(c) : -1;
	}
	for (size_t i = 0; i < n; i++)
		fds[i] = fd_close(fds[i]);
	if (!c || c->pid > 0)
		return c;
	(void)closer_close_all(c);
	free(c);
	return NULL;
}

struct closer *closer_end(struct closer *c)
{
	if (c)
		(void)proc_wait(c->pid);
	free(c);
	return NULL;
}
