/* SPDX-License-Identifier: Apache-2.0 */
#include "base/signals.h"

#include <stddef.h>
#include <sys/signalfd.h>

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
