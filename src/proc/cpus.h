/* SPDX-License-Identifier: Apache-2.0 */
/* proc/cpus.h - is there a CPU for a second process?
 *
 * A new process queues behind its maker even where another CPU is idle. Where two are to work at
 * the same time, the maker moves the new one. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/* Is there a CPU that nobody needs, were there one more process? Then *all are those that we may
 * use, two at least. */
bool cpus_idle(cpu_set_t *all);

/* How many of ours have nothing to do now; 0: none, or it is not known. */
int cpus_spare(void);

/* To any of them but the one we are on. */
bool cpus_move(pid_t pid, const cpu_set_t *all);
