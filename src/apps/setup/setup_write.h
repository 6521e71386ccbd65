/* SPDX-License-Identifier: Apache-2.0 */
/* apps/setup/setup_write.h - one new file in a folder whose owner may be hostile: whole or not at
 * all.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/err.h"

/* Could the file be written? Looks, changes nothing; `folder` may be O_PATH. */
int setup_can_write(int folder, const char *name, bool replace, struct err *e);

/* Writes it. Without `replace` what has that name is left alone, whatever it is and whenever it
 * came; with it a plain file is replaced. No link is followed. Signals wait meanwhile. */
int setup_write(int folder, const char *name, const void *data, size_t n, bool replace,
		struct err *e);
