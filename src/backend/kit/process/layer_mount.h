/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/layer_mount.h - the workspace, seen through a layer that takes what is
 * written. */
#pragma once

#include "base/text/err.h"

/* Mounts an overlay over the tree at `target`, with the folders `upper` and `work` of `layer` (both
 * descriptors on mounts of this namespace). By descriptors; where the kernel takes none for layers,
 * by their names in /proc, never by a path. Called in the child: no allocation. */
int layer_mount(int target, int layer, struct err *e);
