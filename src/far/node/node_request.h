/* SPDX-License-Identifier: Apache-2.0 */
/* far/node/node_request.h - what a brig on another machine asks this one to run, as a request. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/err.h"
#include "brig.h"
#include "proc/node/node_frame.h"

struct node_ask {
	struct buf settings, words, variables, code;
	bool has_code;
	/* Of the settings, once there is a request. */
	bool tty, input;
	uint64_t output; /* bytes of each stream that are kept; 0: any number */
};

void node_ask_init(struct node_ask *a);
void node_ask_done(struct node_ask *a);
void node_ask_take(struct node_ask *a, const struct node_frame *f);

/* Refuses another version, and a path that is not the same here. Narrows the limits to what Slurm
 * has given the task. */
int node_request(struct node_ask *a, brig_request **ret, struct err *e);

/* What Slurm calls this machine, else its own name: one word. */
void node_name(char *out, size_t room);
