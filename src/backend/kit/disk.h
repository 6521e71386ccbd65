/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/disk.h - how much a run has written to the host's disk.
 *
 * The kernel adds a process's count to its parent's when it is reaped, so what the living have
 * written plus what init (the last parent of all) has collected is everything. Init's own count is
 * known to init alone, so init tells. A process that has ended and is not reaped cannot be read any
 * more: it counts with what it had at the look before. One that makes itself unreadable and stays
 * so cannot be held to a limit. A file system that is nearly full counts as written full. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_SEEN 1024 /* processes remembered from look to look */

struct disk_process {
	uint64_t bytes;
	int pid;
	bool hidden; /* alive, and not to be read */
};

struct disk_pass {
	struct disk_process v[DISK_SEEN]; /* by pid, as the kernel lists them */
	size_t n;
};

struct disk {
	int fd;          /* a folder on the workspace's file system */
	uint64_t reaped; /* bytes, as init told last */
	bool with_init;  /* it is not ours and tells nothing, but its file can be read */
	unsigned tick;
	struct disk_pass
		*passes; /* two: this one and the one before, by turns; made by the first */
	unsigned turn;
};

enum disk_seen {
	DISK_OK,
	DISK_HIDDEN, /* not over as far as can be seen, but a living process does not let us look */
	DISK_CLOSED, /* ... the same one as the time before: not one that is just leaving its memory
		      */
	DISK_OVER,
};

/* A look at all processes of that /proc: has the run written more than it may? */
enum disk_seen disk_look(struct disk *d, int procfd, uint64_t limit);
void disk_done(struct disk *d);
