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

/* How many sockets a network namespace has, as procfs tells without a list. */
struct sock_counts {
	uint64_t used;   /* that some descriptor is open for, of all kinds */
	uint64_t tcp[2]; /* of IPv4, of IPv6; also those that nobody has accepted yet */
	uint64_t udp[2];
};

struct sockmem {
	unsigned kind; /* of sockets, that the round has come to */
	bool listing;  /* an answer is not yet at its end */
	uint64_t last; /* bytes, of the last whole round */
	uint64_t sum;  /* ... of this one so far */
};

int sockmem_open(void); /* for the caller's namespace: a descriptor or -errno */

/* By a descriptor of a process's `net` in a procfs; what nobody can tell is UINT64_MAX. */
struct sock_counts sockmem_counts(int netfd);

/* What that many could hold at most, for less than a step takes: their number times the most that
 * one gets. UINT64_MAX: nobody knows. */
uint64_t sockmem_most(const struct sock_counts *c);

/* One step; allocates nothing, never waits. Kinds of which there are none are not asked for: the
 * kernel walks through tables of the whole machine for each. Returns the bytes of the last round,
 * or of this one if it has come to more. What the kernel cannot tell counts as nothing. */
uint64_t sockmem_step(struct sockmem *m, int fd, const struct sock_counts *c);
