/* SPDX-License-Identifier: Apache-2.0 */
#include "far/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/files/fd.h"

static int is_private(int fd, mode_t type)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return (st.st_mode & S_IFMT) == type && st.st_uid == geteuid() && !(st.st_mode & 077)
		       ? 0
		       : -EPERM;
}

int far_spool_open(const char *path)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : is_private(fd, S_IFDIR);

	return r < 0 ? r : TAKE_FD(fd);
}

int far_spool_read(int spool, const char *name)
{
	CLEANUP(fd) int fd = openat(spool, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int r = fd < 0 ? -errno : is_private(fd, S_IFREG);

	return r < 0 ? r : TAKE_FD(fd);
}

void far_spool_name(char out[FAR_SPOOL_NAME], unsigned long long task, const char *kind)
{
	(void)snprintf(out, FAR_SPOOL_NAME, "%llu.%s", task % 1000000000000, kind);
}
