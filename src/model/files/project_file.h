/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/project_file.h - which .brig.yaml holds for a folder. Asks for names, and opens none.
 */
#pragma once

#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/settings/lists.h"

/* The nearest from `start` upwards; NULL: there is none. Above that folder it counts only within
 * a bound that is the user's: a repository, or the way to the home folder; /tmp is anybody's.
 * `home` may be NULL. */
const char *project_file_find(struct arena *a, const char *home, const char *start);

/* Those further up, the nearest first, that would hold if what stands in their way were not there:
 * the nearest one, or the `.git` that is the bound. Only of what a guest may have made: it would
 * take away what a file further up asks for. `nearest` is what project_file_find has found. */
int project_file_above(struct arena *a, const char *home, const char *folder, const char *nearest,
		       struct strlist *ret, struct err *e);
