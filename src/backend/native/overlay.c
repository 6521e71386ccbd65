/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/overlay.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/files/fd.h"
#include "base/text/str.h"

#define DEPTH 4          /* /usr/local/lib/pythonN is 3 below /usr */
#define FOLDERS_MAX 8192 /* copied at most; the rest stays read-only */

enum { TYPE_DIR = 4 };

/* Makes in `to` every folder that `from` has, down to `depth`. */
static void copy_folders(int from, int to, int depth, unsigned *left)
{
	_Alignas(8) char data[4096];
	long n;

	while (*left && (n = syscall(SYS_getdents64, from, data, sizeof(data))) > 0)
		for (long at = 0; at < n && *left;) {
			const struct fd_entry *e = (const void *)(data + at);
			CLEANUP(fd) int below = -1;
			CLEANUP(fd) int copy = -1;

			at += e->reclen;
			if (e->type != TYPE_DIR || str_eq(e->name, ".") || str_eq(e->name, ".."))
				continue;
			if (mkdirat(to, e->name, 0755) < 0)
				continue;
			(*left)--;
			if (depth <= 1)
				continue;
			below = openat(from, e->name,
				       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			copy = openat(to, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (below >= 0 && copy >= 0)
				copy_folders(below, copy, depth - 1, left);
		}
}

static int overlay_make_folder(int layer, const char *name, const char *what, bool *made)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s-%s", name, what);
	*made = mkdirat(layer, path, 0755) == 0;
	if (!*made && errno != EEXIST)
		return -errno;
	return openat(layer, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int overlay_mount(int target, int layer, const char *name, struct err *e)
{
	bool made, unused;
	CLEANUP(fd) int upper = overlay_make_folder(layer, name, "upper", &made);
	CLEANUP(fd) int work = overlay_make_folder(layer, name, "work", &unused);
	CLEANUP(fd) int from = openat(target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char options[192], at[32];
	unsigned left = FOLDERS_MAX;

	if (upper < 0 || work < 0 || from < 0)
		return err_sys(e, "cannot prepare a writable layer");
	if (made) /* else an earlier start has, and what was removed since stays so */
		copy_folders(from, upper, DEPTH, &left);
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", target);
	(void)snprintf(options, sizeof(options),
		       "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/"
		       "%d,userxattr",
		       from, upper, work);
	if (mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, options) == 0)
		return 0;
	(void)err_sys(e, "a writable layer is not available here");
	e->kind = ERR_UNAVAILABLE;
	return err_hint(
		e, "it needs overlayfs in user namespaces (Linux 5.11); keep read_only_root true");
}
