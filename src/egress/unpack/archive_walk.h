/* SPDX-License-Identifier: Apache-2.0 */
/* egress/unpack/archive_walk.h - walks through an archive as it comes, member by member.
 *
 * Nothing is sought: zip is read by its local heads, and its directory at the end has to agree with
 * them. What is between members is nobody's. A walker never trusts a size: what it is told to skip
 * it only counts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/unpack/codec.h"

/* What a walker found. `packed`: what follows is not in the archive as it is. 0 or -errno, which
 * ends the walk. */
struct members_ops {
	int (*begins)(void *arg, bool packed);
	int (*data)(void *arg, const char *p, size_t n);
	int (*ends)(void *arg);
	void (*unreadable)(void *arg, enum unreadable why); /* one of them, or part of it */
	/* Between two steps of work: -errno, it is too much. */
	int (*paced)(void *arg);
};

/* Takes n bytes. *over: the archive has ended, and *left bytes are behind it. 0 or -errno;
 * -EBADMSG: this is no such archive. */
struct zip_walk;
struct zip_walk *zip_walk_new(struct codec_pool *pool, const struct members_ops *ops, void *arg);
struct zip_walk *zip_walk_free(struct zip_walk *z);
int zip_walk_feed(struct zip_walk *z, const char *p, size_t n, bool *over, size_t *left);
bool zip_walk_whole(const struct zip_walk *z); /* may it end here? */

struct tar_walk;
struct tar_walk *tar_walk_new(struct codec_pool *pool, const struct members_ops *ops, void *arg);
struct tar_walk *tar_walk_free(struct tar_walk *t);
int tar_walk_feed(struct tar_walk *t, const char *p, size_t n, bool *over, size_t *left);
bool tar_walk_whole(const struct tar_walk *t);
