/* SPDX-License-Identifier: Apache-2.0 */
/* wire/loop.h - one thread, many descriptors: a thin layer over epoll, level-triggered.
 *
 * A watch is embedded in its owner, who takes it off the loop before it is freed. Handlers may take
 * off any watch, their own included; events already fetched for it are then dropped. Time is looked
 * at a few times a second: deadlines here are for peers that hang, not for precision. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

struct loop;
struct loop_watch;

typedef void watch_fn(struct loop_watch *w, uint32_t events);

struct loop_watch {
	int fd; /* borrowed */
	watch_fn *ready;
	uint32_t events; /* registered at present; 0: not on the loop */
	unsigned serial; /* of its registration */
	unsigned slot;   /* in the loop's table */
};

int loop_new(struct loop **ret, struct err *e);
struct loop *loop_free(struct loop *l);
DEFINE_CLEANUP(loop, struct loop *, loop_free)

/* Sets what a watch waits for; 0 takes it off. 0 or -errno. */
int loop_want(struct loop *l, struct loop_watch *w, uint32_t events);

typedef void tick_fn(void *arg, uint64_t now_us);
typedef void settle_fn(void *arg);

/* Runs until loop_stop; `tick` is called about four times a second, `settle` (may be NULL) whenever
 * the events that came together have all been delivered. */
void loop_run(struct loop *l, tick_fn *tick, settle_fn *settle, void *arg);
void loop_stop(struct loop *l);
void loop_hurry(struct loop *l);         /* from `settle`: there is more to do, whatever comes */
uint64_t loop_now(const struct loop *l); /* microseconds, as of the last wake-up */
