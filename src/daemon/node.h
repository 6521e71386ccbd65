/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/node.h - brig-node: one run on this machine for a brig on another one
 * (docs/design/slurm.md).
 *
 * It speaks in frames (proc/node_frame.h) on its input and output, and ends with its run. Whoever
 * asked is believed as far as the user is, whose process both are: the settings are that user's. */
#pragma once

#include "base/err.h"

/* Serves on standard input and output. With a spool, frames come from the file NAME.in there and go
 * to NAME.out, which is there once it is whole; a NAME that somebody else has begun is left alone.
 * Returns the exit status. */
int node_serve(const char *spool, const char *name);
/* One line: does a native sandbox work here? */
int node_probe(void);
