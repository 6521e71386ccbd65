/* SPDX-License-Identifier: Apache-2.0 */
/* apps/setup/setup_project.h - what a folder seems to be: which languages, which coding agent.
 *
 * By the names of a few files alone, asked for with lstat. Nothing is opened, listed or followed:
 * the folder may be somebody else's, and hostile. All texts are the table's own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/settings/groups.h"

struct marker {
	const char *name;  /* of a file; of a folder if it ends with a slash */
	const char *what;  /* what people call it: a language or an agent */
	const char *group; /* whose hosts its packages come from; NULL: none is shipped */
	const char *first; /* what one does first in such a project; NULL: nobody knows */
	const char *agent; /* of `brig wrap`; NULL: it is a language */
	bool registry;     /* it may name another registry than the group has */
};

enum { MARKERS_MAX = 40 };

struct project_found {
	const struct marker *markers[MARKERS_MAX]; /* in the order of the table */
	size_t n;
};

/* `folder` may be O_PATH. */
void project_look(int folder, struct project_found *ret);

/* The groups of what was found, each once; how many. */
size_t project_groups(const struct project_found *f, const struct group *ret[GROUP_COUNT]);
const char *project_agent(const struct project_found *f); /* the first; NULL: none */
/* Likewise. Unless the project `reaches` packages, what would install some is passed over. */
const char *project_first(const struct project_found *f, bool reaches);
