/* SPDX-License-Identifier: Apache-2.0 */
/* far/node/node.h - brig-far: one run on this machine for a brig on another one
 * (docs/design/slurm.md).
 *
 * It speaks in frames (proc/node/node_frame.h) on its input and output, and ends with its run.
 * Whoever asked is believed as far as the user is, whose process both are: the settings are that
 * user's. */
#pragma once

#include <stddef.h>

/* Serves on standard input and output. `ask`, unless NULL, is a file that may have what comes there
 * first: it is taken from there, and removed, if it is this user's alone. Returns the exit status.
 */
int node_serve(const char *ask);
/* A task of a job array: what to run is in a folder (far/spool.h), and so is what is
 * said. Nobody is on the other end: it goes on until its run is over, or Slurm sends a signal.
 * Returns the exit status. */
int node_task(const char *spool);
/* One line: which file is this path here? */
void node_where(const char *path, char *out, size_t room);
/* One line: does a native sandbox work here? */
void node_probe(char *out, size_t room);
