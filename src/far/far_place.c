/* SPDX-License-Identifier: Apache-2.0 */
#include "far/far_place.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/files/fd.h"
#include "base/text/str.h"

/* What is on a disk or in the memory of one machine: tmpfs, ramfs, ext, xfs, btrfs, f2fs,
 * overlayfs, squashfs, erofs, vfat, iso9660. */
static const uint64_t own[] = { 0x01021994, 0x858458f6, 0xef53,     0x58465342,
				0x9123683e, 0xf2f52010, 0x794c7630, 0x73717368,
				0xe0f5e1e2, 0x4d44,     0x9660 };

int far_place_look(const char *path, struct far_place *ret)
{
	CLEANUP(fd) int fd = open(path, O_PATH | O_CLOEXEC);
	struct statfs fs;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	*ret = (struct far_place){ .dev = st.st_dev,
				   .ino = st.st_ino,
				   .type = (uint64_t)fs.f_type & 0xffffffff };
	return 0;
}

void far_boot(char out[FAR_BOOT_SIZE])
{
	ssize_t n = fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", out, FAR_BOOT_SIZE);

	out[n > 0 ? strcspn(out, "\n") : 0] = '\0';
}

static bool far_place_is_own(uint64_t type)
{
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (own[i] == type)
			return true;
	return false;
}

bool far_place_same(const struct far_place *a, const struct far_place *b, bool one_kernel)
{
	if (one_kernel)
		return a->dev == b->dev && a->ino == b->ino;
	return a->ino == b->ino && !(far_place_is_own(a->type) && far_place_is_own(b->type));
}
