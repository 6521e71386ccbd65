/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/guard.h - the parts of the guard; nobody else includes this. */
#pragma once

#include "backend/docker/docker.h"

#define NONCE_HEX 32

enum hit { HIT_PIDS, HIT_MEMORY, HITS };

struct guard {
	const struct guard_start *s;
	const struct backend_plan *plan;
	struct engine engine;
	struct image image;
	struct bridge bridge;
	struct ledger ledger;
	char nonce[NONCE_HEX + 1];
	char container[80]; /* its id; "" until it was made */
	bool started;       /* the engine said so */
	bool told_pull;     /* that the image is being fetched */
	int attach;         /* the hijacked stream; -1: at its end */
	struct buf early;   /* what came on it with the answer */
	struct client *wait;
	int hits[HITS];       /* counters of the container's control group; -1: not to be had */
	bool look_at_hits;    /* again and again: nobody wakes us when they move */
	struct guard_msg end; /* what is known of the end so far */
};

/* Both return true when brig is gone, or has said to end it all. */
bool guard_hears(struct guard *g, int *signal);
bool guard_note(struct guard *g, const char *text);

int guard_set_up(struct guard *g, struct err *e); /* set_up.c: to the started container */
void guard_serve(struct guard *g);                /* serve.c: to its end */
void guard_kill(struct guard *g, int signal);
void guard_resize(struct guard *g);     /* to the size of our end's terminal */
void guard_watch_hits(struct guard *g); /* at once after the start: a short run is soon over */
void guard_read_hits(struct guard *g);
/* Removes all there is; the ledger's entry stays if something could not be. */
void guard_clean(struct guard *g);
