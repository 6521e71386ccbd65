/* SPDX-License-Identifier: Apache-2.0 */
/* proc/exec.h - finds a command along PATH and becomes it; says why that failed. Nothing is
 * allocated. */
#pragma once

#include <stdbool.h>

#include "base/text/err.h"

/* Returns only with an errno. A name with a slash is a path; an empty entry of PATH is the current
 * folder. ENOENT only when no folder has it: a file that cannot be executed wins over that, a
 * folder that may not be searched does not. */
int proc_exec(const char *const *argv, const char *const *envp, const char *path);

/* That errno in words; inside: of a sandbox, where more can be shown. */
void proc_exec_failed(const char *name, int code, bool inside, struct err *e);
