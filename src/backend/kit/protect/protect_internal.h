/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/protect_internal.h - what the files of protect.h share; nobody else includes
 * this. */
#pragma once

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "git/git_reader.h"
#include "git/gitsay.h"
#include "backend/kit/protect/protect.h"
#include "backend/kit/survey/git_record.h"
#include "backend/kit/survey/reach.h"

#define TREES_MAX (SURVEYS_MAX + 2)
#define KEPT_MAX 24

struct tree {
	const char *path;
	int fd;
	bool closed; /* opened again for the look afterwards */
	mode_t mode; /* to be given back */
	int record;  /* of its git folders; -1: none */
	bool held;   /* it has placeholders */
	bool joined; /* another run had begun there */
	bool left;   /* we have: what was made there was judged */
	bool last;   /* no other run is left there: the record was stored */
	struct ident ident;
	struct known_list known;   /* what was there when nobody wrote */
	struct seen_folders *seen; /* seen.h; NULL: none */
};

/* A covered file that the host may replace meanwhile. */
struct kept_file {
	struct live_name *of;
	bool config; /* of git's: judged by what it says, at once */
	bool gone;   /* the host has removed it: it is covered no more, which is to be told */
	int pinned;  /* the file itself, so that its inode is nobody else's */
	int copy;    /* of its bytes as they were */
	struct stat was;
	int leased; /* a configuration that was covered anew: nobody opens it for writing before we
		     * have let it go; -1: it is as it was at first */
	struct stamp stamp; /* of that */
	bool bare;          /* a command was there while it had no cover */
	bool alien;         /* who has it open is not known: it cannot stay */
};

/* A protected name while the run lives. */
struct live_name {
	struct protected_name *n; /* the plan's */
	struct tree *tree;
	bool placeholder;       /* it is held by one, ours or another run's */
	struct ident cover;     /* what was covered */
	struct kept_file *kept; /* NULL: none */
};

enum lost_why {
	LOST_NAME,     /* no file, or none that is kept */
	LOST_COVER,    /* the cover could not be put back */
	LOST_OPEN,     /* somebody has it open for writing, or a second name of it */
	LOST_SETTINGS, /* it says more than plain settings */
};

struct protect {
	struct box_plan *plan;
	const char *id;
	int claim;                    /* our journal */
	struct tree trees[TREES_MAX]; /* the first is the workspace, if it has names */
	size_t tree_count;
	struct live_name *names; /* one per protected name */
	size_t name_count;
	struct outcome *o;         /* what a look finds is told there; never NULL in one */
	unsigned moved;            /* into quarantine */
	struct timespec began;     /* names that are told of have changed since */
	struct timespec let_go;    /* ... or since then, where it is known: 0, it is not */
	struct reader_asker asker; /* of git, after the run */
	struct kept_file kept[KEPT_MAX];
	size_t kept_count;
	bool resting;     /* their leases are let go for as long as no command runs */
	bool asleep;      /* no command runs */
	const char *lost; /* the first name that lost its cover for good; NULL: none */
	enum lost_why lost_why;
	bool writable;             /* the workspace, by the command */
	struct before *before;     /* before.c; NULL: nothing was noted */
	int live;                  /* the folder of records; -1: none */
	bool marked;               /* the workspace there, by us: RECORD_LIVE */
	int life;                  /* a lock in it, as all that live have one; -1: none */
	uint64_t beat;             /* when the records were last touched */
	pid_t checker;             /* 0: none */
	int lifeline;              /* its end tells the checker that we are gone; -1: none */
	bool asked_checker;        /* there is one, or there can be none */
	struct known_list covered; /* what lies in covered folders, by paths of the host's */
	bool listed;               /* it is: the run is this process's own */
	bool unlocked;             /* its mounts are not locked */
};

/* Tells of a name in the tree, by its path on the host where that is not the workspace. */
void protect_deny(struct protect *t, const struct tree *tree, const char *path, const char *reason);
void protect_trust(struct protect *t, const struct tree *tree, const char *path,
		   const char *reason);
/* Says how many questions to git had no answer for want of time. */
void protect_unasked(struct protect *t);

/* quarantine.c. A folder of the tree ("": itself), opened even if the command has closed it to its
 * owner; -errno. */

/* Where a name lies in a tree. */
struct name_parent {
	int dir;          /* negative when the way there is gone or a link */
	const char *name; /* its last component */
	int opened;       /* dir is; -1: it is the tree */
};

struct name_parent protect_parent(int tree, const char *path);
static inline void cleanup_name_parent(struct name_parent *s)
{
	(void)fd_close(s->opened);
}

