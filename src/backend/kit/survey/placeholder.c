/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/placeholder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/files/folder.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define ZFS_MAGIC 0x2fc12fc1U /* of no header of the kernel's */

int placeholder_put(int dir, const char *name, bool node, bool file)
{
	if (node && mknodat(dir, name, S_IFSOCK, 0) == 0)
		return 0;
	/* What the kernel says where there are no such nodes, and what a filter says. */
	if (node && errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
		return -errno;
	return (file ? mknodat(dir, name, S_IFREG, 0) : mkdirat(dir, name, 0755)) < 0 ? -errno : 0;
}

/* Whoever may write to the folder may have changed a node's mode, which gives nobody anything; all
 * names of a run would cease to be ours by one such change. A file has contents once it is opened.
 */
static bool is_node(const struct stat *st)
{
	return S_ISSOCK(st->st_mode) || (S_ISREG(st->st_mode) && st->st_size == 0 &&
					 st->st_nlink == 1 && (st->st_mode & 07777) == 0);
}

int placeholder_node(int dir, const char *name)
{
	CLEANUP(fd) int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_mode != S_IFSOCK || st.st_nlink != 1 ||
	    st.st_uid != geteuid())
		return -1;
	return TAKE_FD(fd);
}

int placeholder_link(int node, int dir, const char *name)
{
	char path[32];

	if (node < 0)
		return -EBADF;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", node);
	return linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

bool placeholder_reads(int fd)
{
	static const unsigned listing[] = { EXT4_SUPER_MAGIC,     XFS_SUPER_MAGIC,
					    BTRFS_SUPER_MAGIC,    TMPFS_MAGIC,
					    F2FS_SUPER_MAGIC,     ZFS_MAGIC,
					    OVERLAYFS_SUPER_MAGIC };
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode) || fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(listing); i++)
		if ((unsigned)fs.f_type == listing[i])
			return true;
	return false;
}

/* No servers: an agent takes an empty file for a broken one. */
const char *placeholder_text(const char *path)
{
	return str_ends_nocase(path, ".json") ? "{ \"mcpServers\": {} }\n" : "";
}

static bool has_nothing(int fd)
{
	struct folder d;

	folder_begin(&d, fd);
	return fd >= 0 && !folder_next(&d) && !d.error;
}

static bool is_empty(int dir, const char *name)
{
	CLEANUP(fd) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return has_nothing(fd);
}

bool placeholder_copied(int tree, const char *path, const struct stat *st)
{
	const char *text = placeholder_text(path);
	size_t n = strlen(text);
	CLEANUP(fd) int fd = -1;
	struct stat now;
	char says[64];

	if (!S_ISDIR(st->st_mode) &&
	    (!S_ISREG(st->st_mode) || st->st_nlink != 1 || (size_t)st->st_size != n))
		return false;
	fd = fd_open_nolinks(tree, path, O_RDONLY | O_NONBLOCK, FD_BENEATH);
	if (fd < 0 || fstat(fd, &now) < 0 || now.st_ino != st->st_ino || now.st_dev != st->st_dev)
		return false;
	if (S_ISDIR(now.st_mode))
		return has_nothing(fd);
	return S_ISREG(now.st_mode) && pread(fd, says, sizeof(says), 0) == (ssize_t)n &&
	       memcmp(says, text, n) == 0;
}

bool placeholder_is(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return S_ISDIR(st.st_mode) ? is_empty(dir, name) : is_node(&st);
}

bool placeholder_take(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (S_ISDIR(st.st_mode))
		return unlinkat(dir, name, AT_REMOVEDIR) == 0;
	return is_node(&st) && unlinkat(dir, name, 0) == 0;
}
