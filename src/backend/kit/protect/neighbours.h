/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/neighbours.h - the trees that other runs write to now, and that lie above a
 * tree or below it.
 *
 * What is in one of them when a run begins may be that other run's, which has not been judged: it
 * is the user's only if the record of that tree has it as it is. */
#pragma once

#include <limits.h>

#include "backend/kit/protect/git_record.h"

struct neighbour;

struct neighbours {
	int tree;
	bool any; /* does another run live at all? */
	struct neighbour *v;
	size_t n;
	char looked[PATH_MAX]; /* the folders on the way there have been asked for */
};

/* `tree` is borrowed. false: no memory. */
bool neighbours_begin(struct neighbours *b, int tree);
/* Is it, as it is, in the record of every neighbour that it lies in? `kind` is what it must be. */
bool neighbours_know(struct neighbours *b, enum record_kind kind, const char *path,
		     const struct stat *st);
void neighbours_done(struct neighbours *b);
