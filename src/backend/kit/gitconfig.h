/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/gitconfig.h - is a git configuration written by untrusted code safe to obey, and
 * which paths does the user's own have git obey? */
#pragma once

#include <stdbool.h>

/* true when every line of the file is a setting known to run nothing and to read nothing else.
 * Missing is harmless; a link, a special file or more than 64 KiB is not. */
bool gitconfig_harmless(int tree, const char *path);
bool gitconfig_text_harmless(const char *text); /* the same for its text */

/* Calls `found` for each path that the configuration has git run programs from (core.hooksPath),
 * read more configuration from (include.path) or look for a repository in (submodule.NAME.path),
 * until it returns something other than 0, which is the result. The value is borrowed for the call.
 * -errno when the file cannot be read; missing: 0.
 */
struct gitconfig_path {
	const char *value;
	bool hooks; /* relative to the top of the working tree; else to the file's own folder */
	bool submodule;
};
int gitconfig_paths(const char *file, int (*found)(void *arg, const struct gitconfig_path *path),
		    void *arg);
