/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/placeholder.h - what holds a protected name for as long as a run lasts.
 *
 * It is the node of a socket that nobody listens at, of mode 0, made in its place by one call. Of
 * all that a name can stand for this gives others the least: nobody can open it, root included, so
 * that no descriptor outlives the run it was made for; nothing can be put into it; it has no owner
 * to be set afterwards, by a name that may mean something else by then. git neither lists nor adds
 * it. Where there can be no such nodes it is an empty folder, which git does not see either.
 *
 * Each is made new and removed for good. Those of one run may be names of one node: to make a node
 * costs more than all else about it, and a name more tells nobody anything. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

/* Puts one at `name` in `dir`; 0 or -errno (-EEXIST: something is there). `node`: as above, if the
 * file system can. `file`: a file will be mounted on it, so that it is never a folder. */
int placeholder_put(int dir, const char *name, bool node, bool file);

/* The node that was just put there, by its descriptor; -1: it is something else by now, or a
 * folder.
 */
int placeholder_node(int dir, const char *name);

/* Puts a further name of that node; 0 or -errno. Where this cannot be done, a node of its own can.
 */
int placeholder_link(int node, int dir, const char *name);

/* Is it a node (O_PATH will do) that the command may see as a file? git goes by the kind that the
 * folder above lists, and leaves a socket alone; where a file system lists none, git would add the
 * file. */
bool placeholder_reads(int fd);
/* What that file at `path` says, for it is read by whatever walks through the tree: nothing, but
 * for a name that is JSON. It is mounted over the node, read-only. */
const char *placeholder_text(const char *path);

/* Is what lies at `path` of the tree, of which `st` tells, no more than a copy of one: a file with
 * one name that says what it says, or an empty folder? */
bool placeholder_copied(int tree, const char *path, const struct stat *st);

bool placeholder_is(int dir, const char *name); /* still there, still empty */

/* Takes it away again; false when it is something else by now, or cannot be removed. */
bool placeholder_take(int dir, const char *name);
