/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/shared/sandbox_id.h - ids of sandboxes and of their commands, which are never given again,
 * and the names that people give to sandboxes.
 *
 * 26 characters: milliseconds since 1970, then 80 random bits, so that ids sort by age. */
#pragma once

#include <stdbool.h>

#include "base/text/err.h"

#define SANDBOX_ID "sb_"
#define EXEC_ID "ex_"

enum { SANDBOX_ID_SIZE = 30, EXEC_ID_SIZE = 30 }; /* "sb_" and "ex_", 26 characters, NUL */

/* `kind` is one of the two; out has SANDBOX_ID_SIZE bytes. */
int id_make(const char *kind, char *out, struct err *e);
bool id_is(const char *kind, const char *text);

/* [a-z0-9][a-z0-9._-]{0,62}, and no id. */
bool name_is(const char *text);
