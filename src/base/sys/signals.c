/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/signals.h"

#include <stddef.h>
#include <sys/signalfd.h>
#include <time.h>

int signals_open(const int *which)
{
	sigset_t set;

	(void)sigemptyset(&set);
	for (; *which; which++)
		(void)sigaddset(&set, *which);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void signals_ignore_pipe(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	(void)sigaction(SIGPIPE, &ignore, NULL);
}

void signals_kill_after(uint64_t ms)
{
	struct itimerspec when = { .it_value = { (time_t)(ms / 1000),
						 (long)(ms % 1000) * 1000000 } };
	struct sigevent by = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &by, &timer) == 0)
		(void)timer_settime(timer, 0, &when, NULL);
}

void signals_hold_pipe(sigset_t *before)
{
	sigset_t pipe;

	(void)sigemptyset(&pipe);
	(void)sigaddset(&pipe, SIGPIPE);
	(void)pthread_sigmask(SIG_BLOCK, &pipe, before);
}

void signals_release_pipe(const sigset_t *before)
{
	sigset_t pipe;

	(void)sigemptyset(&pipe);
	(void)sigaddset(&pipe, SIGPIPE);
	while (!sigismember(before, SIGPIPE) &&
	       sigtimedwait(&pipe, NULL, &(struct timespec){ 0 }) > 0)
		;
	(void)pthread_sigmask(SIG_SETMASK, before, NULL);
}
