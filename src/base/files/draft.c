/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"

#define TRIES 8

int draft_open(int folder, struct draft *ret)
{
	uint64_t number;

	*ret = (struct draft){ .folder = -1, .fd = -1 };
	for (int i = 0; i < TRIES; i++) {
		if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
			return -EIO;
		(void)snprintf(ret->name, sizeof(ret->name), ".brig-%016llx",
			       (unsigned long long)number);
		ret->fd = openat(folder, ret->name,
				 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (ret->fd >= 0) {
			ret->folder = folder;
			return 0;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

static int close_draft(struct draft *d, int r)
{
	if (r < 0)
		(void)unlinkat(d->folder, d->name, 0);
	if (close(d->fd) < 0 && r == 0)
		r = -errno;
	*d = (struct draft){ .folder = -1, .fd = -1 };
	return r;
}

int draft_keep(struct draft *d, const char *name, mode_t mode)
{
	int r = 0;

	if (fchmod(d->fd, mode & 0777) < 0 || renameat(d->folder, d->name, d->folder, name) < 0)
		r = -errno;
	return close_draft(d, r);
}

/* A file system that cannot rename like this can still refuse a second name. */
static int rename_new(const struct draft *d, const char *name)
{
	if (syscall(SYS_renameat2, d->folder, d->name, d->folder, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != ENOSYS && errno != EINVAL)
		return -errno;
	if (linkat(d->folder, d->name, d->folder, name, 0) < 0)
		return -errno;
	(void)unlinkat(d->folder, d->name, 0);
	return 0;
}

int draft_keep_new(struct draft *d, const char *name, mode_t mode)
{
	return close_draft(d, fchmod(d->fd, mode & 0777) < 0 ? -errno : rename_new(d, name));
}

void draft_drop(struct draft *d)
{
	if (d->folder < 0)
		return;
	(void)unlinkat(d->folder, d->name, 0);
	(void)close(d->fd);
	*d = (struct draft){ .folder = -1, .fd = -1 };
}

int draft_write(int folder, const char *name, const struct buf *text, mode_t mode, bool sync)
{
	struct draft d;
	int r = text->failed ? -ENOMEM : draft_open(folder, &d);

	if (r < 0)
		return r;
	r = fd_write_all(d.fd, text->data, text->len);
	if (r == 0 && sync && fsync(d.fd) < 0)
		r = -errno;
	if (r == 0)
		return draft_keep(&d, name, mode);
	draft_drop(&d);
	return r;
}
