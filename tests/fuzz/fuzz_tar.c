/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_tar.c - an archive that somebody hostile wrote: whatever it says, nothing is made but
 * folders and files below one folder; and the list of a folder, as brig-files writes it. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/tar/tar.h"
#include "base/files/tree.h"
#include "proc/files/files.h"

struct source {
	const uint8_t *p;
	size_t n;
};

static int get(void *arg, void *p, size_t n)
{
	struct source *s = arg;

	if (n > s->n)
		return -ENODATA;
	memcpy(p, s->p, n);
	s->p += n;
	s->n -= n;
	return 0;
}

static void pure(const uint8_t *data, size_t n)
{
	static struct tar_entry t;
	char block[TAR_BLOCK] = { 0 }, name[TAR_NAME_MAX] = { 0 };
	bool sized;

	memcpy(block, data, n < sizeof(block) ? n : sizeof(block));
	if (tar_parse(block, &t) == 0 && (t.mode & ~0777U || t.type > TAR_OTHER))
		abort();
	(void)tar_parse_pax((const char *)data, n, &t, &sized);
	memcpy(name, data, n < sizeof(name) - 1 ? n : sizeof(name) - 1);
	if (tar_clean_name(name) && (name[0] == '/' || strstr(name, "/../") || strstr(name, "//") ||
				     strncmp(name, "../", 3) == 0 || strcmp(name, "..") == 0))
		abort();
}

static void list(const uint8_t *data, size_t n)
{
	struct file_entries x = { 0 };
	const char *p = (const char *)data;

	while (n) {
		int r = file_entries_take(&x, &p, &n);

		if (r < 0)
			break;
		if (r > 0 && (strlen(x.name) != x.e.length || strchr(x.name, '/')))
			abort();
	}
}

static void unpack(const uint8_t *data, size_t n)
{
	char path[] = "/tmp/brig-fuzz-tar.XXXXXX", in[64], beside[64];
	struct source s = { data, n };
	struct tar_limits l = { .bytes = (uint64_t)1 << 20, .entries = 64, .links = n & 1 };
	struct stat st;
	int fd;

	if (!mkdtemp(path))
		abort();
	(void)snprintf(in, sizeof(in), "%s/in", path);
	(void)snprintf(beside, sizeof(beside), "%s/evil", path);
	if (mkdir(in, 0700) < 0 || (fd = open(in, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		abort();
	(void)tar_unpack(fd, &l, get, NULL, &s);
	if (lstat(beside, &st) == 0 || stat(path, &st) < 0 || st.st_nlink != 3)
		abort(); /* something stands beside the folder */
	(void)close(fd);
	fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || tree_remove(fd, path + strlen("/tmp/")) < 0)
		abort();
	(void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	pure(data, n);
	list(data, n);
	if (n >= TAR_BLOCK)
		unpack(data, n);
	return 0;
}
