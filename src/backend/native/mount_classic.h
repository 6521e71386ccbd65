/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/mount_classic.h - mount attributes on kernels without mount_setattr (before 5.12).
 */
#pragma once

#include <sys/mount.h>

#include "backend/kit/plan/plan.h"

#define PROC_FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

/* After the pivot: gives every mount, nested ones included, the attributes of the operation it came
 * from. Called in the child; needs the new /proc. */
int mount_attributes(const struct box_plan *p, struct err *e);
