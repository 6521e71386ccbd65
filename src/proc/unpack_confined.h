/* SPDX-License-Identifier: Apache-2.0 */
/* proc/unpack_confined.h - makes files of a stranger's archive, in a confined process. */
#pragma once

#include <stddef.h>

#include "base/tar/tar.h"

/* In a child of its own: reads an archive from `from` into the folder, under CONFINE_UNPACKER
 * (proc/confine.h); of descriptors only those two stay. It reads to the end,
 * unless it fails: then nobody shall wait for the rest. 0 or -errno. */
int unpack_confined(int folder, int from, struct tar_limits *l);
