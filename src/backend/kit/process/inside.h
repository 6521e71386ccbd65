/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/inside.h - the process inside, once its world is built: it locks itself down,
 * looks whether that is so, and is the init of the sandbox.
 *
 * native reaches this point by clone, bwrap by exec; from here on they are one. Nothing is
 * allocated and nothing is decided. The only words exchanged with the monitor are those of
 * proc/supervisor.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/kit/plan/plan.h"
#include "base/text/err.h"
#include "proc/supervisor.h"

enum { INSIDE_TMPFS_MAX = 5 };

/* What comes along with SUPERVISOR_BEGINS: bit 1 << of each is set in supervisor_msg.fds. */
enum init_fd {
	INIT_FD_PTY,    /* master of the command's terminal */
	INIT_FD_MOUNTS, /* mountinfo, for poll: changes when a cover is lost */
	INIT_FD_NEWS,   /* of an open sandbox: the same once more, which no loop looks at */
	INIT_FD_SPACE,  /* its mount namespace: a cover may have to be put back; may be missing */
	INIT_FD_PROC,   /* root of the sandbox's /proc */
	INIT_FD_DIAG,   /* tells of the sockets inside; may be missing */
	INIT_FD_NET,    /* how many there are, in files of init's procfs, which may be hidden */
	INIT_FD_NAMES,  /* where questions for names arrive; may be missing */
	INIT_FD_AGENT,  /* proc/agent_socket.h */
	INIT_FD_ROUTES, /* a routing socket of the sandbox's network */
	INIT_FD_WATCH,  /* listener of seccomp_watch; may be missing */
	INIT_FD_TMP,    /* on the private file systems, for statfs; the first of several */
	INIT_FD_COUNT = INIT_FD_TMP + INSIDE_TMPFS_MAX,
	/* What stays with init. */
	INIT_FD_IO = INIT_FD_COUNT, /* its own count of what was written */
	INIT_FD_PROCS,              /* selfwrite.h; may be missing, and then so is the next */
	INIT_FD_LISTENER,
	INIT_FD_ALL
};

struct inside {
	const char *const *argv, *const *envp;
	const char *path; /* where the command is looked for */
	const char *cwd;
	const char *layered; /* the workspace, if an overlay has yet to be mounted over it; or "" */
	uint32_t uid;
	const char *const *writable; /* what Landlock lets be changed */
	size_t writable_count;
	uint64_t writable_host;              /* as box_plan has it */
	const char *tmpfs[INSIDE_TMPFS_MAX]; /* folders, one on each private file system */
	size_t tmpfs_count;
	struct rlimit_want rlimits[RLIMITS_MAX];
	size_t rlimit_count;
	unsigned profile; /* enum seccomp_profile */
	int control;      /* the child's end */
	int proc;         /* for inside_lock; of native -1: it has its own */
	int in, out, err; /* the command's streams; in is -1 for no input, all with a terminal */
	bool tty;
	bool open; /* there is no command yet: they come by ASK_EXEC, and init stays */
	unsigned short rows, cols;
	bool give_proc, give_mounts, give_diag, give_names, give_agent, give_routes, count_written;
	bool wait_door;   /* the monitor makes the network: SUPERVISOR_READY, then wait */
	bool wait_permit; /* the monitor says when the command may begin */
	uint64_t nproc;   /* RLIMIT_NPROC; 0: leave it */
	unsigned cpus;    /* bind to that many CPUs; 0: all */
	int nice;
	bool watch;    /* brig learns from this run: see seccomp_watch */
	bool gpus;     /* whose library names its threads by fopen("w") */
	bool unlocked; /* inside_lock was not possible, and nothing was gained by it */
};

/* The last step before init_main: until the door is there, and the command may begin. */
int inside_permit(const struct inside *c, struct err *e);

/* Until the monitor says to go on. */
int inside_wait(const struct inside *c, struct err *e);

/* Opens the count of what is written, where it is wanted. Before the process changes its ids or
 * becomes non-dumpable: from then on the file is root's. */
int inside_count(const struct inside *c, int *fds, struct err *e);

/* What the monitor wants of the network inside: sockets, opened while this process has a say in it.
 */
int inside_sockets(const struct inside *c, int *fds, struct err *e);

/* locked_enter (backend/kit/process/locked.h), and limits of the new namespace as a second line.
 * `proc` can be written. */
int inside_lock(int proc, bool *entered, struct err *e);

/* What the monitor wants to look at later. Opened now: soon nothing here may open it any more. */
int inside_open(const struct inside *c, int *fds, struct err *e);

/* From here on everything only ever gets less: resource limits, priority, CPUs, capabilities,
 * Landlock, the system-call filter. Returns the Landlock ABI. */
int inside_lock_down(const struct inside *c, int *fds, struct err *e);

/* The limit of open files, for the command alone: it also bounds how many descriptors of the user's
 * may be on their way, and init has some to send. 0 or -errno. */
int inside_files(const struct inside *c);

/* Looks instead of believing; a single "no" and nothing may be started. */
int inside_check(const struct inside *c, struct err *e);

/* Closes everything but 0, 1, 2, the control socket, the streams and `more`. */
int inside_close(const struct inside *c, const int *more, size_t n, struct err *e);

/* init.c: starts the command and reaps until it ends; or serves an open sandbox. */
_Noreturn void init_main(const struct inside *c, int landlock, int *fds);
_Noreturn void init_fail(int control, const struct err *e);
