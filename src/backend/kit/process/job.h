/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/job.h - a running sandbox that has brig's own init inside, seen from its
 * monitor.
 *
 * native and bwrap differ in how the process inside comes to be (struct box_kind); limits, streams,
 * events and the judgement of the end are the same. */
#pragma once

#include <limits.h>
#include <sched.h>

#include "backend/backend.h"
#include "backend/kit/learn/opens.h"
#include "backend/kit/limits/cgroup.h"
#include "backend/kit/limits/disk.h"
#include "backend/kit/limits/memfds.h"
#include "backend/kit/limits/sockmem.h"
#include "backend/kit/plan/ids.h"
#include "backend/kit/process/command_table.h"
#include "backend/kit/process/inside.h"
#include "backend/kit/process/told.h"
#include "backend/kit/protect/protect.h"

/* What the new process finds in its copy of our memory. */
struct box_start {
	const struct box_plan *plan;
	struct inside inside;
	const struct cgroup *cgroup; /* to be joined; NULL: none */
	bool wait_go;                /* the parent maps ids, or attaches the cgroup, first */
	bool attach;                 /* clone could not place the child in the v2 leaf */
	bool join_late;              /* the v1 leaves come with the word to go on */
	int prepared[PREPARED_MAX];  /* idmapped trees; -1: they come while it is at work */
	bool late;                   /* what the child does not need at first is done meanwhile */
	bool trusts_late;            /* ... the run's authority among it: box_trust */
	unsigned char *skips;        /* room for what box_held waits for, a packet; NULL: nothing */
	size_t op_count;             /* of the plan, as the new process knows it */
	unsigned char *known;        /* kind and writability of each, as it knows them */
	cpu_set_t cpus;              /* those of the caller; empty: it was not moved */
	size_t looked_from, held_from; /* the operations before which box_held is called */
	size_t trees_from;             /* ... and box_trees, between the two */
	void *own;                     /* the backend's */
};

struct box_kind {
	unsigned helpers;  /* processes of its own in the cgroup, besides init */
	unsigned start_ms; /* what somebody else's program gets to start; 0: nobody else is asked */

	/* Does its new process call box_held and box_added here? Then the plan is completed, and
	 * names are held, while it is at work. NULL: no. */
	bool (*waits)(void);
	/* Makes the process: box_clone with the backend's own flags and entry. */
	int (*spawn)(struct backend_job *j, struct box_start *c, struct err *e);
	/* The process is made with no more than its descriptors and ids, before names are held and
	 * `inside` is filled in; here it is told. Another's program starts meanwhile. May be NULL.
	 */
	int (*tell)(struct backend_job *j, struct box_start *c, struct err *e);
	/* The inside has spoken; *m may be a failure. Or it has not (m is NULL): say why. May be
	 * NULL. */
	int (*heard)(struct backend_job *j, struct box_start *c, const struct supervisor_msg *m,
		     struct err *e);
	/* The pid, as we see it, of the process inside, for which the monitor has to make the door.
	 * NULL: the inside makes its own. */
	pid_t (*inside)(const struct box_start *c);
};

struct backend_job {
	const struct box_kind *kind;
	struct box_plan *plan; /* borrowed */
	char id[33];
	pid_t pid; /* our child, to be waited for */
	int pidfd; /* of the sandbox's init: when it ends, nothing inside is left */
	int control;
	int events; /* epoll over pidfd, control, mounts, oom and the watch's timer */
	int timer;  /* ticks of the watch */
	int given[INIT_FD_COUNT];
	struct cgroup *cgroup;
	int cgroup_claim;       /* held until its leaves are locked */
	struct told_list told;  /* by results of commands */
	bool left;              /* a command has left something running that was not judged */
	struct cg_map *unswept; /* a dead run was still ending there when leaves were swept */
	struct ids *ids;
	struct protect *protect;
	bool busy; /* no CPU was idle when it began: nothing is done beside it */
	int hold;  /* what our child holds of them, to be let go for it; -1: nothing */
	struct isolation isolation;
	int door[DOOR_SOCKETS_MAX]; /* until the conductor has them */
	size_t door_count;
	struct job_bridge *bridge;                 /* NULL: none */
	struct opens *opens;                       /* NULL: nothing is learned */
	void (*note)(void *arg, const char *text); /* of the conductor; NULL: nobody hears */
	void *note_arg;
	struct disk disk;
	unsigned tick; /* of the timer */
	struct memfds memfds;
	struct sockmem sockmem;
	uint64_t buffers; /* bytes in sockets */
	uint64_t used;    /* bytes, at the last look; of these in sockets */
	uint64_t counted;
	uint64_t unmapped; /* bytes of memfds, mapped or not */
	uint64_t system_v; /* bytes, as init told last */
	bool watch_memory, watch_pids, watch_disk;
	bool pids_held; /* by the kernel: the watch only tells */

