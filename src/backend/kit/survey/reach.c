/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/files/fd.h"

/* The command may have taken its owner's rights from folders: they are given back to those on the
 * way to path, and to path itself if it is one. */
void reach_reopen(int tree, const char *path)
{
	char part[PATH_MAX], proc[32];
	struct stat st;

	for (size_t n = 0; path_grow(path, &n, part);) {
		CLEANUP(fd) int fd = fd_open_nolinks(tree, part, O_PATH | O_DIRECTORY, FD_BENEATH);
		if (fd < 0)
			return;
		(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
		if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
			(void)chmod(proc, (st.st_mode & 07777) | 0700);
	}
}

int reach_open(int tree, const char *path)
{
	const char *folder = *path ? path : ".";
	int fd = fd_open_nolinks(tree, folder, O_RDONLY | O_DIRECTORY, FD_BENEATH);

	if (fd != -EACCES)
		return fd;
	reach_reopen(tree, path);
	return fd_open_nolinks(tree, folder, O_RDONLY | O_DIRECTORY, FD_BENEATH);
}
