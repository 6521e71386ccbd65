/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/job.h - a running native sandbox, seen from its monitor. Shared by job.c and
 * start.c. */
#pragma once

#include "backend/backend.h"
#include "backend/kit/cgroup.h"
#include "backend/native/child.h"
#include "backend/kit/disk.h"
#include "backend/kit/ids.h"
#include "backend/kit/protect.h"

/* The plan of a native run is the world alone. */
struct backend_plan {
	struct box_plan *box;
};

struct backend_job {
	struct box_plan *plan; /* borrowed */
	char id[33];
	pid_t pid;
	int pidfd, control;
	int events; /* epoll over pidfd, control, mounts, oom and the watch's timer */
	int timer;  /* ticks of the watch */
	int given[INIT_FD_COUNT];
	struct cgroup *cgroup;
	int cgroup_lock; /* held until the child is in its leaf */
	struct ids *ids;
	struct protect *protect;
	struct isolation isolation;
	int door[DOOR_SOCKETS_MAX]; /* until the conductor has them */
	size_t door_count;
	struct disk disk;
	bool watch_memory, watch_pids, watch_disk;

	bool exited; /* the command ended by itself; status holds how */
	int status;
	bool killed_memory, killed_pids, killed_disk, cover_lost, tampered;
};

/* plan of a run, in job.c */
int native_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
		struct err *e);
struct backend_plan *native_plan_free(struct backend_plan *p); /* takes NULL */
DEFINE_CLEANUP(native_plan, struct backend_plan *, native_plan_free)

/* start.c */
int native_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		 struct backend_job **ret, struct err *e);
void job_reap(struct backend_job *j); /* kills and waits: afterwards no process is left */
struct backend_job *job_free(
	struct backend_job *j); /* ends what lives, closes, removes; takes NULL */
DEFINE_CLEANUP(job, struct backend_job *, job_free)

/* probe.c: what a failed clone or set-up means on this machine; adds the hint. */
int native_explain(struct err *e);
int native_probe(struct isolation *ret, struct err *e);
