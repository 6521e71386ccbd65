/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/reach.h - folders of a tree that a command may have closed to their owner. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The next longer beginning of a path that ends with a name; *n is 0 at first. false: that was all.
 */
static inline bool path_grow(const char *path, size_t *n, char out[PATH_MAX])
{
	bool more = path[*n];

	*n += *n && more;
	*n += strcspn(path + *n, "/");
	(void)snprintf(out, PATH_MAX, "%.*s", (int)*n, path);
	return more;
}

/* A folder below the tree, opened even if the command has closed it to its owner; -errno. */
int reach_open(int tree, const char *path);
void reach_reopen(int tree, const char *path); /* to its owner, with all folders on the way */
