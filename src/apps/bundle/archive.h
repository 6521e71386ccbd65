/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/archive.h - a bundle's archive, read as its manifest says and in no other way.
 *
 * The reader takes compressed bytes and gives files; it decides all there is to decide about them,
 * and touches no file system. brig-unpack is a process that does nothing else. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "apps/bundle/manifest.h"
#include "base/text/buf.h"
#include "base/text/err.h"

#define ARCHIVE_MAX ((uint64_t)128 << 20) /* compressed */
enum { ARCHIVE_RATIO_MAX = 200 };         /* beyond the first MiB of files */

/* Where it comes from and goes to. `get` gives at most n bytes, 0 at the end, or -errno. `begin`
 * names a file whose bytes follow, `add` some of them; 0 or -errno ends the reading. Any but get
 * may be NULL. */
struct archive_io {
	ssize_t (*get)(void *arg, void *p, size_t n);
	int (*begin)(void *arg, const char *place, mode_t mode);
	int (*add)(void *arg, const void *p, size_t n);
	int (*end)(void *arg);
	void *arg;
};

/* The text of the manifest goes to *manifest. Nothing that `begin` was told counts unless this
 * returns 0. */
int archive_read(const struct archive_io *io, struct buf *manifest, struct err *e);

/* In a process of its own (brig-unpack): reads the archive that is in fd from its beginning, and
 * makes its files beneath the folder, which is empty and the caller's alone; folder -1: looks only.
 * The text of the manifest as above. Waits for its end. */
int archive_unpack(int fd, int folder, struct buf *manifest, struct err *e);
