/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/pointer.h - a `.git` that is no folder: a line, or a link, that leads to one.
 *
 * What it leads to changes without it, when a folder on its way is made a link. So the record has
 * the goal as well, as a thing called PATH and a slash, and it is compared by identity. */
#pragma once

#include "backend/kit/survey/git_record.h"

#define POINTER_MAX 4096

/* The line of a `.git` file, as git reads it: "gitdir: GOAL". false: it is none. */
bool pointer_read(int tree, const char *path, char out[POINTER_MAX]);
/* What a text in `folder` of the tree leads to, without a single link; O_PATH or -errno. Without
 * links it leads where its letters say. */
int pointer_open(int tree, const char *folder, const char *text);
/* Adds it, and what it leads to now. */
void pointer_put(struct buf *text, int tree, const char *path, const struct stat *st);

enum pointer_leads {
	POINTER_AS_BEFORE, /* to the goal that the list has */
	POINTER_ELSEWHERE,
	POINTER_NOWHERE, /* that is there now */
};

enum pointer_leads pointer_leads(const struct known_list *l, int tree, const char *path);
