/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/placeholder.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define SPARE "spare"
#define SPARE_MODE 0755
#define OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static void spare_name(unsigned long long number, char out[32])
{
	(void)snprintf(out, 32, "%llx", number);
}

static void list(struct spares *s)
{
	_Alignas(8) char data[2048];
	long n;

	while ((n = syscall(SYS_getdents64, s->dir, data, sizeof(data))) > 0)
		for (long at = 0; at < n;) {
			const struct fd_entry *e = (const void *)(data + at);
			char *end;
			unsigned long long number = strtoull(e->name, &end, 16);

			if (!*end && number && s->n < ARRAY_LEN(s->name))
				s->name[s->n++] = number;
			at += e->reclen;
		}
}

static bool open_spares(struct spares *s)
{
	if (s->dir >= 0)
		return true;
	s->dir = openat(s->folder, SPARE, OPEN_FOLDER);
	if (s->dir < 0 && errno == ENOENT && mkdirat(s->folder, SPARE, 0700) == 0)
		s->dir = openat(s->folder, SPARE, OPEN_FOLDER);
	if (s->dir >= 0)
		list(s);
	return s->dir >= 0;
}

/* Moves any spare one to its place; false when there is none or it cannot be moved there. */
static bool move_in(struct spares *s, int dir, const char *name)
{
	char from[32];

	if (!open_spares(s) || !s->n)
		return false;
	spare_name(s->name[s->n - 1], from);
	if (renameat2(s->dir, from, dir, name, RENAME_NOREPLACE) < 0)
		return false;
	s->n--;
	return true;
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

int placeholder_put(struct spares *s, int dir, const char *name)
{
	if (!move_in(s, dir, name) && mkdirat(dir, name, SPARE_MODE) < 0)
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

static bool only_dots(const char *data, long n)
{
	for (long at = 0; at < n;) {
		const struct fd_entry *e = (const void *)(data + at);

		if (!str_eq(e->name, ".") && !str_eq(e->name, ".."))
			return false;
		at += e->reclen;
	}
	return true;
}

static bool is_empty(int dir, const char *name, struct stat *st)
{
	CLEANUP(fd) int fd = openat(dir, name, OPEN_FOLDER);
	_Alignas(8) char data[1024];
	long n;

	if (fd < 0 || fstat(fd, st) < 0)
		return false;
	while ((n = syscall(SYS_getdents64, fd, data, sizeof(data))) > 0)
		if (!only_dots(data, n))
			return false;
	return n == 0;
}

bool placeholder_is(int dir, const char *name)
{
	struct stat st;

	return is_empty(dir, name, &st);
}

/* One that looks as when it was made is kept for the next run. */
static bool move_out(struct spares *s, int dir, const char *name, const struct stat *st)
{
	char to[32];

	if ((st->st_mode & 07777) != SPARE_MODE || !open_spares(s) || s->n == ARRAY_LEN(s->name))
		return false;
	spare_name(st->st_ino, to);
	if (renameat2(dir, name, s->dir, to, RENAME_NOREPLACE) < 0)
		return false;
	s->name[s->n++] = st->st_ino;
	return true;
}

bool placeholder_take(struct spares *s, int dir, const char *name)
{
	struct stat st;

	if (!is_empty(dir, name, &st))
		return false;
	return move_out(s, dir, name, &st) || unlinkat(dir, name, AT_REMOVEDIR) == 0;
}
