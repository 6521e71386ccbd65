/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/packages/packages_make.h - make the copy of what packages ship; of packages.c alone.
 */
#pragma once

#include <stdbool.h>

#include "backend/kit/packages/shipped.h"
#include "base/text/buf.h"

#define DPKG_STATUS "/var/lib/dpkg/status"
#define UCF_SUMS "/var/lib/ucf/hashfile"
#define UCF_REGISTRY "/var/lib/ucf/registry"

/* The most that a copy's list and its `seen` hold: all that is written is read again. */
#define PACKAGES_LIST ((size_t)1 << 20)
#define PACKAGES_SEEN ((size_t)4 << 20)
enum { PACKAGES_ENTRIES = 4096 };

/* What rpm says of its packages is added. Blocks, for at most twenty seconds. 0, or -errno where it
 * could not be asked or did not answer in full. */
int packages_rpm(struct shipped *s);

/* In the open folder, which the caller has locked. Removes copies that were made long ago. 0 or
 * -errno. */
int packages_make(int folder, const char *version, const char *stamp);

bool packages_live(const char *path); /* is it one of the trees that are shown as they are? */

/* A line about the file: packages.c compares it later. */
void packages_seen(struct buf *seen, const char *path);
