/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/output.h - a file that the user has named for brig to write.
 *
 * It is made anew, beside, and takes the name when it is whole. A pipe, a device or a link that has
 * the name is opened as it is, unless a guest may have put it there (base/files/exposed.h): then it
 * is replaced, and a link on the way is a refusal. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "base/files/draft.h"
#include "base/text/err.h"

struct output {
	int fd; /* to be written to */
	int folder;
	struct draft draft; /* with `folder`: what becomes of it */
	char name[NAME_MAX + 1];
	mode_t mode;
};

/* `mode` is that of a new file, without what umask takes away. On an error nothing is open. */
int output_open(const char *path, mode_t mode, struct output *ret, struct err *e);
/* Closes it; it has its name from now on, unless it was refused: then it is gone. */
int output_keep(struct output *o, struct err *e);
/* Closes it; of what was made anew nothing stays. Takes one that is closed. */
void output_drop(struct output *o);
