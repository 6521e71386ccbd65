/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_gitindex.c - an index and a configuration of git's, as a hostile run left them. The
 * first byte says how much of the rest is the configuration. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/kit/gitconfig.h"
#include "backend/kit/gitindex.h"
#include "base/fd.h"

static int on_link(void *arg, const char *path)
{
	size_t *seen = arg;

	require(*path && strlen(path) < 4096);
	return ++*seen > 64 ? 1 : 0;
}

static int on_path(void *arg, const struct gitconfig_path *path)
{
	size_t *seen = arg;

	require(*path->value);
	return ++*seen > 64 ? 1 : 0;
}

static void write_to(int tree, const char *name, const void *p, size_t n)
{
	int fd = openat(tree, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	require(fd >= 0 && fd_write_all(fd, p, n) == 0);
	(void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char folder[] = "/tmp/fuzz-gitindex.XXXXXX", path[64];
	size_t config = size && data[0] < size ? data[0] : 0, seen = 0;
	int tree;

	if (!size || !mkdtemp(folder))
		return 0;
	tree = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	require(tree >= 0 && mkdirat(tree, "git", 0700) == 0);
	write_to(tree, "git/config", data + 1, config ? config - 1 : 0);
	write_to(tree, "git/index", data + (config ? config : 1), size - (config ? config : 1));
	(void)gitindex_links(tree, "git", on_link, &seen);
	(void)gitconfig_harmless(tree, "git/config");
	(void)snprintf(path, sizeof(path), "%s/git/config", folder);
	seen = 0;
	(void)gitconfig_paths(path, on_path, &seen);
	(void)unlinkat(tree, "git/config", 0);
	(void)unlinkat(tree, "git/index", 0);
	(void)unlinkat(tree, "git", AT_REMOVEDIR);
	(void)close(tree);
	(void)rmdir(folder);
	return 0;
}
