/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/sockmem.h - memory in socket buffers of one network namespace.
 *
 * The kernel is asked through a diagnostic socket, which belongs to the namespace that it was
 * opened in, wherever its owner is. Its answers are numbers; none of them is a byte that the guest
 * chose. One step reads a bounded part of the list and the next goes on, so that no guest can make
 * a look long; a round over all kinds of sockets is what counts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sockmem {
	unsigned kind; /* of sockets, that the round has come to */
	bool listing;  /* an answer is not yet at its end */
	uint64_t last; /* bytes, of the last whole round */
	uint64_t sum;  /* ... of this one so far */
};

int sockmem_open(void); /* for the caller's namespace: a descriptor or -errno */

/* What all sockets of the namespace together could hold at most, for less than a step takes: their
 * number, from the procfs of a process in it, times the most that one gets. UINT64_MAX: nobody
 * knows. */
uint64_t sockmem_most(int procfd);

/* One step; allocates nothing, never waits. Returns the bytes of the last round, or of this one if
 * it has come to more. What the kernel cannot tell counts as nothing. */
uint64_t sockmem_step(struct sockmem *m, int fd);