struct tree *protect_tree(struct protect *t, const char *path, struct err *e); /* NULL: an error */
/* The tree that a path of the host's lies in; *path becomes relative to it. NULL: none of ours. */
struct tree *protect_tree_of(struct protect *t, const char **path);

/* Moves a name away and reports it; or the git folder that leads there, unless NULL; or the run has
 * failed. */
void quarantine_of(struct protect *t, const struct tree *tree, const char *path, const char *why,
		   const char *git);
/* The same, led to by the workspace's own git folder if it lies in there. */
void quarantine(struct protect *t, const struct tree *tree, const char *path, const char *why);

/* covered_check.c: writes down what lies in covered folders; tells, or takes away, what changed
 * there. */
void protect_covered_begin(struct protect *t);
void protect_covered(struct protect *t);

/* before.c. NULL: there is nothing to be noted, or no memory for it, which is told afterwards. */
struct before *before_take(struct protect *t);
/* Tells what has changed since then, and notes it for the next time. */
void before_tell(struct protect *t);
struct before *before_free(struct before *b);

/* unshare.c: gives each protected file that has other names an inode of its own. */
int protect_unshare(struct protect *t, struct err *e);
/* The bytes, mode, owner and times of one that is `st`, into an empty file; 0 or -errno. */
int protect_copy(int from, int to, const struct stat *st);
/* Does so with one, which is `ident`: 0 or -errno. `lock`, or NULL, keeps the user's git away while
 * one takes the other's place. */
int protect_own_file(int dir, const char *name, const struct ident *ident, const char *id,
		     int (*lock)(int dir, bool take));

bool protect_changed(const struct protect *t, const struct stat *st); /* since the run began */
/* By the command, or since: for what is told and left in place. */
bool protect_tells(const struct protect *t, const struct stat *st);

/* judge.c: all git folders of a tree against its record. `text` receives the next one. Is there
 * anything in it that a run has made? */
bool judge_tree(struct protect *t, const struct tree *tree, struct buf *text);
/* The same of those alone that runs have made. */
void judge_made(struct protect *t, const struct tree *tree, struct buf *text);

/* protect_record.c. Before the command may act. */
int protect_records_begin(struct protect *t, struct err *e);
void protect_records_touch(struct protect *t); /* all that was made until now was judged */
/* `last`: the run has ended, and the records are brought up to date. */
void protect_records_judge(struct protect *t, bool last);
/* What was made in other trees while this run lived. */
void protect_records_others(struct protect *t);
/* A tree of runs whose end nobody saw. false: somebody is there. `here`, or NULL, is where it may
 * be if it is not where it was. */
bool protect_records_dead(const struct ident *tree, const char *here);

/* kept_files.c: keeps open, and copies, what the host may replace. */
void protect_keep_files(struct protect *t);
/* A configuration that was replaced, and which a command could open before it was covered anew,
 * becomes a file that nobody has open: the descriptor may be another run's by now. No command may
 * run. */
void protect_config_own(struct protect *t, struct kept_file *k);
/* Is it a configuration, and changed by nothing but plain settings? The user's own git may replace
 * it meanwhile. */
bool protect_config_kept(struct protect *t, const struct kept_file *k, bool locked); /* by us */
/* Takes git's own lock of it, or lets go. false: it is none, or somebody keeps it locked. */
bool protect_config_lock(const struct kept_file *k, bool take);
enum gitsay_change protect_config_change(struct protect *t, int was, int is);
bool protect_kept_same(const struct kept_file *k); /* has it the bytes that it had? */
/* Makes it anew as it was, in place of what is there or only where nothing is: nobody has that file
 * open. */
bool protect_kept_back(const struct protect *t, const struct kept_file *k, bool over);
/* Of a file that changed: it was covered all the time, and no run but those in this tree could
 * write to it. */
bool protect_host_wrote(const struct protect *t, const struct live_name *l, const struct stat *st);
int protect_file_open(int tree, const char *path); /* for reading; -errno */
/* What stands at a protected name now; all zero and false when nothing does. */
bool protect_look_at(const struct live_name *l, struct ident *ret);
/* Must it have a cover inside, as far as the plan goes? */
bool protect_has_cover(const struct protect *t, const struct live_name *l);
bool protect_in_place(const struct live_name *l); /* of a covered name: it is what was covered */
/* cover_again.c: has nobody tried to write to what was covered anew? */
bool protect_leases_hold(const struct protect *t);
/* What git says of a configuration. */
enum reader_said protect_config_facts(struct protect *t, int tree, const char *path,
				      struct buf *facts);

/* dead.c. Sends the checker home before the check is made by whom it belongs to. */
void protect_dismiss(struct protect *t);
void protect_reap(struct protect *t); /* it has ended, or is about to */
