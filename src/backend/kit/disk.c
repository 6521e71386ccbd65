/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "base/num.h"

#define FREE_FLOOR ((uint64_t)64 << 20)

/* write_bytes of one process; one that is gone counts nothing: its parent has it. */
static uint64_t written_by(int procfd, const char *pid, bool *hidden)
{
	char path[64], text[512], *at, *end;
	uint64_t n = 0;
	ssize_t got;

	(void)snprintf(path, sizeof(path), "%.32s/io", pid);
	got = fd_read_file(procfd, path, text, sizeof(text));
	*hidden |= got == -EACCES || got == -EPERM;
	if (got <= 0)
		return 0;
	at = strstr(text, "\nwrite_bytes: ");
	if (!at)
		return 0;
	at += strlen("\nwrite_bytes: ");
	end = strchr(at, '\n');
	if (end)
		*end = '\0';
	return num_count(at, &n) < 0 ? 0 : n;
}

enum disk_seen disk_look(const struct disk *d, int procfd, uint64_t limit)
{
	int copy = openat(procfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	uint64_t total = d->reaped;
	bool hidden = false;
	struct statvfs v;

	if (fstatvfs(d->fd, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize < FREE_FLOOR)
		total = UINT64_MAX;
	for (struct dirent *e; dir && total <= limit && (e = readdir(dir));)
		if (e->d_name[0] > '0' && e->d_name[0] <= '9' &&
		    (d->with_init || strcmp(e->d_name, "1") != 0))
			total += written_by(procfd, e->d_name, &hidden);
	if (dir)
		(void)closedir(dir);
	else
		(void)fd_close(copy);
	return total > limit ? DISK_OVER : hidden ? DISK_HIDDEN : DISK_OK;
}
