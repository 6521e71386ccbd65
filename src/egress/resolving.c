/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/resolving.h"

#include "base/files/fd.h"
#include "egress/members_named.h"
#include "egress/worker_start.h"

int resolving_start(struct resolving *r, int socket, const struct memberlist *l, struct err *e)
{
	CLEANUP(fd) int names = l->n ? members_named_file(l, e) : -1;

	if (l->n && names < 0)
		return -e->code;
	return worker_start(RESOLVING_WORD, (const int[]){ socket, names }, l->n ? 2 : 1, &r->pid,
			    &r->pidfd, e);
}

void resolving_stop(struct resolving *r)
{
	if (r->pid > 0)
		worker_stop(r->pid, r->pidfd);
	r->pid = 0;
}
