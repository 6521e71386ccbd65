/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/git_record.h - the git folders of a tree that commands may write to, kept
 * from run to run in STATE/records/DEV-INO.
 *
 * A list of git folders and of the things in them that git obeys, each with its stamp. It is what
 * was there when nobody wrote: the first of overlapping runs writes it before its command acts,
 * the last one afterwards. In between it also has the protected names of those that run, so that
 * somebody else can finish the check, and is touched every second while something runs. Who writes
 * in the tree holds a lock on the file for as long as it lives, and every run one in the folder: a
 * descriptor that one run has given to another may outlive it, in whichever tree. */
#pragma once

#include <stdbool.h>

#include "backend/kit/survey/seen.h"
#include "base/files/fd.h"
#include "base/text/buf.h"
#include "base/text/err.h"

enum record_kind {
	RECORD_GIT = 'g',  /* a git folder of the user's: its things are believed by their stamps */
	RECORD_MADE = 'm', /* one that a run made, and that was harmless then: they are not */
	RECORD_PART = 'p', /* something that git obeys, or a link or pipe where it writes */
	RECORD_NAME =
		'n', /* a protected name, with a slash before it; no stamp: nothing is there */
};

struct known_thing {
	const char *path; /* in the tree */
	enum record_kind kind;
	struct stamp was;
};

#define RECORD_BIRTH 32 /* room for when a tree was made */

struct known_list {
	struct buf text;       /* owns the paths */
	struct known_thing *v; /* by path */
	size_t n;
	char born[RECORD_BIRTH]; /* the tree of the record that it was loaded from */
};

#define RECORD_FOLDER "records" /* of the state folder */
#define RECORD_MAX ((size_t)16 << 20)
#define KNOWN_LIST_NONE                                                                            \
	{                                                                                          \
		.text = BUF_INIT(RECORD_MAX)                                                       \
	}

/* Adds an entry to the text of a list. */
void known_put(struct buf *text, enum record_kind kind, const char *path, const struct stat *st);
void known_keep(struct buf *text, const struct known_thing *k); /* as it is in another list */
/* A protected name; `was` is NULL for nothing. */
void known_put_name(struct buf *text, const char *path, const struct stamp *was);
bool known_is_git(const struct known_thing *k); /* a git folder, whoever made it */
/* There was more in the tree than was looked at. */
void known_put_partial(struct buf *text);
bool known_partial(const struct known_list *l);
/* Reads the text; false, and the list is empty: it is no such text. */
bool known_read(struct known_list *l);
const struct known_thing *known_find(const struct known_list *l,
				     const char *path); /* NULL: it is not */
const struct known_thing *known_name(const struct known_list *l, const char *path);
/* Is it in the list as it is now? */
bool known_same(const struct known_list *l, const char *path, const struct stat *st);
/* The device that it was written on has another number now. */
void known_move(struct known_list *l, dev_t from, dev_t to);
/* It was replaced by brig itself. */
void known_restamp(struct known_list *l, const char *path, const struct stat *st);
void known_done(struct known_list *l);

/* The folder of records, made if need be, or -errno. Until *life is closed the caller counts there
 * as a living run, in whichever tree (base/files/lives.h). */
int record_live(int *life, struct err *e);
/* Of a tree's own file: does anybody write there now? Where nothing can be said, it is so. */
bool record_locked(int fd);

/* The file of a tree; -1: there is none. `records` is their folder, open, or -1. */
int record_find(int records, const struct ident *tree);
/* The same, made if need be; a descriptor or -errno. `live` is record_live's. */
int record_open(int live, const struct ident *tree, struct err *e);
/* Nobody has finished it, and nobody writes in the tree. Costs next to nothing. */
bool record_unfinished(int records, const struct ident *tree);
/* The tree's device has another number now. */
void record_rename(int live, const struct ident *was, const struct ident *is);
/* Makes us one of those; *alone: there was no other. 0 or -errno. */
int record_join(int record, bool *alone);
void record_share(int record); /* after that: others may join */
/* Are we the only one? Until record_join or the end of the descriptor nobody else joins then. */
bool record_alone(int record);
void record_leave(int record);
/* Leaves. Is nobody else left? Then as above. Of several that leave at once, one is told so. */
bool record_last(int record);

/* *whole: what it says is what was there when the last run ended. false: there is no such list. */
bool record_load(int record, struct known_list *ret, bool *whole, struct buf *path);
/* Is the tree that list's? Or another folder, which has got the inode of one that is gone. `sure`:
 * not where a file system does not say when it was made. */
bool record_is_of(const struct known_list *l, int tree, bool sure);
/* Replaces it. `tree` is open at `path`. `whole`: nobody writes any more. 0 or -errno. */
int record_store(int record, int tree, const char *path, const struct buf *text, bool whole);

/* Further names of the records, in folders of their own. */
#define RECORD_LIVE "live" /* a run lives there, or nobody has finished its check */
#define RECORD_OPEN                                                                                \
	"open" /* something was made there while other runs lived: is looked at again              \
		*/
/* true: it was not there. */
bool record_mark(int live, const char *mark, const struct ident *tree);
void record_unmark(int live, const char *mark, const struct ident *tree);
int record_marks(const char *mark); /* the folder of them; -1: there is none */
bool record_is_open(int records, const struct ident *tree);

#define RECORD_NAME_SIZE 64 /* room for the name of a record: its tree's device and inode */
void record_name(const struct ident *tree, char out[RECORD_NAME_SIZE]);
bool record_ident(const char *name, struct ident *ret); /* of the tree with that record */

/* What walks have seen of the tree, seen.h, lies beside its record. `seen` may be NULL. */
void record_seen_load(int records, const struct ident *tree, struct seen_folders *seen);
void record_seen_store(int live, const struct ident *tree, struct seen_folders *seen);
