/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/gitconfig.h - is a git configuration written by untrusted code safe to obey? */
#pragma once

#include <stdbool.h>

/* true when every line of the file is a setting known to run nothing and to read nothing else.
 * Missing is harmless; a link, a special file or more than 64 KiB is not. */
bool gitconfig_harmless(int tree, const char *path);
bool gitconfig_text_harmless(const char *text); /* the same for its text */
