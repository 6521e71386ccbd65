/* SPDX-License-Identifier: Apache-2.0 */
/* base/sys/signals.h - signals that a program reads, and is not interrupted by. */
#pragma once

#include <signal.h>
#include <stdint.h>

/* What asks a program to end. */
#define SIGNALS_END ((const int[]){ SIGINT, SIGTERM, SIGHUP, 0 })

/* Blocks those up to the 0 at the end of the list, and returns a signalfd that has them and is read
 * without waiting; -1 with errno. */
int signals_open(const int *which);

/* Who writes to a reader that is gone gets EPIPE. */
void signals_ignore_pipe(void);

/* The same for a while in a process that is somebody else's, with its handlers as they are: what
 * was blocked before comes back. */
void signals_hold_pipe(sigset_t *before);
void signals_release_pipe(const sigset_t *before);

/* The kernel kills this process then, whatever it waits for: a resolver knows no deadline. */
void signals_kill_after(uint64_t ms);
