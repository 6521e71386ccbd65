/* SPDX-License-Identifier: Apache-2.0 */
/* backend/bwrap/launch.h - from a plan to a running bubblewrap. */
#pragma once

#include "backend/bwrap/bwrap_program.h"
#include "backend/bwrap/letter.h"
#include "backend/kit/process/job.h"

/* What is needed for the time of the start. The descriptors are inherited by bubblewrap. */
struct launch {
	struct box_plan *plan;        /* borrowed */
	struct bwrap_program program; /* bubblewrap */
	struct bwrap_args args;
	int *ops; /* for each operation its text, or what is bound; or -1 */
	size_t op_count;
	struct letter_check *checks;
	size_t check_count;
	int text[2];      /* the arguments: our end and bubblewrap's */
	int letter, brig; /* the letter, brig itself */
	int proc;         /* the host's: bubblewrap's cannot be written */
	/* The pid of its child; its complaints. Files, not pipes: a write to a pipe whose reader
	 * has died would kill bubblewrap and leave its child waiting for ever. */
	int info, said;
	int hold; /* of the placeholders, until bubblewrap is gone; see protect.h */
	char *argv[8];
	char numbers[3][24];
	int *all; /* every one of them, for the child */
	size_t all_count;
};

#define LAUNCH_INIT(p, prog)                                                                       \
	{                                                                                          \
		.plan = (p), .program = (prog), .text = { -1, -1 }, .letter = -1, .brig = -1,      \
		.proc = -1, .info = -1, .said = -1, .hold = -1                                     \
	}
void launch_done(struct launch *l);

/* How a sandbox of bubblewrap comes to be; `own` is a struct launch. */
extern const struct box_kind bwrap_kind;
