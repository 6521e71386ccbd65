/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/recorder_internal.h - what recorder.c and recorder_door.c share. */
#pragma once

#include "audit/running.h"
#include "model/outcome/digest.h"
#include "sandbox/recorder.h"
#include "sandbox/tally.h"

struct recorder {
	const struct spec *spec;
	struct log *log;
	struct running running;
	const char *id; /* borrowed from the outcome */
	const char *backend;
	const char **anchors;
	struct tally *egress; /* of the door's decisions; NULL before the first */
	uint64_t first;       /* record of this run; 0: it never began */
	char policy[SPEC_DIGEST_SIZE], principal[64], agent[RUNNING_AGENT_MAX + 1];
	char within[40]; /* of a command: the run of its sandbox, which has what its door decided */
};

/* A record of this run: who, under which policy. */
void recorder_fill(const struct recorder *r, struct record *x, enum event type);

/* recorder_door.c. Decisions of the door that were counted and are due; at the `end` all of them.
 */
int recorder_put_sums(struct recorder *r, bool end, struct err *e);
