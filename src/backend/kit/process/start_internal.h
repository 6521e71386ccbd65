/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/start_internal.h - the parts of a start. */
#pragma once

#include "backend/kit/process/job.h"

/* enforce.c. Each limit goes to the best enforcer there is. A written one that finds none stops the
 * run. */
int enforce_limits(struct backend_job *j, struct box_start *c, struct err *e);
int enforce_cgroup(struct backend_job *j, struct box_start *c, const struct job_want *w,
		   struct err *e);

/* The kernel counts descriptors that are on their way through unix sockets per user, against the
 * sender's own limit of open files: a command whose limit is below everybody else's cannot keep the
 * user's other programs from sending. Only where nobody asked for a number. */
void enforce_files(const struct box_plan *p, struct rlimit_want *limits, size_t n);

/* What killed monitors have left, unless another run is just beginning. The command runs meanwhile.
 */
void enforce_sweep(struct backend_job *j);

/* start_hint.c: a command line in one word, or a command that exists on the host but is not shown
 * inside: how to run it. */
void start_hint(const char *const *argv, const char *set_path, struct err *e);

/* What a number of commands may add to the processes of a sandbox: brig's own are not counted. */
int enforce_room(struct backend_job *j, size_t commands, struct err *e);

/* clone.c: what the child cannot do for itself. */
int box_complete_child(struct backend_job *j, const struct box_start *c, struct err *e);

/* clone.c: in the new process, the word to go on, with up to *n descriptors. */
int box_wait_with(const struct box_start *c, int *fds, size_t *n, struct err *e);
