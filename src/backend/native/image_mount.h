/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/image_mount.h - a root made of an image's layers.
 *
 * What brig puts there (files, places of mounts) is a layer of its own above all of the image's: a
 * folder of the tmpfs that the root is made on, which has no path inside. So no name that the
 * image's author chose is ever on the way to a mount. Called in the child: no allocation. */
#pragma once

#include "backend/native/mount_builder.h"

/* Makes the new root a folder of the tmpfs at b->root, and b->own another. */
int image_own(struct builder *b, struct err *e);
/* Fills that, mounts an overlay of it and the layers, and shows what is at its top, but for the
 * folders that are brig's own as a whole. */
int image_mount(struct builder *b, const struct op *o, struct err *e);
/* A private folder of the plan's, where the image is. */
int image_private(struct builder *b, const struct op *o, struct err *e);