	struct lend_pool lent;
	struct command_table *commands; /* NULL: the sandbox is not open */

	bool exited; /* the command ended by itself; status holds how */
	int status;
	bool killed_memory, killed_pids, killed_disk, cover_lost, tampered;
	uint32_t stopped[256]; /* processes that stood still before all others had to */
	size_t stopped_count;
	bool frozen; /* paused by its control group */
	bool full;   /* was seen with as many processes as it may have */
};

/* start.c. `own` is handed to the kind's functions in struct box_start. */
int box_start(const struct box_kind *kind, struct box_plan *p, void *own, const struct job_want *w,
	      struct job_io *io, struct backend_job **ret, struct err *e);
/* Kills and waits: afterwards no process is left inside. Who made them may be about to end. */
void job_end(struct backend_job *j);
struct backend_job *job_free(
	struct backend_job *j); /* ends what lives, closes, removes; takes NULL */
DEFINE_CLEANUP(job, struct backend_job *, job_free)

/* clone.c. A new process in its cgroup, with a pidfd; `flags` are clone's. entry must not return.
 */
int box_clone(struct backend_job *j, struct box_start *c, uint64_t flags,
	      void (*entry)(const struct box_start *), struct err *e);

/* The same without namespaces, for an entry that only execs. It may run in our memory while we
 * wait: all signals stay blocked, since a handler of the embedding program would run there too. */
int box_vfork(struct backend_job *j, struct box_start *c, void (*call)(const struct box_start *),
	      struct err *e);

/* enforce.c. The rest of its cgroup, for a spawn whose child joins late. */
int box_complete_cgroup(struct backend_job *j, struct err *e);

/* clone.c. In the new process: what box_start's caller does for it has to be waited for. */
int box_wait(const struct box_start *c, struct err *e);

/* ... and, started by root, to be the user inside: with every capability in the new user namespace
 * and none anywhere else. */
int box_become(const struct box_start *c, struct err *e);

/* job.c. Listens to all that init has to say now. Whether it told what was written. */
bool job_hear(struct backend_job *j);

/* box_exec.c. One word of init's about a command of an open sandbox. */
void job_command_said(struct backend_job *j, const struct supervisor_msg *m);

/* job.c. Looks whether all covers are where they were; anything else ends the sandbox. */
bool job_news(struct backend_job *j, struct outcome *o);
/* Before a command of an open sandbox begins in which none runs. */
bool job_wake(struct backend_job *j);

/* job.c. Starts the watch's timer, or sets its pace; where nothing runs there is nothing to watch,
 * and it stands still. 0 or -1 with errno. */
int job_tick(const struct backend_job *j, bool hurry);

/* job.c: three slots of a backend's table; box_exec.c: two more. */
enum job_event box_event(struct backend_job *j, bool alarm, struct outcome *o);
void box_signal(struct backend_job *j, uint32_t command, int sig);
void box_finish(struct backend_job *j, struct outcome *o);
int box_exec(struct backend_job *j, const struct job_want *w, struct job_io *io, uint32_t *ret,
	     struct err *e);
bool box_ended(struct backend_job *j, uint32_t command, struct outcome *o);
bool box_began(const struct backend_job *j, uint32_t command);
int box_lend(struct backend_job *j, struct lent *ret);

extern const struct open_ops box_open_ops; /* pause.c */

/* probe.c: a real run of `true`, and what a failed clone or set-up means on this machine (adds the
 * hint). */
int box_probe(const struct backend *b, struct isolation *ret, struct err *e);
int box_explain(struct err *e);
/* Is a trial needless: nothing speaks against namespaces here, or one was passed and noted, and
 * nothing has changed since? */
bool box_tried(void);
void box_note_trial(void);       /* it was passed */
bool box_counts_processes(void); /* enforce.c: does the kernel, for a sandbox alone? */
