/* SPDX-License-Identifier: Apache-2.0 */
/* wire/confine_net.h - a process that speaks with a stranger over the network.
 *
 * Afterwards: it is nobody, if it was root; it can start no program, have no privilege, not be
 * traced; by Landlock, where the kernel has it, it reads what a resolver and TLS need and writes no
 * file that is not open. What it has open grows to `most` bytes. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* `who` is the process, for the error. */
int confine_net(const char *who, uint64_t most, struct err *e);
