/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/commits.h - what no command may make as a file, carried as a commit.
 *
 * Whatever a ref says is checked out one day: by the user, or by brig. */
#pragma once

#include "backend/kit/protect/git_reader.h"
#include "model/outcome.h"

/* The bytes of all refs of a git folder, read without looking at what they say. */
struct refs {
	struct buf names; /* of the files that were read, each with its size, NUL after each */
	struct buf text;
};

#define REFS_NONE                                                                                  \
	{                                                                                          \
		.names = BUF_INIT((size_t)1 << 20), .text = BUF_INIT((size_t)16 << 20)             \
	}

/* `git` is open, and may be O_PATH. false: there are more than brig looks at, or not in that way.
 */
bool refs_read(int git, struct refs *ret);
bool refs_same(const struct refs *a, const struct refs *b);
void refs_done(struct refs *r);

/* Tells the forbidden names that commits between the two bring, with the commit that does. `git` is
 * a path of the host's, `name` what it is called in the report. */
void commits_tell(const char *git, const char *name, const struct refs *was, const struct refs *is,
		  struct reader_asker *who, struct outcome *o);
