/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/placeholder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define SPARE "spare"
#define SPARE_MODE 0755
#define SPARES_MAX 32

static int open_spares(int folder)
{
	int fd = openat(folder, SPARE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 || errno != ENOENT || mkdirat(folder, SPARE, 0700) < 0)
		return fd;
	return openat(folder, SPARE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Moves any spare one to its place; false when there is none or it cannot be moved there. */
static bool move_in(int folder, int dir, const char *name)
{
	int spares = open_spares(folder);
	DIR *d = spares < 0 ? NULL : fdopendir(spares);
	bool done = false;

	for (struct dirent *e; d && !done && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		done = renameat2(spares, e->d_name, dir, name, RENAME_NOREPLACE) == 0;
		if (!done)
			break;
	}
	if (d)
		(void)closedir(d);
	return done;
}

/* Root makes it for somebody else, who must be able to see that it is empty. */
static int give_to_owner(int dir, const char *name)
{
	struct stat at, st;

	if (geteuid() == 0 && fstat(dir, &at) == 0 &&
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (st.st_uid != at.st_uid || st.st_gid != at.st_gid) &&
	    fchownat(dir, name, at.st_uid, at.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

int placeholder_put(int folder, int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	if (!move_in(folder, dir, name) && mkdirat(dir, name, SPARE_MODE) < 0)
		return -errno;
	return give_to_owner(dir, name);
}

int placeholder_file(int dir, const char *name)
{
	CLEANUP(fd)
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0);

	return fd < 0 ? -errno : give_to_owner(dir, name);
}

void placeholder_file_take(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size == 0 && (st.st_mode & 07777) == 0 && st.st_nlink == 1)
		(void)unlinkat(dir, name, 0);
}

static bool is_empty(int dir, const char *name, struct stat *st)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool empty = fd >= 0 && fstat(fd, st) == 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	empty = empty && d;
	for (struct dirent *e; empty && (e = readdir(d));)
		empty = str_eq(e->d_name, ".") || str_eq(e->d_name, "..");
	if (d)
		(void)closedir(d);
	else
		(void)fd_close(fd);
	return empty;
}

bool placeholder_is(int dir, const char *name)
{
	struct stat st;

	return is_empty(dir, name, &st);
}

/* One that looks as when it was made is kept for the next run. */
static bool move_out(int folder, int dir, const char *name, const struct stat *st)
{
	CLEANUP(fd) int spares = -1;
	struct stat all;
	char to[32];

	if ((st->st_mode & 07777) != SPARE_MODE)
		return false;
	spares = open_spares(folder);
	/* Each is one more link to the folder they are in. */
	if (spares < 0 || fstat(spares, &all) < 0 || all.st_nlink > SPARES_MAX + 2)
		return false;
	(void)snprintf(to, sizeof(to), "%llx", (unsigned long long)st->st_ino);
	return renameat2(dir, name, spares, to, RENAME_NOREPLACE) == 0;
}

bool placeholder_take(int folder, int dir, const char *name)
{
	struct stat st;

	if (!is_empty(dir, name, &st))
		return false;
	return move_out(folder, dir, name, &st) || unlinkat(dir, name, AT_REMOVEDIR) == 0;
}
