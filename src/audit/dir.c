/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/dir.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/exposed.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define SUFFIX ".jsonl"

static int check_owner(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "cannot look at the folder of the record '%.200s'", path);
	if (st.st_uid == geteuid() && !(st.st_mode & 022))
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, EPERM,
			  "it must be yours alone: chmod 700, or another audit.dir",
			  "the folder of the record '%.200s' can be written by others", path);
}

static int open_named(const char *path, bool make, struct err *e)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	CLEANUP(fd) int fd = -1;

	/* Whoever reads one asks what is in it; who goes on with one believes it. */
	if (make && exposed_check("the folder of the record", path, NULL, 0, e) < 0)
		return -e->code;
	fd = open(path, flags);
	if (fd < 0 && errno == ENOENT && make) {
		if (mkdir(path, 0700) < 0 && errno != EEXIST) {
			(void)err_sys(e, "cannot make the folder of the record '%.200s'", path);
			return err_hint(e, "name another folder as audit.dir");
		}
		fd = open(path, flags);
	}
	if (fd < 0)
		return err_sys(e, "cannot open the folder of the record '%.200s'", path);
	return check_owner(fd, path, e) < 0 ? -e->code : TAKE_FD(fd);
}

int audit_dir_open(const char *dir, bool make, char *path, size_t n, struct err *e)
{
	int fd;

	if (dir && snprintf(path, n, "%s", dir) >= (int)n)
		return err_set(e, ERR_CONFIG, ENAMETOOLONG, "audit.dir is too long");
	if (dir)
		return open_named(path, make, e);
	if (make)
		return state_open("audit", path, n, e);
	fd = state_find("audit", path, n);
	if (fd >= 0)
		return fd;
	return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
			  "a run begins one; for one that lies elsewhere set audit.dir",
			  "there is no record of brig's own yet");
}

void audit_segment_name(uint32_t number, char out[SEGMENT_NAME_SIZE])
{
	(void)snprintf(out, SEGMENT_NAME_SIZE, "%06" PRIu32 SUFFIX, number);
}

int audit_file_open(int dirfd, const char *name, int flags)
{
	const int all = flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
	int fd = openat(dirfd, name, all | O_NOATIME, 0600);

	if (fd < 0 && errno == EPERM) /* not ours: root reads somebody's copy without its powers */
		fd = openat(dirfd, name, all, 0600);
	return fd < 0 ? -errno : fd;
}

int audit_segment_open(int dirfd, uint32_t number, int flags)
{
	char name[SEGMENT_NAME_SIZE];

	audit_segment_name(number, name);
	return audit_file_open(dirfd, name, flags);
}

/* The number in a name that is exactly what audit_segment_name makes, or 0. */
static uint32_t number_of(const char *name)
{
	char again[SEGMENT_NAME_SIZE];
	unsigned long v;

	if (name[0] < '0' || name[0] > '9')
		return 0;
	v = strtoul(name, NULL, 10);
	if (v > UINT32_MAX)
		return 0;
	audit_segment_name((uint32_t)v, again);
	return str_eq(name, again) ? (uint32_t)v : 0;
}

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static int dir_collect(int folder, uint32_t **ret, size_t *count)
{
	CLEANUP(mem) uint32_t *v = NULL;
	const struct fd_entry *entry;
	size_t n = 0, room = 0;
	struct folder f;

	folder_begin(&f, folder);
	while ((entry = folder_next(&f))) {
		uint32_t number = number_of(entry->name);

		if (!number)
			continue;
		if (n == room) {
			uint32_t *more = realloc(v, (room = room ? 2 * room : 64) * sizeof(*v));

			if (!more)
				return -ENOMEM;
			v = more;
		}
		v[n++] = number;
	}
	if (n)
		qsort(v, n, sizeof(*v), ascending);
	*count = n;
	*ret = TAKE_PTR(v);
	return 0;
}

int audit_segments(int dirfd, uint32_t **ret, size_t *n, struct err *e)
{
	CLEANUP(fd) int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "cannot list the folder of the record");
	return dir_collect(fd, ret, n) < 0 ? err_nomem(e) : 0;
}
