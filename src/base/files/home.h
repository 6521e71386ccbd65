/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/home.h - which folders are somebody's home: by identity, not by how they are written.
 *
 * A home is what HOME says and what the line of /etc/passwd says. The file is read as it is,
 * without the name services of libc: brig is static, and asks nobody over the network who the
 * caller is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum home_kind {
	HOME_APART,
	HOME_ITSELF,
	HOME_CONTAINS, /* it lies below */
};

/* The home folder in the line of that user; 0 or -errno. */
int home_listed(uid_t uid, char *path, size_t n);

/* The same in a given text of that file. */
int home_find(const char *text, uid_t uid, char *path, size_t n);

/* What the folder at path is to the caller's home; `home` is the caller's word, and may be NULL.
 * What cannot be looked at is HOME_APART: a folder that is not there, or that the caller cannot
 * reach, is no workspace. */
enum home_kind home_kind(const char *path, const char *home);
