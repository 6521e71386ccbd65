/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/gitdirs.h - git folders, known by the names in them; no file is read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

enum git_part_kind {
	GIT_PART_HOOKS,  /* a folder: each entry counts */
	GIT_PART_CONFIG, /* asked about */
	GIT_PART_COMMON, /* of a worktree's folder: as git writes it */
	GIT_PART_BACK,   /* of a worktree's folder: where the working tree is */
	GIT_PART_FILE,
	GIT_PART_LIST, /* a folder that is as good as missing while it is empty, as git makes it:
			* never covered, compared afterwards */
};

/* What git runs from a git folder, or reads to learn what to run or where else to look. */
struct git_part {
	const char *name;
	enum git_part_kind kind;
	bool hold; /* git obeys it without a line in `config`: held in the workspace while missing
		    */
};
enum { GIT_PARTS = 9 };
extern const struct git_part git_parts[GIT_PARTS];

/* An entry of hooks, by its type in the folder, that git never runs: it makes a dozen in each. */
bool gitdir_is_sample(unsigned char type, const char *name);

/* Calls fn for each that is there, and for each entry of hooks, samples aside, and of lists, by its
 * path in the tree; one that is closed to its owner is opened again. */
typedef void git_part_fn(void *ctx, const struct git_part *part, const char *path,
			 const struct stat *st);
void gitdir_parts(int tree, const char *git, git_part_fn *fn, void *ctx);

#define GIT_INCLUDES_MAX 10 /* files, one by the other; git follows as many */

/* What git runs from the folder of its hooks. */
enum { GIT_HOOKS = 28 };
extern const char *const git_hooks[GIT_HOOKS];

/* What makes git take a folder for a git folder, or nearly so, as bits. */
enum {
	GIT_HEAD = 1,
	GIT_OBJECTS = 2,
	GIT_REFS = 4,
	GIT_COMMONDIR = 8,
	GIT_CONFIG = 16,
	GIT_HOOKS_FOLDER = 32,
	GIT_NAMES = 6
};
extern const char *const git_names[GIT_NAMES];
unsigned gitdir_look(int folder);
bool gitdir_obeyed(unsigned names); /* HEAD, and the rest of it here or elsewhere */
/* The same, or it wants nothing but HEAD: another run, or the user, may bring it. */
bool gitdir_enough(unsigned names);
bool gitdir_named(const char *path); /* called `.git`, in any letters */

/* Calls fn for each git folder below `folder` of `tree`, by its path in the tree, until it returns
 * something other than 0, which is the result. Those inside of one (its own `modules`) come after
 * it. A folder that is closed to its owner is opened again. -E2BIG: there is more than brig looks
 * at. */
int gitdirs_below(int tree, const char *folder, int (*fn)(void *arg, const char *path), void *arg);
