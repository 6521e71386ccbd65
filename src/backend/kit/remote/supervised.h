/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/remote/supervised.h - a sandbox whose supervisor is another process of brig's, seen
 * from the monitor: the guard of a container, of a pod, or of a command on the host (none).
 *
 * The two talk over a socket. The supervisor says how the start goes, is asked for signals and for
 * commands, and leaves last: its end of the socket closes when nothing is left. What one that was
 * killed has left is tidied up here. */
#pragma once

#include "backend/backend.h"
#include "backend/kit/process/command_table.h"

struct supervised;

struct supervised_kind {
	const char *what, *keeper; /* "the container", "the container's guard" */
	int leave_ms;              /* for a supervisor that was told to end it all */
	int gone_ms;               /* ... and has said its last word */
	/* Each word as it comes, before what is done with it here. Of the descriptors it takes what
	 * it wants and leaves -1 there. NULL: nothing more is to be done. */
	void (*heard)(struct supervised *s, const struct supervisor_msg *m, int *fds, size_t n);
	/* ... once more until STARTED, that one included: what is to be done meanwhile. */
	int (*starting)(struct supervised *s, const struct supervisor_msg *m, struct err *e);
	void (*tidy)(const char *id); /* what a supervisor left that was killed */
};

/* The first member of a backend's job. */
struct supervised {
	const struct supervised_kind *kind;
	const char *id; /* borrowed, as long as supervised_leave may need it */
	int control;    /* -1: there is no supervisor */
	bool begun;     /* it has said STARTED, ENDED: `started` and `end` are those words */
	bool ended;
	bool told;                      /* its last word: what is left is its own to remove */
	struct command_table *commands; /* of a sandbox that has such; else NULL */
	struct supervisor_msg started, end;
};

/* A process that is nobody's child and outlives us: 0 in it, which may allocate, 1 in the caller,
 * or -errno. */
int supervised_fork(struct err *e);

/* A signal for a command; SIGKILL for COMMAND_FIRST ends all there is. */
void supervised_ask(const struct supervised *s, uint32_t command, int sig);

/* One word; 1, 0 when there is none now, or an error when the supervisor is gone. */
int supervised_hear(struct supervised *s, struct supervisor_msg *m);
bool supervised_hear_all(struct supervised *s); /* false: it is gone, or has said ENDED */

/* "... was ended from outside". Always negative. */
int supervised_gone(const struct supervised *s, struct err *e);

/* Waits for a word, or for the conductor to give up: then all is told to end. */
int supervised_wait(const struct supervised *s, const struct job_want *w, struct err *e);

/* ... until the sandbox is there, or cannot be. Notes go to the conductor. */
int supervised_start(struct supervised *s, const struct job_want *w, struct err *e);

/* Ends what there is, unless it has ended, and waits until the supervisor is gone. */
void supervised_leave(struct supervised *s);
void supervised_done(struct supervised *s); /* closes and frees what it has */
