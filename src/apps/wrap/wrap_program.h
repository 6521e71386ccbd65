/* SPDX-License-Identifier: Apache-2.0 */
/* apps/wrap/wrap_program.h - where a program of the caller's is, and what must be shown for it to
 * run.
 *
 * npm, pipx, uv and installers of vendors put a link into a folder of PATH and the program
 * elsewhere. As little as it needs is shown: its node_modules, its virtual environment, or the file
 * alone; never the folder around, which may be ~/.local with everything in it. */
#pragma once

#include <limits.h>

struct wrap_program {
	char path[PATH_MAX]; /* where it really is */
	char show[PATH_MAX]; /* for --read; "" where it is shown anyway */
};

/* Along PATH, absolute entries alone. One that a guest could have put there, in the folder that
 * this is or anywhere else, is passed over unless it really lies in this folder: it would say what
 * else is shown. 0 or -ENOENT. */
int wrap_program_find(const char *name, struct wrap_program *ret);
