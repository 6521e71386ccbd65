/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/lockdown.h - what worker and keeper give up before they read a single hostile byte.
 */
#pragma once

#include "base/err.h"

enum lockdown_role { LOCKDOWN_WORKER, LOCKDOWN_KEEPER, LOCKDOWN_SIGNER, LOCKDOWN_TLS };
enum { LOCKDOWN_FILES = 16384 }; /* descriptors a process has at most */

/* Afterwards: no file can be opened, no program started, no privilege had, no core written, no
 * process traced; the keeper can make no socket at all, the signer can accept on the one it has,
 * brig-tls can accept and make pairs, the worker make TCP and UDP ones that it may not bind for
 * listening. Fails when a layer that this kernel has cannot be put on. */
int lockdown(enum lockdown_role role, struct err *e);

/* At the start, before anything is read: dies with its parent, cannot be traced. */
int lockdown_early(struct err *e);
