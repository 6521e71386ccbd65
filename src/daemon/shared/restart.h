/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/shared/restart.h - when a sandbox that ended by itself is begun again, and when no longer.
 *
 * Pure: the clock is the caller's, in microseconds. Each try waits twice as long as the one before.
 * One that has run for a while begins with a clean slate; one that has not come to that for five
 * minutes is in a loop, and is left alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RESTART_WELL_US ((uint64_t)30 * 1000 * 1000)      /* it ran for so long: all is well */
#define RESTART_BOUND_US ((uint64_t)5 * 60 * 1000 * 1000) /* so long without that: a loop */
#define RESTART_FIRST_US ((uint64_t)100 * 1000)
#define RESTART_LONGEST_US ((uint64_t)30 * 1000 * 1000)

struct restart {
	bool on;       /* on-failure */
	uint64_t down; /* since when it has not run well; 0: it has */
	uint64_t tries;
};

/* Is that reason for an end one that nobody asked for? */
bool restart_is_failure(const char *reason);

/* It ended now, by itself, and had begun to run at `started` (0: it did not come to that). How long
 * to wait before the next try, or UINT64_MAX: there is none. */
uint64_t restart_after(struct restart *r, uint64_t started, uint64_t now);
