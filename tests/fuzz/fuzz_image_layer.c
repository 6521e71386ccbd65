/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_image_layer.c - a layer that somebody hostile packed: plain, by gzip or by zstd.
 * Whatever it says, what is made lies below one folder, has no set-id bit, no device but whiteouts,
 * and no attribute but the mark of a folder that replaces another. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/tree.h"
#include "image/store/inflate.h"
#include "image/store/layer_tar.h"

struct source {
	const uint8_t *p;
	size_t n;
};

static ssize_t source_get(void *arg, void *p, size_t n)
{
	struct source *s = arg;

	n = n < s->n ? n : s->n;
	memcpy(p, s->p, n);
	s->p += n;
	s->n -= n;
	return (ssize_t)n;
}

static ssize_t source_inflated(void *arg, void *p, size_t n)
{
	return inflate_read(arg, p, n);
}

static void look(int folder, unsigned depth)
{
	const struct fd_entry *en;
	struct folder d;

	require(depth <= LAYER_TAR_DEPTH + 1);
	folder_begin(&d, folder);
	while ((en = folder_next(&d))) {
		CLEANUP(fd) int fd = -1;
		struct stat st;

		require(fstatat(folder, en->name, &st, AT_SYMLINK_NOFOLLOW) == 0);
		require(!(st.st_mode & 06000));
		require(!S_ISBLK(st.st_mode) && !S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode));
		require(!S_ISCHR(st.st_mode) || st.st_rdev == 0);
		if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
			continue;
		fd = openat(folder, en->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		require(fd >= 0 &&
			flistxattr(fd, NULL, 0) <=
				(S_ISDIR(st.st_mode) ? (ssize_t)sizeof("user.overlay.opaque") : 0));
		if (S_ISDIR(st.st_mode))
			look(fd, depth + 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct layer_tar_limits limits = { .bytes = 1 << 20, .names = 64 };
	char path[] = "/tmp/brig-fuzz-layer.XXXXXX", in[64];
	struct source s = { data, n };
	struct inflate *z = inflate_new(source_get, &s, 4 << 20);
	struct unpack_tally tally;
	struct err e = { 0 };
	struct stat st;
	int fd, made;

	require(z && mkdtemp(path));
	(void)snprintf(in, sizeof(in), "%s/in", path);
	require(mkdir(in, 0700) == 0);
	fd = open(in, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	require(fd >= 0);
	made = layer_tar_unpack(fd, &limits, source_inflated, z, &tally, &e);
	require(made == 0 || (e.code && e.what[0]));
	require(made < 0 || (tally.names <= limits.names && tally.bytes <= limits.bytes));
	require(stat(path, &st) == 0 && st.st_nlink == 3);
	look(fd, 0);
	(void)close(fd);
	(void)inflate_free(z);
	fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	require(fd >= 0 && tree_remove(fd, path + strlen("/tmp/")) == 0);
	(void)close(fd);
	return 0;
}
