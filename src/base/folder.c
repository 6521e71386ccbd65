/* SPDX-License-Identifier: Apache-2.0 */
#include "base/folder.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

void folder_begin(struct folder *f, int fd)
{
	f->fd = fd;
	f->error = 0;
	f->at = f->len = 0;
}

static bool fill(struct folder *f)
{
	long n = syscall(SYS_getdents64, f->fd, f->data, sizeof(f->data));

	if (n < 0)
		f->error = errno;
	f->at = 0;
	f->len = n > 0 ? (size_t)n : 0;
	return n > 0;
}

const struct fd_entry *folder_next(struct folder *f)
{
	while (f->at < f->len || fill(f)) {
		const struct fd_entry *e = (const void *)(f->data + f->at);

		f->at += e->reclen;
		if (!str_eq(e->name, ".") && !str_eq(e->name, ".."))
			return e;
	}
	return NULL;
}
