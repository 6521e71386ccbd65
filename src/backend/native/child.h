/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/child.h - the process inside: sets itself up, then is the init of the sandbox.
 *
 * Between clone and exec nothing is allocated and nothing is decided: all of it is in the plan. The
 * only words exchanged with the monitor are the fixed structs below, on a SEQPACKET socketpair. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/kit/cgroup.h"
#include "backend/kit/plan.h"
#include "base/err.h"
#include "model/door.h"

enum init_said {
	INIT_FAILED,  /* set-up stopped; err says why */
	INIT_STARTED, /* the command runs; descriptors come along, in the order of enum init_fd */
	INIT_EXITED,  /* the command ended; value is its wait status */
	INIT_USAGE,   /* what its reaped children have written to disk */
	INIT_DOOR,    /* before INIT_STARTED, under network proxy: the door's sockets come along */
};

struct init_msg {
	enum init_said said;
	int value;
	int landlock;     /* ABI obtained */
	unsigned fds;     /* bits 1 << enum init_fd of what is attached */
	uint64_t written; /* bytes */
	uint64_t at;      /* when, on the monotonic clock, in microseconds */
	struct err err;
};

enum init_fd {
	INIT_FD_PTY,    /* master of the command's terminal */
	INIT_FD_MOUNTS, /* mountinfo, for poll: changes when a cover is lost */
	INIT_FD_PROC,   /* root of the sandbox's /proc */
	INIT_FD_TMP,    /* on the private tmpfs, for statfs */
	INIT_FD_COUNT
};

struct init_request {
	int signal; /* for the command's process group; 0: none */
	bool want_usage;
};

struct child_start {
	const struct box_plan *plan;
	int control;      /* the child's end */
	int in, out, err; /* the command's streams; in is -1 for no input, all with a terminal */
	bool tty;
	unsigned short rows, cols;
	const struct cgroup *cgroup; /* to be joined; NULL: none */
	bool wait_go;                /* the parent maps ids, or attaches the cgroup, first */
	bool attach;                 /* clone could not place the child in the v2 leaf */
	bool maps_itself;            /* an ordinary user: the child writes its own maps */
	bool give_proc, give_mounts;
	uint64_t nproc; /* RLIMIT_NPROC; 0: leave it */
	unsigned cpus;  /* bind to that many CPUs; 0: all */
	int nice;
	const struct door_want *door; /* network proxy; NULL: no door */
	int prepared[PREPARED_MAX];
};

/* Never returns. */
_Noreturn void child_main(const struct child_start *c);

/* The second half, in init.c: starts the command and reaps until it ends. */
_Noreturn void init_main(const struct child_start *c, int landlock, int *fds);
_Noreturn void init_fail(int control, const struct err *e);
