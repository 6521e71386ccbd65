/* SPDX-License-Identifier: Apache-2.0 */
/* git/gitsay.h - what git printed about a configuration, as a list.
 *
 * The names and values in it are a hostile command's own. Whatever is not as git prints it makes
 * the whole answer void. Pure: no file, no process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"

/* `git config --list -z`, all of it. Adds what matters of it, NUL after each: "plain" when every
 * setting is known to run nothing and to read nothing else (a working tree
 * is the caller's to judge); "hooks=PATH", "include=PATH",
 * "worktree=PATH", "format=NAME". false: not as git prints it. */
bool gitsay_config(const struct buf *list, struct buf *facts);

/* The record after `at`, or the first for NULL; NULL: no more. */
const char *gitsay_next(const struct buf *list, const char *at);
bool gitsay_has(const struct buf *list, const char *record);

/* How the second of two outputs of `git config --list -z` differs from the first. */
enum gitsay_change {
	GITSAY_HOSTILE, /* by something that is not on the list */
	GITSAY_LED,     /* by plain settings, one of which leads git elsewhere than before */
	GITSAY_PLAIN, /* by plain settings: more of them, fewer, or with values that lead nowhere */
};
enum gitsay_change gitsay_change(const struct buf *was, const struct buf *is);
