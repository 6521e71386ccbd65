/* SPDX-License-Identifier: Apache-2.0 */
/* proc/closer.h - close descriptors beside what the caller does.
 *
 * The last descriptor on a file system or a namespace takes it down: a fifth of a millisecond, in
 * which the caller can do something else where another CPU is idle. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define CLOSER_MAX 16 /* what is given beyond it is closed at once */

struct closer;

/* Takes the descriptors: each is -1 afterwards. NULL: they are closed already, because they were to
 * be closed here, or for want of a process or of an idle CPU. */
struct closer *closer_start(int *fds, size_t n, bool here);

/* Waits until all are closed. Returns NULL. */
struct closer *closer_end(struct closer *c);
