/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/landlock.h - the second line behind the mounts: what may be changed, by path.
 *
 * Everything visible may be read and executed; only the named places may be changed. Abstract
 * sockets and signals stay inside the domain where the kernel can say so. Network rules are not
 * used: the network namespace decides, and the command may run servers of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

int landlock_abi(void); /* 0: the kernel has none */

/* Restricts this thread and its children. Paths are resolved now. Returns the ABI used, 0 where
 * there is no Landlock, or -errno. Called in the child: no allocation. */
int landlock_apply(const char *const *writable, size_t n, struct err *e);
