/* SPDX-License-Identifier: Apache-2.0 */
/* git/git_reader.h - git's own opinion of a file that a command may have written.
 *
 * The git that the caller's PATH names reads it inside a native sandbox of its own: no network,
 * nothing to write to but a private /tmp, no credentials, 2 s of CPU time, 256 MiB. brig sees no
 * more of the file than its descriptor. Answers are kept in STATE/git for as long as the file's
 * device, inode, size, mtime and ctime stay. */
#pragma once

#include <stdbool.h>

#include "base/files/fd.h"
#include "base/text/buf.h"

enum reader_kind {
	READER_CONFIG,  /* the answer: gitsay_config's facts */
	READER_LIST,    /* of a configuration, the answer: all that git lists. Never kept: addresses
			 * may   hold a password */
	READER_COMMITS, /* of a repository: reader_repository */
	READER_TREE,
};

enum reader_said {
	READER_PLAIN,
	READER_HOSTILE, /* git could not read it, or not in time, or said something odd */
	READER_NOBODY,  /* there is no such git, or no native sandbox */
};

#define READER_ANSWER_MAX ((size_t)256 << 10)

/* Whose question it is: a git below the host folder `avoid` is nobody. All questions of one run
 * share a budget; what is asked later is not answered. It is one of CPU time: a machine that is
 * busy with something else must not make an innocent file hostile. By the clock they have six times
 * as much, which begins with the first. */
#define READER_BUDGET_US 10000000
#define READER_CLOCK_US (6 * READER_BUDGET_US)
struct reader_asker {
	const char *avoid;
	uint64_t until;   /* 0: nothing was asked yet */
	uint64_t spent;   /* CPU time */
	uint64_t unasked; /* questions that came too late, or had no answer in time */
};

/* A copy in memory: nobody can change it while it is read. -1: it is too large, or changes. */
int reader_copy(int from, const struct stat *st);

/* What git says of a configuration that is open for reading and is no larger than a mebibyte.
 * Blocks for as long as a run takes, at most for what is left of the budget. */
enum reader_said reader_config(enum reader_kind kind, int fd, struct reader_asker *who,
			       struct buf *ret);

/* The facts of a configuration: plain and none where it has not the words for what is asked about,
 * which costs one look through its bytes, or where there is no such file. A link is followed: git
 * does. */
enum reader_about {
	READER_PLACES, /* other files that it names */
	READER_TREES,  /* a working tree, as those of all submodules do: to be asked only where
			* hooks are named relative to it */
};
enum reader_said reader_facts(const char *file, enum reader_about about, struct reader_asker *who,
			      struct buf *facts);

/* What git says of a repository, whose git folder it is shown read-only, record by record, as they
 * come; what is in a record is a hostile command's own.
 *
 * READER_COMMITS: `input` has the bytes of all its refs as they were, `word` says how many, then
 * as they are. Of each commit that was not reachable and is now: its name, then the path of
 * each file that it adds or changes. "/missing": a ref names what is not there; "/replace": git
 * shows objects in place of others.
 * READER_TREE: `word` is a branch, or HEAD is looked at. The commit, then "MODE TYPE ID\tPATH" of
 * each file; nothing where there is no commit. */
typedef void reader_record_fn(void *arg, const char *record);
enum reader_said reader_repository(enum reader_kind kind, const char *git, const char *word,
				   int input, struct reader_asker *who, reader_record_fn *fn,
				   void *arg);
