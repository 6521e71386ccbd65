/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/git_request.h - what a request over HTTP is to git: a fetch, a push or neither.
 * Pure.
 *
 * Twice, for two questions. `use` is what git itself sends and nothing else, for a rule that lets
 * fetches or pushes through. `receives` and `writes` are whatever some server might take for a
 * push, in any spelling, for rules that refuse them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "egress/rules/host.h"

enum git_use { GIT_USE_NONE, GIT_USE_FETCH, GIT_USE_PUSH };

struct git_request {
	enum git_use use;
	size_t repo;   /* of use: how much of the path is the repository's, without ".git" */
	bool receives; /* names git-receive-pack */
	bool writes;   /* that, Git LFS, or a write by WebDAV, which the old protocol pushes with */
};

/* The path as path_normalise gave it, the target as it was sent. */
void git_request_read(struct egress_text method, const char *path, struct egress_text target,
		      struct git_request *ret);

/* Is it that repository (a prefix, where it ends in '/'; NULL: any)? */
bool git_repo_is(const char *path, size_t repo, const char *rule);
/* Is the path that repository's, or below it, in letters of any case? */
bool git_repo_covers(const char *path, const char *rule);
