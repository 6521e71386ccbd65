/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/child.h - the process inside, from clone to where kit/process/inside.h takes over.
 *
 * Between clone and exec nothing is allocated and nothing is decided: all of it is in the plan. */
#pragma once

#include "backend/kit/process/job.h"

_Noreturn void child_main(const struct box_start *c);
