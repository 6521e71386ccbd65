/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/gitdirs.h - git folders, known by the names in them; no file is read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What git runs from a git folder, or reads to learn what to run or where else to look. */
struct git_part {
	const char *name;
	bool hold; /* git obeys it without a line in `config`: held in the workspace while missing
		    */
	bool list; /* a folder that is as good as missing while it is empty, as git makes it:
		    * never covered, compared afterwards */
};
enum { GIT_PARTS = 8 };
extern const struct git_part git_parts[GIT_PARTS];

#define GIT_OPTIONAL ":(optional)" /* before a path: a mark to newer gits, a name to others */
#define GIT_INCLUDES_MAX 10        /* files, one by the other; git follows as many */

/* What git runs from the folder of its hooks. */
enum { GIT_HOOKS = 28 };
extern const char *const git_hooks[GIT_HOOKS];

/* What makes git take a folder for a git folder, as bits: HEAD, objects, refs, commondir. */
enum { GIT_HEAD = 1, GIT_OBJECTS = 2, GIT_REFS = 4, GIT_COMMONDIR = 8, GIT_NAMES = 4 };
extern const char *const git_names[GIT_NAMES];
unsigned gitdir_look(int folder);
bool gitdir_enough(unsigned names); /* HEAD, and the rest of it here or elsewhere */
bool gitdir_is(int folder);         /* the same of a folder; most tell by one look */

/* Calls fn for each git folder below `folder` of `tree`, by its path in the tree, until it returns
 * something other than 0, which is the result. Those inside of one (its own `modules`) come after
 * it. A folder that is closed to its owner is opened again. -E2BIG: there is more than brig looks
 * at. */
int gitdirs_below(int tree, const char *folder, int (*fn)(void *arg, const char *path), void *arg);
