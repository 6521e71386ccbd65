/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/disk.h - how much a run has written to the host's disk.
 *
 * The kernel adds a process's count to its parent's when it is reaped, so what the living have
 * written plus what init (the last parent of all) has collected is everything. The file of brig's
 * own init cannot be read from outside, so that one tells. A file system that is nearly full ends
 * the run as well. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct disk {
	int fd;          /* a folder on the workspace's file system */
	uint64_t reaped; /* bytes, as init told last */
	bool with_init;  /* it is not ours and tells nothing, but its file can be read */
	unsigned tick;
};

enum disk_seen {
	DISK_OK,
	DISK_OVER,
	DISK_HIDDEN, /* not over as far as can be seen, but a process does not let us look */
};

enum disk_seen disk_look(const struct disk *d, int procfd, uint64_t limit);
