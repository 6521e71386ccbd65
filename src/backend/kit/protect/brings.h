/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/brings.h - what a branch brings that no command may make as a file.
 *
 * Compared with the repository's own work tree, in which runs cannot make such names: what is there
 * in the same words is the user's, whoever has moved which ref. */
#pragma once

#include <stdbool.h>

#include "base/text/buf.h"

struct branch_names {
	char commit[72];  /* of the branch, or HEAD where there is none; "": nothing is committed */
	struct buf names; /* NUL after each */
	unsigned long more;
};

#define BRANCH_NAMES_NONE                                                                          \
	{                                                                                          \
		.names = BUF_INIT((size_t)64 << 10)                                                \
	}

/* `top` is the work tree of a repository whose git folder is in it. Blocks for as long as git takes
 * in its sandbox. false: it could not be asked. */
bool branch_brings(const char *top, const char *branch, struct branch_names *ret);
