/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/locked.h - mounts that nobody takes apart.
 *
 * The kernel locks the mounts that one user namespace takes over from another: they stay together
 * when the mount namespace ends, so that whoever was left a descriptor in one of them does not find
 * it without those that lie over it. */
#pragma once

#include <stdbool.h>

#include "base/text/err.h"

/* Once all mounts are made: a second user and mount namespace. Descriptors of folders from before
 * lead to the mounts of the first, which are gone. The capabilities are those of the new namespace,
 * which owns nothing but the mounts. proc: a procfs in which the ids can be written. After an error
 * *entered says whether there is a way back: not from half of it. */
int locked_enter(int proc, bool *entered, struct err *e);

/* All capabilities, and every way to get one back. */
int locked_drop(struct err *e);
