/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/mount.h - carries out the operations of a plan in the child's own mount namespace.
 *
 * Runs between clone and exec: no allocation. Every path is opened without following links and
 * every tree is attached by descriptor. Kernels without the mount calls of 5.12 get the same tree
 * through mount(2) on /proc/self/fd, with the attributes set in a second pass after the old root is
 * gone. */
#pragma once

#include "backend/kit/plan.h"

/* Builds the root, enters it and lets go of the old one. `prepared` are the idmapped trees. */
int mount_plan(const struct box_plan *p, const int *prepared, struct err *e);
