/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/protect_internal.h - what the files of protect.h share; nobody else includes
 * this. */
#pragma once

#include "backend/kit/protect/git_reader.h"
#include "backend/kit/protect/protect.h"

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
	bool *placeholder;     /* one per protected name */
	unsigned bare;         /* what of a bare repository was at the top: bits of bare_parts */
	struct ident *cover;   /* what each covered name was when the run began */
	unsigned moved;        /* into quarantine */
	struct timespec began; /* whatever has a later ctime was changed by the run, or during it */
	struct seen_index *seen;   /* one per index of the plan */
	struct reader_asker asker; /* of git, after the run */
	bool strict;               /* git did not say where an index leads */
	int config[TREES_MAX];     /* of each git folder of the plan, as it was; -1: none */
	bool writable;             /* the workspace, by the command */
	struct before *before;     /* before.h; NULL: nothing was noted */
	struct timespec until; /* what changed later is reported and left; 0: all is taken away */
	int inventory;         /* STATE/runs/ID; -1: none */
	uint64_t beat;         /* when it was last touched */
	pid_t survivor;        /* 0: none */
	int lifeline;          /* its end tells the survivor that we are gone; -1: none */
};

/* Says how many questions to git had no answer for want of time. */
void protect_unasked(const struct protect *t, struct outcome *o);

/* quarantine.c. A folder below the tree, opened even if the command has closed it to its owner;
 * -errno. */
int protect_open(int tree, const char *path);
void protect_reopen(int tree, const char *path); /* to its owner, with all folders on the way */

/* The folder a name lies in, and its last component; negative when the way there is gone or a link.
 * *opened is it too, or -1 when it is the tree itself: the caller's to close. */
int protect_parent(int tree, const char *path, const char **name, int *opened);

int protect_tree(struct protect *t, const char *path, struct err *e); /* borrowed; -errno */
/* The tree that a path of the host's lies in; *path becomes relative to it. -1: none of ours. */
int protect_tree_of(const struct protect *t, const char **path);

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

/* protect_git.c. After the run: repositories that the command made, at the top or where git on the
 * host goes on its own from there. */
void protect_repositories(struct protect *t, struct outcome *o);
bool protect_changed(const struct protect *t, const struct stat *st); /* since the run began */
/* Takes away what a git folder made during the run would have the host's git run. */
void protect_tame(struct protect *t, struct outcome *o, int tree, const char *git);
bool protect_plain(struct protect *t, int tree, const char *git); /* is there nothing to take? */
/* Has none of what a run may not write in a git folder changed since it began? */
bool protect_parts_old(const struct protect *t, int tree, const char *git);
/* Takes away what changed among the places that the configuration of a git folder names. `git` and
 * its working tree `root` are paths of the host's. false: git does not say which they are. */
bool protect_places(struct protect *t, struct outcome *o, const char *git, const char *root);
/* Keeps the configurations of the plan's git folders open. */
void protect_keep_configs(struct protect *t);
/* Is this one of them, and changed by nothing but new plain settings? The user's own git may
 * replace it meanwhile. */
bool protect_config_kept(struct protect *t, const char *tree_path, const char *path);
/* What git says of a configuration in a git folder. */
enum reader_said protect_config_facts(struct protect *t, int tree, const char *git,
				      const char *name, struct buf *facts);

bool protect_worktree_plain(int tree, const char *folder); /* as git makes a worktree's folder */
/* Was it made since the run began? false where the file system does not say. */
bool protect_made(const struct protect *t, int tree, const char *path);
/* Was it, or a folder on the way to it, renamed into place since the run began? Its parts are as
 * old as they were then. Only times tell: what has changed otherwise may have been renamed, too. */
enum protect_move { PROTECT_STAYED, PROTECT_UNCLEAR, PROTECT_MOVED };
#define PROTECT_UNCLEAR_REASON                                                                     \
	"a repository with more than plain settings, in a folder that changed: is it the one "     \
	"that "                                                                                    \
	"was there?"
enum protect_move protect_moved(const struct protect *t, int tree, const char *path);

/* walk.c: repositories elsewhere, and names that are only reported. After protect_repositories. */
void protect_walk(struct protect *t, struct outcome *o);

/* protect_links.c: what each index named, and where that leads afterwards. */
void protect_links_begin(struct protect *t);
void protect_links(struct protect *t, struct outcome *o);
void protect_links_done(struct protect *t);
void protect_links_forget(struct protect *t); /* in a survivor, which has no copies */
/* What an index was at the start of a run that is dead; NULL: there was none. */
int protect_links_recall(struct protect *t, size_t i, const struct stamp *was);
const struct stamp *protect_links_seen(const struct protect *t, size_t i); /* NULL: none */

/* survivor.c. Sends it home before the check is made by whom it belongs to. */
void protect_dismiss(struct protect *t);
void protect_reap(struct protect *t); /* it has ended, or is about to */
