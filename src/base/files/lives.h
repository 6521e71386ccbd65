/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/lives.h - who lives: a lock that every run of a user's holds until it is over.
 *
 * The kernel keeps the locks of a file in one list, and each lock, each unlock and each close of
 * that file by anybody walks it. So the lock is spread over several files, of which a run holds
 * one: among thousands it costs what it costs among a hundred. */
#pragma once

#include <stdbool.h>

/* From here until the descriptor is closed, in all processes that have it, the caller lives. The
 * files are made in this folder. -errno; where the file system has no locks, a descriptor that
 * holds none. */
int lives_join(int folder);
/* Does anybody live there but who has `own` (-1: nobody)? Where it cannot be said, it is so. */
bool lives_others(int folder, int own);
