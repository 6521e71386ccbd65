/* SPDX-License-Identifier: Apache-2.0 */
/* base/sys/program.h - programs that belong to brig and are not brig. */
#pragma once

#include <stddef.h>

#include "base/text/err.h"

/* Beside ourselves, as in a build folder or a private copy; else in the libexec folder of our own
 * prefix, wherever that was moved to; else where brig was told it would be installed. -ENOENT, with
 * that place in the hint. */
int program_find(const char *name, char *path, size_t n, struct err *e);

/* Becomes that program, in our folder and with our descriptors and variables: it is still brig that
 * the user has started. Returns only with an error. */
int program_become(const char *name, char **argv, struct err *e);

/* For what was become: in a list of processes it goes on as 'brig', the command that was typed. */
void program_is_brig(void);
