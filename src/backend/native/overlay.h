/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/overlay.h - a private, size-limited writable layer over a read-only tree. */
#pragma once

#include "base/text/err.h"

/* Puts a layer over the tree at `target` (a descriptor on it). `layer` is a folder of a private
 * tmpfs that takes what is written, `name` is used once per layer. Only folders near the top are
 * opened for writing: the user inside owns none of the host's, so each needs a copy of its own in
 * the layer. Called in the child: no allocation. */
int overlay_mount(int target, int layer, const char *name, struct err *e);
