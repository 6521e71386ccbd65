/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/use.h - brig-use: what sandboxes use now, by one look at /proc.
 *
 * A program started for one call (errand.h), so that the daemon does not look through /proc. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define USE_NAME "brig-use"

/* argv: NAME=PID[,PID@START...] each: the process that owns the sandbox, or with its START the
 * first one of a container, which is below no process of ours. Writes one JSON object. */
int use_main(int argc, char **argv);

/* "PID@START": that process and no other that gets its number later. false: there is none. */
enum { USE_FIRST_SIZE = 40, USE_TOPS = 17 /* of one sandbox: it and its companions */ };
bool use_first(pid_t pid, char ret[USE_FIRST_SIZE]);
