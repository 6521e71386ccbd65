/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/draft.h - a file that has its name only once it is whole.
 *
 * It is written under another name in the same folder and renamed. Safe between clone and exec. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/text/buf.h"

struct draft {
	int folder; /* borrowed, may be O_PATH; -1: nothing is open */
	int fd;
	char name[32];
};

int draft_open(int folder, struct draft *ret); /* 0 or -errno */
/* Gives it this mode and name, replacing what is no folder; 0 or -errno. It is closed either way,
 * and removed if it could not be named. */
int draft_keep(struct draft *d, const char *name, mode_t mode);
/* The same, but replaces nothing: -EEXIST where something has that name, be it a dangling link. */
int draft_keep_new(struct draft *d, const char *name, mode_t mode);
/* All of it at once; `sync`: it is on the disk before it has the name. -ENOMEM: the text failed. */
int draft_write(int folder, const char *name, const struct buf *text, mode_t mode, bool sync);
void draft_drop(struct draft *d); /* takes one that is closed */
