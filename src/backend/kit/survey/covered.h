/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/covered.h - what lies in a folder that is covered, entry by entry and at
 * every depth. Samples of hooks and, in a git folder, its objects are left out: no program goes by
 * them. */
#pragma once

#include "base/files/fd.h"

enum { COVERED_ENTRIES = 2000 };

struct covered_look {
	int tree;  /* may be O_PATH */
	int left;  /* entries that will still be looked at */
	bool git;  /* the covered folder is a git folder as a whole */
	bool deep; /* a folder was left out for its depth */
	/* Folders before what is in them. A result other than 0 ends the look, and is its own. */
	int (*each)(void *ctx, const char *path, const struct stat *st);
	void *ctx;
};

int covered_look(struct covered_look *l, const char *folder); /* its path in the tree */
