/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/mounts.h - the mounts of this process, and what a path is on its file system.
 *
 * The same folder has many paths: links lead to it, and binds show it, or a part of it, elsewhere.
 * On its own file system it has one. Guards compare that. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/text/arena.h"
#include "base/text/err.h"

struct mount {
	unsigned id;
	dev_t dev;         /* of the file system */
	const char *root;  /* what of it is shown */
	const char *point; /* where */
	const char *type;
	bool kernel;    /* of the host's kernel (kernelfs.h) */
	bool read_only; /* the mount, whatever its file system is */
};

struct mounts {
	struct mount *v;
	size_t n;
};

/* A file or folder by the path that it has on its file system. */
struct where {
	dev_t dev;
	const char *path;
	const char *real; /* the path here, without links */
	bool missing;     /* not all of it is there (mounts_find) */
};

/* In place: mountinfo writes blank, tab, newline and backslash as three octal digits. */
void mounts_unescape(char *s);

/* The text of a mountinfo, which is cut up and borrowed; -errno when it is none. */
int mounts_parse(struct arena *a, char *text, struct mounts *ret);
int mounts_read(struct arena *a, struct mounts *ret, struct err *e);

/* What fd opens (O_PATH will do). 0 or -errno: -ENOENT also for what has no path here. */
int mounts_where(const struct mounts *m, struct arena *a, int fd, struct where *ret);
/* The same for a path without links, from the list alone: no file is looked at. */
int mounts_where_text(const struct mounts *m, struct arena *a, const char *path, struct where *ret);
/* The same for a path whose links are followed; what is missing at its end is taken as written. */
int mounts_find(const struct mounts *m, struct arena *a, const char *path, struct where *ret);
