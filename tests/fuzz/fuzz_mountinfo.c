/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_mountinfo.c - /proc/self/cgroup and mountinfo, one behind the other with a NUL between,
 * as a host might write them. Every place found is a text in bounds with its mount point in front,
 * and walking up ends there. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#include "backend/kit/limits/cgroup_internal.h"

static int memory_file(const char *name, const void *data, size_t n, char *path, size_t room)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	require(fd >= 0 && write(fd, data, n) == (ssize_t)n);
	(void)snprintf(path, room, "/proc/self/fd/%d", fd);
	return fd;
}

static void check_place(struct cg_place *p)
{
	size_t n = strnlen(p->dir, sizeof(p->dir)), steps = 0;

	require(n < sizeof(p->dir));
	if (!n)
		return;
	require(p->dir[0] == '/' && p->mount_len <= n);
	while (cg_place_up(p))
		require(++steps <= n && strlen(p->dir) >= p->mount_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
	size_t head = nul ? (size_t)(nul - data) : size, skip = nul ? head + 1 : head;
	char own[64], mounts[64];
	struct cgroup_host host = { .self_cgroup = own, .mountinfo = mounts };
	static struct cg_map map;
	int a = memory_file("cgroup", data, head, own, sizeof(own));
	int b = memory_file("mountinfo", data + skip, size - skip, mounts, sizeof(mounts));

	memset(&map, 0xa5, sizeof(map));
	require(cg_map_read(&host, &map) == 0);
	for (int k = 0; k < CG_KINDS; k++)
		check_place(&map.place[k]);
	(void)close(a);
	(void)close(b);
	return 0;
}
