/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker_host.c - brig-egress of this host: perhaps started when a command already runs. */
#include "egress/worker_start.h"
#include "proc/host_find.h"

int worker_start(const char *word, const int *fds, size_t n, pid_t *pid, int *pidfd, struct err *e)
{
	char path[PATH_MAX];

	if (host_find_own(WORKER_PROGRAM, path, e) < 0)
		return -e->code;
	return worker_start_at(path, word, fds, n, pid, pidfd, e);
}
