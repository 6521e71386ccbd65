/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/mount.h - carries out the operations of a plan in the child's own mount namespace.
 *
 * Runs between clone and exec: no allocation. No link is followed to a place where something is
 * attached, and what is attached is compared with the plan. Outside the fixed tree kernels without
 * the mount calls of 5.12 get the same through mount(2) on /proc/self/fd; all attributes are then
 * set in a second pass after the old root is gone. */
#pragma once

#include "backend/kit/process/job.h"

/* Can operations come while others are carried out? Not where attributes are set in a second pass.
 */
bool mount_can_wait(void);

/* Builds the root, enters it and detaches the old one. Waits for protected names to be held. */
int mount_plan(const struct box_start *c, struct err *e);

/* inside_lock; then /proc is read-only, but for init by *procs (selfwrite.h). */
int mount_lock(int *procs, struct err *e);
