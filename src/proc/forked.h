/* SPDX-License-Identifier: Apache-2.0 */
/* proc/forked.h - a part of one of brig's programs that goes on in a child, without a new program.
 *
 * Parent and child are joined by a line, a socket pair: its end tells each that the other is gone.
 * The child is made by libc, so it may allocate, and an ordinary wait finds it: for programs of
 * brig's own. What is made inside of a program that embeds brig is in proc/spawn.h. */
#pragma once

#include <sys/types.h>

#include "base/text/err.h"

enum forked_line { FORKED_BYTES, FORKED_PACKETS };

struct forked_want {
	const char *name; /* as ps shows it; NULL: the caller's */
	const char *what; /* for the error: "the keeper" */
	enum forked_line line;
	/* The child ends with what this returns. Everything that the parent has open is there. */
	int (*run)(void *arg, int line);
	void *arg;
};

/* Its number, with the parent's end of the line in *line; or -errno. */
pid_t forked_start(const struct forked_want *w, int *line, struct err *e);
/* Waits for it; its wait status. */
int forked_wait(pid_t pid);

/* A child that reads what strangers wrote tells how that went in one struct err, and may go on to
 * write what came of it. The parent believes neither: texts end, the kind is one of ours. 0, or
 * -errno: it was silent, or what it said is no such word. */
int forked_tell(int line, const struct err *said);
int forked_hear(int line, struct err *said);
