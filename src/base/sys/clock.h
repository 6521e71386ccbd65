/* SPDX-License-Identifier: Apache-2.0 */
/* base/sys/clock.h - monotonic time, for deadlines; and the time of day, which may jump. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* The deadline that is so many milliseconds from now. */
static inline uint64_t clock_after(uint64_t ms)
{
	return clock_us() + ms * 1000;
}

/* Since 1970; the kernel takes no time before. */
static inline uint64_t clock_wall_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}
