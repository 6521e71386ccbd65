/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/senders.h - how many brig-send of one user may live at once.
 *
 * The file `senders` in brig's state folder stands for them: a sender holds an OFD lock on one of
 * its first bytes, by a descriptor that it inherits, so that the kernel counts and nobody has to
 * tidy up after one that was killed. */
#pragma once

#include <stdint.h>

#include "base/text/err.h"

enum { SENDERS_MAX = 32 };

/* A place among them: a descriptor for the sender to keep open, or -errno; -EBUSY: all were taken,
 * for as long as wait_ms. */
int senders_take(uint64_t wait_ms, struct err *e);
