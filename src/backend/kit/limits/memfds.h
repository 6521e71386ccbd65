/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/memfds.h - memory in anonymous files, which no process need have mapped.
 *
 * A memfd is known by the device of the kernel's own file system that it lies on, and counts once,
 * by its inode, however many descriptors lead to it. One step looks at a bounded number of
 * descriptors and the next goes on behind it, so that no guest can make a look long; a round over
 * all processes is what counts. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MEMFDS_MAX = 1024, MEMFDS_STEP = 4096 };

struct memfds {
	dev_t device;  /* 0: not known yet */
	long behind;   /* the process that the last step ended with; 0: a new round */
	uint64_t last; /* bytes, of the last whole round */
	uint64_t sum;  /* ... of this one so far */
	size_t n;
	uint64_t seen[MEMFDS_MAX]; /* inodes of this round; beyond that many they count each time */
};

/* One step over the processes of that /proc but its first; allocates nothing. Returns the bytes of
 * the last round, or of this one if it has come to more. Processes that cannot be read count as
 * nothing. */
uint64_t memfds_step(struct memfds *m, int procfd);
