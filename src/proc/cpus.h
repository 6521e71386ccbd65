/* SPDX-License-Identifier: Apache-2.0 */
/* proc/cpus.h - is there a CPU for a second process?
 *
 * A new process queues behind its maker even where another CPU is idle. Where two are to work at
 * the same time, the maker moves the new one. */
#pragma once

#include <sched.h>
#include <stdbool.h>

/* Are there no more processes that could run, with `more` that are yet to come, than CPUs? Then
 * *all are those that we may use and *others all but the one we are on; it is not empty. */
bool cpus_idle(int more, cpu_set_t *all, cpu_set_t *others);
