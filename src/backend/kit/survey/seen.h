/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/seen.h - folders in which there was nothing but folders and files that nobody
 * looks for, for the next walk of the same process.
 *
 * A folder's ctime changes with every name that comes or goes in it, and no program can set it. So
 * one with the stamp of its listing has the names of its listing. Two changes within one tick of
 * the kernel's clock have one stamp: a stamp is believed only if that clock had passed it when the
 * folder was listed. Only of file systems that are known to keep such stamps. */
#pragma once

#include "base/files/fd.h"
#include "base/text/buf.h"

struct seen_folders;

struct seen_folders *seen_new(
	int tree); /* NULL: the file system is none of those, or there is no memory */
struct seen_folders *seen_free(struct seen_folders *s);

/* From one run to the next, through a file that is brig's own. Which names count is part of it, so
 * that another brig starts anew; what does not fit in any other way is as good as empty. */
void seen_load(struct seen_folders *s, int fd);
int seen_store(struct seen_folders *s, int fd); /* 0 or -errno */
bool seen_is_new(const struct seen_folders *s); /* not what was loaded; `s` may be NULL */

/* Of these `s` may be NULL. */
void seen_begin(struct seen_folders *s);  /* a walk: what is younger than now is not believed */
void seen_freeze(struct seen_folders *s); /* nothing more is put: there is no next walk */
/* Is it worth a look at its stamp? */
bool seen_has(const struct seen_folders *s, const char *path, bool git);
/* Is there room for what a listing finds? */
bool seen_wants(const struct seen_folders *s);
/* `git`: inside of a git folder, where other names count. `names`: what a walk goes on with, NUL
 * after each; of the last walk that put it. `st` is older than the listing. */
void seen_put(struct seen_folders *s, const char *path, bool git, const struct stat *st,
	      const struct buf *names);
/* NULL: not known, or not as it was. Ends with an empty name; borrowed until the next put. */
const char *seen_names(const struct seen_folders *s, const char *path, bool git,
		       const struct stat *st);
