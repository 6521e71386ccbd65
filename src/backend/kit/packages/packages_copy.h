/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/packages/packages_copy.h - the copy while it is made, for packages_make.c and
 * packages_sys.c. */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "backend/kit/packages/shipped.h"
#include "base/text/buf.h"

enum { FILES_MAX = 8192 };

struct copier {
	struct shipped shipped;
	struct buf list, seen;
	struct buf file; /* the one that is looked at */
	int tree;        /* the copy */
	size_t files, bytes, entries;
	const char *top;       /* the entry that the last file was in; NULL: none yet */
	struct buf packages;   /* of it */
	char folder[PATH_MAX]; /* the one looked at last */
	bool folder_fine;
};

/* What m->file holds, under this path in the copy. 0 or -errno. */
int packages_write(struct copier *m, const char *path, const struct stat *st);

/* A folder of the machine's, to be looked through; -1: there is none. */
int packages_open(const char *path);

/* packages_sys.c: what programs ask of CPUs and memory. 0 or -errno. */
int packages_sys(struct copier *m);
