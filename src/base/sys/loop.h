/* SPDX-License-Identifier: Apache-2.0 */
/* base/sys/loop.h - one thread, many descriptors and deadlines: a thin layer over epoll,
 * level-triggered.
 *
 * A watch or timer is embedded in its owner, who takes it off the loop before it is freed, and
 * before the descriptor is closed: a copy in another process would keep epoll telling of it.
 * Handlers may take off any watch and any timer, their own included; what was already fetched for
 * it is then dropped. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"

struct loop;
struct loop_watch;
struct loop_timer;

typedef void watch_fn(struct loop_watch *w, uint32_t events);
typedef void timer_fn(struct loop_timer *t, uint64_t now_us);

struct loop_watch {
	int fd; /* borrowed */
	watch_fn *ready;
	uint32_t events; /* registered at present; 0: not on the loop */
	unsigned serial; /* of its registration */
	unsigned slot;   /* in the loop's table */
	bool always;     /* a file, which epoll does not take: it is ready at every turn */
};

struct loop_timer {
	uint64_t at; /* microseconds of the monotonic clock; 0: not on the loop */
	timer_fn *due;
	struct loop_timer *child, *next, **link; /* in the loop's heap */
};

int loop_new(struct loop **ret, struct err *e);

/* For at most 32 watches, over poll: nothing is registered with the kernel. A neighbour that uses
 * up the user's share of epoll cannot make it blind, and a file whose news is gone once it was
 * looked at is looked at only when its handler is called. */
int loop_new_small(struct loop **ret, struct err *e);
struct loop *loop_free(struct loop *l);
DEFINE_CLEANUP(loop, struct loop *, loop_free)

/* Sets what a watch waits for; 0 takes it off. 0 or -errno; a small loop always can. */
int loop_want(struct loop *l, struct loop_watch *w, uint32_t events);

/* Sets when a timer is due, once; 0 takes it off. Several due at once come in order of their time.
 */
void loop_at(struct loop *l, struct loop_timer *t, uint64_t at_us);

/* Waits until something is ready or due, at most `wait_ms` (-1: for ever), and calls its handlers.
 */
void loop_turn(struct loop *l, int wait_ms);

/* For a program with a loop of its own: readable when loop_turn(l, 0) has something to do. It
 * belongs to the loop and is the same as long as that lives. -errno */
int loop_fd(struct loop *l);

typedef void settle_fn(void *arg);

/* Turns until loop_stop; `settle` (may be NULL) is called whenever the events that came together
 * have all been delivered. */
void loop_run(struct loop *l, settle_fn *settle, void *arg);
void loop_stop(struct loop *l);
void loop_hurry(struct loop *l);         /* from `settle`: there is more to do, whatever comes */
uint64_t loop_now(const struct loop *l); /* microseconds, as of the last wake-up */
