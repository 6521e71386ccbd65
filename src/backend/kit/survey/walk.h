/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/walk.h - one look through a tree for all that git on the host would obey.
 *
 * Every git folder is met, by whichever name, and each is looked through; what is done with it is
 * the visitor's. The known ones come first and have budgets of their own. Nothing is read. */
#pragma once

#include "backend/kit/survey/git_record.h"

enum walk_what {
	WALK_POINTER, /* a `.git` that is no folder */
	WALK_WRITTEN, /* a link or a pipe where git writes */
	WALK_STRAY,   /* a folder among git's objects */
	WALK_NAME,    /* outside of git folders: a name that is told of, or a link */
	WALK_STEP,    /* in a git folder: a name that is told of */
};

struct git_walk {
	int tree;
	const struct known_list *known; /* whose git folders come first; not NULL */
	size_t outside;                 /* folders outside of git folders that are looked at */
	size_t inside;                  /* in git folders that are not known, all together */
	bool no_names;                  /* nothing is WALK_NAME */
	struct seen_folders *seen;      /* seen.h; or NULL */
	/* `fd` is the git folder, `parts` bits of gitdir_look. */
	void (*on_git)(struct git_walk *w, int fd, const char *git, unsigned parts);
	/* `git`: the git folder that it is in, or NULL. */
	void (*on_thing)(struct git_walk *w, enum walk_what what, const char *git, const char *path,
			 const struct stat *st);
	/* There is more in this git folder ("": elsewhere in the tree) than is looked at. */
	void (*on_more)(struct git_walk *w, const char *git);
	void *ctx;

	uint64_t unseen; /* folders */
	bool more;       /* among them some whose paths are too long, or too many */
	struct buf gits; /* WALK_GITS; those that were met, NUL after each */
	size_t known_left;
};

#define WALK_OUTSIDE 65536 /* folders, in about a third of a second */
#define WALK_INSIDE 65536  /* in git folders that are not known */
#define WALK_GITS BUF_INIT((size_t)16 << 20)

void walk_tree(struct git_walk *w);
void walk_one(struct git_walk *w, const char *git); /* a git folder alone, and those in it */
