/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/users.h - who an image's commands are: a number, from its configuration and its own
 * /etc/passwd. */
#pragma once

#include "base/text/arena.h"
#include "base/text/err.h"
#include "image/store/image_record.h"

enum { USERS_TEXT_MAX = 64 << 10 };

struct users_found {
	bool has_user;
	uint32_t uid, gid;
	char passwd[USERS_TEXT_MAX], group[USERS_TEXT_MAX];
};

/* Pure. `user` is NAME, UID, NAME:GROUP or UID:GID; passwd and group, which have been cut down to
 * lines that make sense, are those of *f. */
void users_find(const char *user, struct users_found *f);
/* Leaves only lines of so many fields that begin with a name and have no control characters; none
 * of root. In place. */
void users_clean(char *text, unsigned fields);

/* Fills user and texts of the record from its layers, `trees`, the lowest first: in a process that
 * can only read them. */
int users_of(const int *trees, size_t n, struct arena *a, struct image_record *r, struct err *e);
