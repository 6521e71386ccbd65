/* SPDX-License-Identifier: Apache-2.0 */
/* far/node/node.h - brig-far on a node of Slurm: one run, for the brig that submitted it
 * (docs/design/slurm.md). far/serve/far_serve.h has the run; here is what Slurm gives and takes. */
#pragma once

#include <stddef.h>

/* Serves on standard input and output. `ask`, unless NULL, is a file that has the request as well:
 * it is taken from there, and removed, if it is this user's alone. Returns the exit status. */
int node_serve(const char *ask);
/* A task of a job array: the request is in a folder (far/spool.h), and the answers go there. It
 * goes on until its run is over, or Slurm sends a signal. Returns the exit status. */
int node_task(const char *spool);
/* One line: which file is this path here? */
void node_where(const char *path, char *out, size_t room);
/* One line: does a native sandbox work here? */
void node_probe(char *out, size_t room);
