/* SPDX-License-Identifier: Apache-2.0 */
/* proc/host_program.h - the one way to start a program on the host that is not a sandbox's command.
 *
 * Its folder is `/`: what a program takes from the current one would be a workspace's. It gets the
 * variables that it is given and no others, no descriptor but those that it is given, and every
 * signal at its default and unblocked. Where it is found: proc/host_find.h, and base/sys/program.h
 * for brig's own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/text/err.h"

enum { HOST_FDS_MAX = 16 };

struct host_program {
	const char *program;     /* absolute */
	const char *const *argv; /* [0] is its name */
	const char *const *envp; /* NULL: none */
	const int *streams;      /* three; NULL, or -1 among them: /dev/null */
	const int *fds;          /* become 3, 4, ... */
	size_t fd_count;         /* at most HOST_FDS_MAX */
	int low;                 /* of host_reserve; 0: none */
	int dies_with;      /* the signal it gets when the thread that started it ends; 0: none */
	bool session;       /* a session of its own: the terminal's signals are not for it */
	bool own;           /* a part of brig, which keeps brig's limits; others dump no core */
	int (*first)(void); /* in the child, before everything else; 0, or an errno */
};

/* The child shares our memory and we wait until it has executed, so that it is cheap and a program
 * that cannot be executed is an error here. It has no exit signal: proc_wait, __WALL or the pidfd
 * find its end. pidfd may be NULL. */
int host_start(const struct host_program *h, pid_t *pid, int *pidfd, struct err *e);

/* For a caller with one thread and thousands of descriptors, each of which costs to be copied and
 * to be closed: the first of some low places that nobody else takes. Where `low` says so the child
 * begins with those that are in front of it and with its own; it has no streams then. 0: none can
 * be had. */
int host_reserve(void);
void host_release(int low);

/* In a process that was made for it: becomes the program, or ends with 127. */
_Noreturn void host_become(const struct host_program *h);

/* The last step alone, for a process that has placed everything itself. Returns only with an errno.
 */
int host_exec(const char *program, const char *const *argv, const char *const *envp);
