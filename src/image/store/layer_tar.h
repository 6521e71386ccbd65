/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/layer_tar.h - the archive of an image's layer becomes a folder that an overlay takes.
 *
 * Whoever wrote the archive is hostile. Each name is walked from the folder on, component by
 * component, without following a link; a hard link leads to what this archive has made before. Of
 * an entry there stay its kind, its permissions without set-id bits (the owner can always read, and
 * enter) and the time of a file. No attribute of the archive is kept: none can be a mark of an
 * overlay, a capability or an ACL. A whiteout becomes a device 0:0, a folder that replaces another
 * gets the mark for that. Devices and pipes are left out. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text/err.h"

enum { LAYER_TAR_NAMES = 2000000, LAYER_TAR_DEPTH = 128 };
#define LAYER_TAR_BYTES ((uint64_t)32 << 30)

/* All n bytes, less only at the end; or -errno. */
typedef ssize_t layer_get_fn(void *arg, void *p, size_t n);

struct unpack_tally {
	uint64_t bytes, names; /* of files; of all that was made */
	uint64_t left_out;     /* devices and pipes */
	uint64_t dropped;      /* files that had a set-id bit, or a capability */
};

struct layer_tar_limits {
	uint64_t bytes, names;
};

/* `folder` is empty, open for reading and nobody else's. On an error what was made there is
 * nothing's; the error names the entry. Reads to the archive's end, not behind it. */
int layer_tar_unpack(int folder, const struct layer_tar_limits *l, layer_get_fn *get, void *arg,
		     struct unpack_tally *ret, struct err *e);
