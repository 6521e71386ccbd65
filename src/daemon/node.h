/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/node.h - brig-node: one run on this machine for a brig on another one
 * (docs/design/slurm.md).
 *
 * It speaks in frames (proc/node_frame.h) on its input and output, and ends with its run. Whoever
 * asked is believed as far as the user is, whose process both are: the settings are that user's. */
#pragma once

#include <stddef.h>

/* Serves on standard input and output. Returns the exit status. */
int node_serve(void);
/* One line: does a native sandbox work here? */
void node_probe(char *out, size_t room);
