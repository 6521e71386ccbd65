/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "base/num.h"

#define FREE_FLOOR ((uint64_t)64 << 20)

static uint64_t write_bytes(char *text)
{
	char *at = strstr(text, "\nwrite_bytes: "), *end;
	uint64_t n = 0;

	if (!at)
		return 0;
	at += strlen("\nwrite_bytes: ");
	end = strchr(at, '\n');
	if (end)
		*end = '\0';
	return num_count(at, &n) < 0 ? 0 : n;
}

/* "PID (NAME) STATE ...", and the name may hold anything. */
static bool has_ended(int procfd, const char *pid)
{
	char path[64], text[512];
	const char *behind;

	(void)snprintf(path, sizeof(path), "%.32s/stat", pid);
	if (fd_read_file(procfd, path, text, sizeof(text)) <= 0)
		return true;
	behind = strrchr(text, ')');
	return !behind || behind[1] != ' ' || strchr("ZX", behind[2]);
}

/* One process as it is now, given what it was; false when it is gone: its parent has it all. */
static bool look_at(int procfd, const char *pid, const struct disk_process *was,
		    struct disk_process *now)
{
	char path[64], text[512];
	ssize_t r;

	(void)snprintf(path, sizeof(path), "%.32s/io", pid);
	r = fd_read_file(procfd, path, text, sizeof(text));
	*now = (struct disk_process){ .pid = (int)strtol(pid, NULL, 10),
				      .bytes = was ? was->bytes : 0 };
	if (r > 0)
		now->bytes = write_bytes(text);
	else if (r == -EACCES || r == -EPERM)
		now->hidden = !has_ended(procfd, pid);
	return r > 0 || r == -EACCES || r == -EPERM;
}

/* The entry of that pid in the look before; *at moves on with ascending pids. */
static const struct disk_process *earlier(const struct disk_pass *l, size_t *at, const char *pid)
{
	long want = strtol(pid, NULL, 10);

	while (*at < l->n && l->v[*at].pid < want)
		(*at)++;
	return *at < l->n && l->v[*at].pid == want ? &l->v[*at] : NULL;
}

/* What all have written but brig's own init; *seen tells of those that hide it. */
static uint64_t written(struct disk *d, int procfd, DIR *dir, enum disk_seen *seen)
{
	const struct disk_pass *before = &d->passes[d->turn % 2];
	struct disk_pass *now = &d->passes[++d->turn % 2];
	uint64_t total = 0;
	size_t at = 0;

	now->n = 0;
	for (const struct dirent *e; dir && (e = readdir(dir));) {
		const struct disk_process *was;
		struct disk_process is;

		if (e->d_name[0] < '1' || e->d_name[0] > '9' ||
		    (!d->with_init && strcmp(e->d_name, "1") == 0))
			continue;
		was = earlier(before, &at, e->d_name);
		if (!look_at(procfd, e->d_name, was, &is))
			continue;
		if (is.hidden && *seen != DISK_CLOSED)
			*seen = was && was->hidden ? DISK_CLOSED : DISK_HIDDEN;
		total += is.bytes;
		if (now->n < DISK_SEEN)
			now->v[now->n++] = is;
	}
	return total;
}

enum disk_seen disk_look(struct disk *d, int procfd, uint64_t limit)
{
	int copy = openat(procfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	enum disk_seen seen = DISK_OK;
	struct statvfs v;
	uint64_t total;

	if (!d->passes)
		d->passes = calloc(2, sizeof(*d->passes));
	if (!d->passes ||
	    (fstatvfs(d->fd, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize < FREE_FLOOR))
		total = UINT64_MAX;
	else
		total = written(d, procfd, dir, &seen);
	if (dir)
		(void)closedir(dir);
	else
		(void)fd_close(copy);
	return total > limit || d->reaped > limit - total ? DISK_OVER : seen;
}

void disk_done(struct disk *d)
{
	d->fd = fd_close(d->fd);
	free(d->passes);
	d->passes = NULL;
}
