/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/survivor.c - finishes the check of a run whose monitor was killed.
 *
 * A process of its own session, forked beside the run, that does nothing but wait for the end of a
 * pipe: a byte dismisses it, the end alone means that its parent is no more. It has the parent's
 * memory as it was and the folders open; nobody else has to understand what was to be compared. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "backend/kit/protect/dead.h"
#include "backend/kit/protect/journal.h"
#include "backend/kit/protect/protect_internal.h"
#include "base/clock.h"
#include "base/str.h"

#define SANDBOX_MS 30000
#define LOOK_MS 50
#define AFTER_US 50000 /* a shorter run has none: it costs more than such a run */

/* Everything else is closed: above all what tells the sandbox that its monitor lives. */
static void keep_only(struct protect *t, int lifeline, int pidfd)
{
	int keep[2 * TREES_MAX + GITS_MAX + 3];
	size_t n = 0;

	for (int i = 0; i < 3; i++) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null >= 0 && null != i)
			(void)dup2(null, i);
	}
	keep[n++] = lifeline;
	if (pidfd >= 0)
		keep[n++] = pidfd;
	if (t->live >= 0)
		keep[n++] = t->live;
	for (size_t i = 0; i < t->tree_count; i++) {
		keep[n++] = t->trees[i].fd;
		if (t->trees[i].record >= 0)
			keep[n++] = t->trees[i].record;
	}
	for (size_t i = 0; i < GITS_MAX; i++)
		if (t->config[i] >= 0)
			keep[n++] = t->config[i];
	(void)fd_close_except(3, keep, n);
	t->claim = -1;
}

/* The caller's variables may hold credentials; what says where brig's state and git are stays. */
static void forget_variables(void)
{
	static const char *const needed[] = { "HOME=", "PATH=", "XDG_", NULL };

	for (char **v = environ; v && *v; v++) {
		bool keep = false;

		for (size_t i = 0; needed[i]; i++)
			keep |= str_starts(*v, needed[i]);
		if (!keep)
			explicit_bzero(*v, strlen(*v));
	}
}

/* Nothing of the sandbox is left: its first process has ended, or nobody holds the names of the
 * workspace any more. */
static void wait_for_sandbox(const struct protect *t, int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	if (pidfd >= 0) {
		if (poll(&p, 1, SANDBOX_MS) <= 0)
			(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
		(void)poll(&p, 1, SANDBOX_MS);
		return;
	}
	for (int waited = 0; waited < SANDBOX_MS && journal_held(&t->plan->workspace_ident);
	     waited += LOOK_MS)
		(void)poll(NULL, 0, LOOK_MS);
}

static _Noreturn void survive(struct protect *t, int lifeline, int pidfd)
{
	struct outcome *o;
	sigset_t all;
	char word;
	ssize_t n;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)setsid();
	(void)prctl(PR_SET_NAME, "brig-survivor", 0, 0, 0);
	forget_variables();
	keep_only(t, lifeline, pidfd);
	while ((n = read(lifeline, &word, 1)) < 0 && errno == EINTR)
		;
	if (n != 0)
		_exit(0);
	wait_for_sandbox(t, pidfd);
	o = outcome_new();
	t->survivor = 0;
	t->lifeline = -1;
	protect_end(t, false, o);
	if (o)
		told_keep(&t->plan->workspace_ident, o);
	_exit(0);
}

void protect_survive(struct protect *t, int pidfd)
{
	int ends[2];
	pid_t pid;

	if (!t || !t->writable || t->lifeline >= 0 ||
	    (pidfd >= 0 && clock_us() - t->beat < AFTER_US) || pipe2(ends, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		(void)fd_close(ends[1]);
		survive(t, ends[0], pidfd);
	}
	(void)fd_close(ends[0]);
	t->lifeline = ends[1]; /* kept without a survivor as well: this is tried once */
	t->survivor = pid > 0 ? pid : 0;
}

void protect_dismiss(struct protect *t)
{
	if (t->survivor > 0)
		(void)!write(t->lifeline, "", 1);
	t->lifeline = fd_close(t->lifeline);
}

void protect_reap(struct protect *t)
{
	while (t->survivor > 0 && waitpid(t->survivor, NULL, 0) < 0 && errno == EINTR)
		;
	t->survivor = 0;
}
