/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/watch.h - limits without a cgroup: the supervisor looks every few
 * milliseconds.
 *
 * It reads the sandbox's own procfs (a descriptor the child passed out), so its cost does not
 * depend on what else runs on the host. Memory: the sum of resident sizes is an upper bound and
 * cheap; only when that passes the limit is the proportional size (PSS, exact but slow) summed.
 * Page tables count, as do bytes in the private tmpfs mounts; a mapped file of theirs counts twice:
 * too much rather than too little. What the kernel keeps for the guest otherwise (pipes, epoll,
 * descriptors in flight...) is not seen; the report says so. */
#pragma once

#include <stdint.h>
#include <stddef.h>

struct watch_usage {
	uint64_t memory; /* bytes */
	uint64_t tasks;  /* threads, without init */
};

struct watch {
	int procfd;       /* root of the sandbox's procfs, O_RDONLY; its offset is used */
	const int *tmpfs; /* descriptors on its tmpfs mounts, for statfs */
	size_t tmpfs_count;
	uint64_t held;   /* bytes of shared objects that may be mapped or not: memfds, System V */
	uint64_t kernel; /* bytes that no process can map: socket buffers */
	uint64_t memory_max; /* bytes; PSS is read only above it; 0: no memory limit */
	uint64_t tasks_max;  /* 0: no limit */
};

enum watch_verdict { WATCH_OK, WATCH_MEMORY, WATCH_TASKS };

/* One look: no allocation, at most 100,000 entries. Processes that vanish meanwhile count as
 * nothing. Once a limit is known to be passed the look ends, so the sums are then lower bounds. */
enum watch_verdict watch_look(const struct watch *w, struct watch_usage *ret);
