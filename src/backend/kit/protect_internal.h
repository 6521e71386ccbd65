/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect_internal.h - the two parts of protect.h; nobody else includes this. */
#pragma once

#include "backend/kit/protect.h"

#define TREES_MAX 2 /* the workspace and a worktree's git folder */
#define REDIRECT "commondir"

struct tree {
	const char *path;
	int fd;
	const char *redirect; /* the file that must not appear; NULL: no git folder */
	bool closed;          /* opened again for the look afterwards */
	mode_t mode;          /* to be given back */
};

struct protect {
	struct box_plan *plan;
	const char *id;
	int claim; /* our journal */
	struct tree trees[TREES_MAX];
	size_t tree_count;
	bool *placeholder;   /* one per protected name */
	unsigned bare;       /* what of a bare repository was at the top: bits of bare_parts */
	struct ident *cover; /* what each covered name was when the run began */
	unsigned moved;      /* into quarantine */
	struct ident index;  /* git's, when the run began; all zero: none */
	struct timespec index_ctime;
};

/* quarantine.c. A folder below the tree, opened even if the command has closed it to its owner;
 * -errno. */
int protect_open(int tree, const char *path);
void protect_reopen(int tree, const char *path); /* to its owner, with all folders on the way */

/* The folder a name lies in, and its last component; negative when the way there is gone or a link.
 * *opened is it too, or -1 when it is the tree itself: the caller's to close. */
int protect_parent(int tree, const char *path, const char **name, int *opened);

int protect_tree(struct protect *t, const char *path, struct err *e); /* borrowed; -errno */

/* git's index as it is now; false: there is none. */
bool protect_index(struct protect *t, struct ident *ret, struct timespec *ctime);

/* What leads git to a name: moved away where that cannot be. Either may be NULL. */
struct lead {
	int tree;
	const char *index, *git;
};

/* Moves a name away and reports it; or what leads there; or the run has failed. `o` may be NULL. */
void quarantine_lead(struct protect *t, struct outcome *o, int tree, const char *path,
		     const char *why, const struct lead *lead);
/* The same, led to by the workspace's own git folder if it lies in there. */
void quarantine(struct protect *t, struct outcome *o, int tree, const char *path, const char *why);

/* unshare.c: gives each protected file that has other names an inode of its own. */
int protect_unshare(struct protect *t, struct err *e);

/* protect_git.c: what of a bare repository is at the top, as bits; is that enough for git? */
unsigned bare_look(int tree);
bool bare_enough(unsigned parts);

/* After the run: repositories that the command made, at the top or where git on the host goes on
 * its own from there. */
void protect_repositories(struct protect *t, struct outcome *o, int tree);
