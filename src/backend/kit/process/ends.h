/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/ends.h - both ends of what goes between brig and a command, while it is being
 * set up.
 *
 * Ours are in[1], out[0], err[0] and control[0]; the command's, or those of the process that
 * serves it, are the others. */
#pragma once

#include <stdbool.h>

#include "backend/backend.h"

struct ends {
	int in[2], out[2], err[2], control[2];
};

#define ENDS_NONE                                                                                  \
	{                                                                                          \
		{ -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 },                                    \
	}

/* A pipe for each stream that is wanted; none for a terminal, or without a command. */
int ends_pipes(struct ends *p, const struct job_want *w, struct err *e);

/* Likewise for a command elsewhere: its terminal is there, and pipes carry what goes both ways. */
int ends_far(struct ends *p, const struct job_want *w, struct err *e);

/* The pipes, and the pair of sockets that it is given or makes. */
int ends_open(struct ends *p, const struct job_want *w, struct err *e);

/* A terminal of the size that is wanted instead of the pipes; err stays as it is. */
int ends_terminal(struct ends *p, const struct job_want *w, struct err *e);

void ends_done(struct ends *p);
