/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/settings_used.h - files that were once named as settings: a run must not write them,
 * whether it names them or not, because the next one may.
 *
 * The list is the file "settings" in brig's state folder: a dialect and a path a line. */
#pragma once

#include <stddef.h>

#include "base/text/arena.h"
#include "base/text/err.h"

/* Cheap when it is known. The dialect that was remembered first stays until it is forgotten. */
int settings_remember(const char *path, const char *dialect, struct err *e);
int settings_forget(const char *path, struct err *e);
/* In which dialect was it used? In the arena; NULL: it was not. */
const char *settings_dialect(struct arena *a, const char *path);
/* All of them, in the arena. Without a list there are none; -errno where it cannot be read. */
int settings_used(struct arena *a, const char *const **ret, size_t *n);
