/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/resolving.h"

#include "egress/worker_start.h"

int resolving_start(struct resolving *r, int socket, struct err *e)
{
	return worker_start(RESOLVING_WORD, &socket, 1, &r->pid, &r->pidfd, e);
}

void resolving_stop(struct resolving *r)
{
	if (r->pid > 0)
		worker_stop(r->pid, r->pidfd);
	r->pid = 0;
}
