/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/gitindex.h - which submodules does an index of git's name?
 *
 * Read strictly and as it comes, in bounded memory: whoever wrote it may be hostile. */
#pragma once

/* Calls `found` for each, until it returns something other than 0, which is the result. `git` is
 * the repository's folder below `tree`. 0 when there is no index; -EBADMSG for one that is not as
 * git writes it. */
int gitindex_links(int tree, const char *git, int (*found)(void *arg, const char *path), void *arg);
