/* SPDX-License-Identifier: Apache-2.0 */
/* far/spool.h - the folder by which the tasks of a job array are asked and answer
 * (docs/design/slurm.md).
 *
 * It is this user's alone (0700), on a file system that the nodes share, below brig's own state,
 * which no sandbox is ever shown. Of task N there are N.ask, frames to the node, written before
 * anything is submitted, and N.out, frames from it. */
#pragma once

#include <stddef.h>

enum { FAR_SPOOL_NAME = 24 };
/* And the run's id: in the folder above, what a single run is asked by; see brig-far. */
#define FAR_SPOOL_ASK "ask-"

/* Opens one that is there; another user's, or one that others may look into, is refused. A
 * descriptor or -errno. */
int far_spool_open(const char *path);
/* Opens a file of it for reading: regular, ours, and readable by us alone. A descriptor or -errno.
 */
int far_spool_read(int spool, const char *name);
void far_spool_name(char out[FAR_SPOOL_NAME], unsigned long long task, const char *kind);
