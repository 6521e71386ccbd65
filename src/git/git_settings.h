/* SPDX-License-Identifier: Apache-2.0 */
/* git/git_settings.h - the caller's own git settings that may be known inside.
 *
 * Name, e-mail and a short list of habits are copied from the files that git would read for the
 * caller; nothing that names a program, a file, an address or a secret is on the list, but for Git
 * LFS in its own words. Of every other filter git is told that it is required: it refuses a file
 * that it would otherwise take in unfiltered. Where a condition of an include cannot be decided
 * without git, no name and no e-mail is given rather than a wrong one. No file that the command
 * could write is read. */
#pragma once

#include <stdbool.h>

#include "base/text/arena.h"

struct git_files {
	const char *home;      /* NULL: none */
	const char *config;    /* XDG_CONFIG_HOME; NULL: ~/.config */
	const char *global;    /* GIT_CONFIG_GLOBAL: instead of the caller's files; NULL: not set */
	const char *system;    /* GIT_CONFIG_SYSTEM, /etc/gitconfig; NULL: not read */
	const char *git_dir;   /* of the workspace, for `includeIf "gitdir:..."`; NULL: not known */
	const char *workspace; /* what lies below is the command's and not read; may be NULL */
	const char *own;       /* of the repository, for git_identity alone; NULL: not read */
	bool signing; /* there is an ssh-agent: also how to sign, with the key in place of its file
		       */
};

/* Where git would look for the caller: by HOME and git's own variables. */
struct git_files git_files_of_caller(void);

/* What was left out. */
struct git_left {
	bool undecided; /* the identity, for an include */
	bool signing;   /* of commits, which the caller asks for */
};

/* The text of a configuration file, "" when nothing applies; NULL when the arena is full. */
const char *git_settings_text(struct arena *a, const struct git_files *f, struct git_left *left);

enum git_who {
	GIT_AUTHOR_NAME,
	GIT_AUTHOR_EMAIL,
	GIT_COMMITTER_NAME,
	GIT_COMMITTER_EMAIL,
	GIT_WHO_COUNT
};
extern const char *const git_who_names[GIT_WHO_COUNT]; /* the variables of these names */

/* Who writes and who commits, as git would find it: by the caller's variables, else by the files,
 * `own` last; NULL where nothing says. None at all where an include cannot be decided, or `own` has
 * one. */
void git_identity(struct arena *a, const struct git_files *f, const char *ret[GIT_WHO_COUNT]);

/* Whether git's pattern matches that folder: 1, 0, or -ENOTSUP for one with brackets or escapes. */
int git_dir_matches(const char *pattern, const char *path, bool nocase);
