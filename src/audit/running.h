/* SPDX-License-Identifier: Apache-2.0 */
/* audit/running.h - which runs are in progress, so that one whose brig was killed is noticed.
 *
 * The file `running` has slots of 256 bytes. The owner of a slot holds an OFD lock on its bytes: a
 * slot in use whose lock is free belongs to a brig that died. */
#pragma once

#include "audit/log.h"

enum { RUNNING_SLOT = 256, RUNNING_AGENT_MAX = 64 };

struct run_info {
	const char *run, *policy, *backend, *argv0; /* texts are borrowed and cut to fit */
	const char *agent;                          /* without tabs; NULL or empty: none */
};

/* A claimed slot; embed it and begin with RUNNING_NONE. */
struct running {
	int fd; /* its open file description holds the lock */
	uint64_t offset;
};

#define RUNNING_NONE                                                                               \
	(struct running)                                                                           \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* With the lock of the log: puts runs that died on the record, with the outcome "crashed", and
 * claims a slot for this one. To be followed by the run's own first record under the same lock. */
int running_begin(struct log *l, const struct run_info *i, const char *principal,
		  struct running *ret, struct err *e);

/* After the last record of the run; no lock is needed. */
void running_end(struct running *r);
/* The end could not be recorded: whoever starts next will say so. */
void running_abandon(struct running *r);

/* The ids of runs in progress whose brig is alive, at most `room`; how many. Takes no lock. */
size_t running_live(int dirfd, char (*ids)[33], size_t room);
