/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/packages/packages_sys.c - of /sys, what programs ask of CPUs and memory: a part of
 * the copy, and the same for all sandboxes. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/kit/packages/packages.h"
#include "backend/kit/packages/packages_copy.h"
#include "backend/kit/plan/plan_internal.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/text/str.h"

#define SYSTEM "/sys/devices/system"
#define SYSTEM_IN_TREE "sys/devices/system"

enum { CPUS_MAX = 64 };

/* What programs ask of CPUs and memory: how they lie to each other, not what they are doing. */
static const struct {
	const char *folder; /* of each CPU or node, or "" */
	const char *names;  /* NULL: all files in there, and in folders below */
} asked[] = {
	{ "cpu", " online possible present offline isolated kernel_max " },
	{ "cpu/smt", " active control " },
	{ "cpu/cpu#/topology", NULL },
	{ "cpu/cpu#/cache", NULL },
	{ "node", " online possible has_cpu has_memory has_normal_memory " },
	{ "node/node#", " cpulist cpumap distance meminfo " },
};

/* Files of the kernel have no size and no lasting identity: they are read, and not compared later.
 */
static int copy_sys_file(struct copier *m, const char *path)
{
	static const struct stat plain = { .st_mode = S_IFREG | 0444 };
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	m->file.len = 0;
	m->file.failed = false;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !etc_for_everybody(&st) ||
	    buf_read_file(&m->file, fd) < 0 || m->file.len > 4096 || m->files == FILES_MAX)
		return 0;
	return packages_write(m, path, &plain);
}

static int copy_sys_folder(struct copier *m, const char *at, const char *names, int depth)
{
	CLEANUP(fd) int fd = packages_open(at);
	char below[PATH_MAX], word[NAME_MAX + 3];
	const struct fd_entry *n;
	struct folder d;
	int r = 0;

	folder_begin(&d, fd);
	while (r == 0 && fd >= 0 && (n = folder_next(&d))) {
		(void)snprintf(word, sizeof(word), " %s ", n->name);
		(void)snprintf(below, sizeof(below), "%s/%s", at, n->name);
		if (n->type == DT_DIR && !names && depth > 0 && !str_eq(n->name, "power"))
			r = copy_sys_folder(m, below, NULL, depth - 1);
		else if (n->type == DT_REG && !str_eq(n->name, "uevent") &&
			 (!names || strstr(names, word)))
			r = copy_sys_file(m, below);
	}
	return r;
}

/* "cpu/cpu#/topology": for each number that is there. */
static int copy_sys_each(struct copier *m, const char *pattern, const char *names)
{
	int before = (int)strcspn(pattern, "#"), r = 0;
	char path[PATH_MAX];

	if (!pattern[before]) {
		(void)snprintf(path, sizeof(path), SYSTEM "/%s", pattern);
		return copy_sys_folder(m, path, names, 0);
	}
	for (int i = 0; r == 0 && i < CPUS_MAX; i++) {
		(void)snprintf(path, sizeof(path), SYSTEM "/%.*s%d%s", before, pattern, i,
			       pattern + before + 1);
		r = copy_sys_folder(m, path, names, 1);
	}
	return r;
}

/* A machine with more CPUs than that is not shown by halves. */
int packages_sys(struct copier *m)
{
	char path[64];
	struct stat st;
	int r = 0;

	(void)snprintf(path, sizeof(path), SYSTEM "/cpu/cpu%d", CPUS_MAX);
	if (lstat(SYSTEM "/cpu/cpu0/topology", &st) < 0 || lstat(path, &st) == 0)
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(asked); i++)
		r = copy_sys_each(m, asked[i].folder, asked[i].names);
	buf_puts(&m->list, "w " PACKAGES_PLACE SYSTEM "/cpu\t\n");
	if (fstatat(m->tree, SYSTEM_IN_TREE "/node", &st, 0) == 0)
		buf_puts(&m->list, "w " PACKAGES_PLACE SYSTEM "/node\t\n");
	return r;
}
