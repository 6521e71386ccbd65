/* SPDX-License-Identifier: Apache-2.0 */
/* far/serve/far_asked.h - what a brig on another machine asks this one to run, as a request. */
#pragma once

#include "base/text/buf.h"
#include "brig.h"
#include "far/far_request.h"

struct spec;

struct far_asked {
	struct buf settings, options, words, variables, code;
	bool has_options, has_words, has_code;
	bool complete; /* nothing more of it is taken */
	/* Of the settings, once there is a request. */
	bool tty, input;
	uint64_t output; /* bytes of each stream that are wanted; 0: any number */
};

void far_asked_init(struct far_asked *a);
void far_asked_done(struct far_asked *a);
/* A piece. False: it is of something else. */
bool far_asked_take(struct far_asked *a, const struct frames_head *h, const void *payload);

/* Refuses another version, and a path that is not the same here. Options count above what `load`
 * finds configured here. Narrows the limits to what Slurm has given the task. */
typedef int far_asked_load_fn(struct spec *s, struct err *e);
int far_asked_request(struct far_asked *a, far_asked_load_fn *load, brig_request **ret,
		      struct err *e);

/* What Slurm calls this machine, else its own name: one word. */
void far_asked_name(char *out, size_t room);
