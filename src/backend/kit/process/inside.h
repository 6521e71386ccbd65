/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/inside.h - the process inside, once its world is built: it locks itself down,
 * looks whether that is so, and is the init of the sandbox.
 *
 * native reaches this point by clone, bwrap by exec; from here on they are one. Nothing is
 * allocated and nothing is decided. The only words exchanged with the monitor are the fixed structs
 * below, on a SEQPACKET socketpair. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/kit/plan/plan.h"
#include "base/err.h"

enum init_said {
	INIT_FAILED,  /* set-up stopped; err says why */
	INIT_BEGINS,  /* the next thing is the command: from here on it may have run, whatever else
		       * is said. Descriptors come along, in the order of enum init_fd */
	INIT_STARTED, /* it runs. Without descriptors: nothing can keep this word back */
	INIT_EXITED,  /* the command ended; value is its wait status */
	INIT_USAGE,   /* what its reaped children have written to disk */
	INIT_DOOR,    /* before INIT_BEGINS, under network proxy: the door's sockets come along */
	INIT_READY,   /* ... or it waits for whoever makes the door from outside */
};

struct init_msg {
	enum init_said said;
	int value;
	int landlock;     /* ABI obtained */
	unsigned fds;     /* bits 1 << enum init_fd of what is attached */
	uint64_t written; /* bytes */
	uint64_t held;    /* bytes in objects of System V */
	uint64_t tasks;   /* at the command's end, with it; 0: nobody wants to know */
	uint64_t at;      /* when, on the monotonic clock, in microseconds */
	struct err err;
};

enum { INSIDE_TMPFS_MAX = 5 };

enum init_fd {
	INIT_FD_PTY,    /* master of the command's terminal */
	INIT_FD_MOUNTS, /* mountinfo, for poll: changes when a cover is lost */
	INIT_FD_PROC,   /* root of the sandbox's /proc */
	INIT_FD_DIAG,   /* tells of the sockets inside; may be missing */
	INIT_FD_TMP,    /* on the private file systems, for statfs; the first of several */
	INIT_FD_COUNT = INIT_FD_TMP + INSIDE_TMPFS_MAX,
	INIT_FD_IO = INIT_FD_COUNT, /* init's own count of what was written: stays with it */
	INIT_FD_ALL
};

struct init_request {
	int signal; /* for the command's process group; 0: none */
	bool want_usage;
};

struct inside {
	const char *const *argv, *const *envp;
	const char *path; /* where the command is looked for */
	const char *cwd;
	uint32_t uid;
	const char *const *writable; /* what Landlock lets be changed */
	size_t writable_count;
	const char *tmpfs[INSIDE_TMPFS_MAX]; /* folders, one on each private file system */
	size_t tmpfs_count;
	struct rlimit_want rlimits[RLIMITS_MAX];
	size_t rlimit_count;
	unsigned profile; /* enum seccomp_profile */
	int control;      /* the child's end */
	int in, out, err; /* the command's streams; in is -1 for no input, all with a terminal */
	bool tty;
	unsigned short rows, cols;
	bool give_proc, give_mounts, give_diag, count_written;
	bool wait_door;   /* the monitor makes the network: INIT_READY, then wait */
	bool wait_permit; /* the monitor says when the command may begin */
	uint64_t nproc;   /* RLIMIT_NPROC; 0: leave it */
	unsigned cpus;    /* bind to that many CPUs; 0: all */
	int nice;
};

/* The last step before init_main: until the door is there, and the command may begin. */
int inside_permit(const struct inside *c, struct err *e);

/* Until the monitor says to go on. */
int inside_wait(const struct inside *c, struct err *e);

/* Opens the count of what is written, where it is wanted. Before the process changes its ids or
 * becomes non-dumpable: from then on the file is root's. */
int inside_count(const struct inside *c, int *fds, struct err *e);

/* What the monitor wants to look at later. Opened now: soon nothing here may open it any more. */
int inside_open(const struct inside *c, int *fds, struct err *e);

/* Resource limits, priority, CPUs. */
int inside_limits(const struct inside *c, struct err *e);

/* The limit of open files, for the command alone: it also bounds how many descriptors of the user's
 * may be on their way, and init has some to send. 0 or -errno. */
int inside_files(const struct inside *c);

/* Binds a process, 0: the caller, to the first n of the CPUs that it may use, counted from a start
 * that differs between runs. Nothing if n is 0. */
int inside_bind(pid_t pid, unsigned n, struct err *e);

/* Looks instead of believing; a single "no" and nothing may be started. */
int inside_check(const struct inside *c, struct err *e);

/* Closes everything but 0, 1, 2, the control socket, the streams and `more`. */
int inside_close(const struct inside *c, const int *more, size_t n, struct err *e);

/* init.c: starts the command and reaps until it ends. */
_Noreturn void init_main(const struct inside *c, int landlock, int *fds);
_Noreturn void init_fail(int control, const struct err *e);
