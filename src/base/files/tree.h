/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/tree.h - a tree of files that somebody hostile may have made: how large it is, and its
 * end.
 *
 * By descriptor, from folder to folder: no link is followed, nothing but folders is opened, no
 * other file system and nothing that is mounted there is entered. What the tree's maker closed to
 * its owner is opened again where that is needed to look. The work is bounded: by `most` for a
 * look, by the number of names for an end. */
#pragma once

#include <stdint.h>

enum {
	TREE_DEPTH = 200,  /* folders in one another; deeper ones are no program's */
	TREE_LEAST = 4096, /* bytes that a name counts for, whatever is behind it */
};

/* Bytes on disk below the folder, as far as they are no more than `most`: then *ret is larger, and
 * nothing else is known. A file with several names counts once. 0 or -errno (-ELOOP: deeper than
 * TREE_DEPTH). */
int tree_size(int fd, uint64_t most, uint64_t *ret);

/* Removes a folder and all that is in it; nobody else may be changing it. Whatever cannot be
 * removed stays, with the folders around it, and nothing else does: the first -errno then, or 0. */
int tree_remove(int parent, const char *name);
