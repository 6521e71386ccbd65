/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/members_named.h"

#include <sys/mman.h>

#include "base/files/fd.h"
#include "base/text/buf.h"
#include "egress/worker_start.h"

#define TEXT_MAX 8192

int members_named_file(const struct memberlist *l, struct err *e)
{
	CLEANUP(fd) int fd = memfd_create("brig-members", MFD_CLOEXEC);
	CLEANUP(buf) struct buf b = BUF_INIT(TEXT_MAX);

	for (size_t i = 0; i < l->n; i++)
		buf_printf(&b, "%s %s\n", l->v[i].address, l->v[i].name);
	if (fd < 0 || b.failed || fd_write_all(fd, buf_str(&b), b.len) < 0)
		return err_sys(e, "no memory file for the names of companions");
	return TAKE_FD(fd);
}

int members_named_start(struct resolving *r, int packets, int streams, const struct memberlist *l,
			struct err *e)
{
	CLEANUP(fd) int names = members_named_file(l, e);

	if (names < 0)
		return -e->code;
	return worker_start(MEMBERS_WORD, (const int[]){ packets, streams, names }, 3, &r->pid,
			    &r->pidfd, e);
}
