/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker_start.h - starts brig-egress, which reads what comes from inside, with nothing of
 * the caller's but the descriptors it is given. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/text/err.h"

enum { WORKER_FDS_MAX = 4 };

#define WORKER_PROGRAM "brig-egress"

/* A variable: an address that is this machine's as well, where it has no device with it here. */
#define WORKER_OWN_ADDRESS "BRIG_NODE_ADDRESS"

/* Words for the door of a run: it makes one authority more for a later run; it has one already, as
 * its fourth descriptor, and makes another. */
#define WORKER_MAKES_AHEAD "ahead"
#define WORKER_HAS_AUTHORITY "prepared"

/* The descriptors are 3, 4 and so on in it, and stay the caller's. `word` is its one argument, or
 * NULL. It dies with us; *pidfd is the caller's to close, *pid to wait for. */
int worker_start(const char *word, const int *fds, size_t n, pid_t *pid, int *pidfd, struct err *e);
/* The same of a program that the caller has found, in a place where no guest writes. */
int worker_start_at(const char *program, const char *word, const int *fds, size_t n, pid_t *pid,
		    int *pidfd, struct err *e);

/* Sees to it that it ends; whoever started it stops it in the end. */
void worker_kill(pid_t pid, int pidfd);
/* Kills and reaps it, and closes pidfd. Nothing if pid is not positive. */
void worker_stop(pid_t pid, int pidfd);
