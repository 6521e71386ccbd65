/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/gitsay.h - what git printed about a configuration, as a list.
 *
 * The names and values in it are a hostile command's own. Whatever is not as git prints it makes
 * the whole answer void. Pure: no file, no process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* `git config --list -z`, all of it. Adds what matters of it, NUL after each: "plain" when every
 * setting is known to run nothing and to read nothing else (a working tree
 * is the caller's to judge); "hooks=PATH", "include=PATH",
 * "worktree=PATH", "format=NAME". false: not as git prints it. */
bool gitsay_config(const char *data, size_t n, struct buf *facts);

/* The record after `at`, or the first for NULL; NULL: no more. */
const char *gitsay_next(const struct buf *list, const char *at);
bool gitsay_has(const struct buf *list, const char *record);

/* Two outputs of `git config --list -z`: is the second the first with nothing but plain settings
 * added, under names that it had not, or taken away? */
bool gitsay_grew(const struct buf *was, const struct buf *is);
