/* SPDX-License-Identifier: Apache-2.0 */
/* base/state.h - brig's own folder for what must survive a run: journals, quarantine, later the
 * record.
 *
 * $XDG_STATE_HOME/brig, else /var/lib/brig for root and ~/.local/state/brig for others; where none
 * of them can be made, a private folder below $XDG_RUNTIME_DIR or /tmp. Mode 0700, owner checked.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* Opens (and makes) the folder `sub` below it; a descriptor or -errno. `path`, unless NULL,
 * receives where that is. */
int state_open(const char *sub, char *path, size_t n, struct err *e);

/* Opens the folder where state_open has made it; a descriptor or -1. `path` as there. */
int state_find(const char *sub, char *path, size_t n);

/* Where that would be, without making or opening anything; 0 or -errno. */
int state_path(char *path, size_t n);
