/* SPDX-License-Identifier: Apache-2.0 */
/* base/text/cleanup.h - owners that clean up after themselves when they leave scope. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(name) __attribute__((cleanup(cleanup_##name)))

#define DEFINE_CLEANUP(name, type, fn)                                                             \
	static inline __attribute__((unused)) void cleanup_##name(type *p)                         \
	{                                                                                          \
		(void)fn(*p);                                                                      \
	}

#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) taken_ = (p);                                                        \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})

#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int taken_ = (fd);                                                                 \
		(fd) = -1;                                                                         \
		taken_;                                                                            \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof(*(a)))

/* The struct that embeds *p as its member; p has that member's type. */
#define CONTAINER_OF(p, type, member)                                                              \
	((type *)((char *)(1 ? (p) : &((type *)NULL)->member) - offsetof(type, member)))

#define UNUSED __attribute__((unused)) /* a parameter that a callback's type asks for */

/* Closes fd if it is one; keeps errno; returns -1 so that an owner can be reset in the same line.
 */
static inline int fd_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		(void)close(fd);
	errno = saved;
	return -1;
}

static inline void cleanup_fd(int *fd)
{
	(void)fd_close(*fd);
}

static inline void cleanup_mem(void *p)
{
	free(*(void **)p);
}
