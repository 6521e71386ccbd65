/* SPDX-License-Identifier: Apache-2.0 */
/* apps/wrap/wrap_branch.h - a work tree of its own for a branch of the caller's repository.
 *
 * REPOSITORY.worktrees/NAME, beside the repository: no run that has the repository as its workspace
 * can have made, or can change, anything there. git makes it, in a sandbox of its own that can
 * write to the repository's git folder (but for what is protected there) and to that place, and to
 * nothing else: wherever names and links that a run has left in the repository may lead. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "model/settings/lists.h"

struct wrap_branch {
	const char *name;
	char top[PATH_MAX];    /* of the repository's own work tree */
	char place[PATH_MAX];  /* the folder of its further ones */
	char folder[PATH_MAX]; /* this one */
	bool there;            /* already */
	char commit[72];       /* that it begins with; wrap_branch_look */
};

/* The top of the repository's own work tree, for a folder in it or in a further one. */
int wrap_branch_top(const char *cwd, char top[PATH_MAX], struct err *e);
/* Looks where it would be, and changes nothing. */
int wrap_branch_find(const char *cwd, const char *name, struct wrap_branch *ret, struct err *e);
/* Refused where it would check out what no run may make as a file, and the repository's own work
 * tree has not. Runs may have moved any ref. */
int wrap_branch_look(struct wrap_branch *b, struct err *e);
/* Adds what of that kind a merge would bring, in brackets; nothing where it brings none. */
void wrap_branch_merge(const struct wrap_branch *b, struct buf *text);
/* Makes the folder around it. */
int wrap_branch_place(const struct wrap_branch *b, struct err *e);
/* Words of `brig run`, without the first, that make it. */
int wrap_branch_line(struct arena *a, const struct wrap_branch *b, struct strlist *ret,
		     struct err *e);
/* Is what is there a work tree of that repository? */
int wrap_branch_check(const struct wrap_branch *b, struct err *e);
