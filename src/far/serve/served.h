/* SPDX-License-Identifier: Apache-2.0 */
/* far/serve/served.h - brig-far's commands; no other folder includes this.
 *
 * asked for -> runs -> over -> let go: its report goes out behind all it wrote. */
#pragma once

#include "base/sys/loop.h"
#include "far/serve/far_serve.h"
#include "proc/order.h"
#include "proc/supervisor.h"
#include "sandbox/manager.h"

enum { SERVED_PAST = 1024 };

struct far_session;

struct served {
	struct loop_watch turns;
	struct far_session *s;
	uint32_t number;       /* as the near brig has it; 0: this place is free */
	brig_request *request; /* of a command of an open sandbox */
	brig_run *run;         /* NULL: it has ended */
	int theirs[3];         /* input, output, errors: the command's ends */
	struct buf report;
};

struct far_session {
	const struct far_line *line;
	struct loop *loop;
	struct frames *frames;
	struct loop_watch signals, turns; /* turns: of the sandbox */
	struct loop_timer silence, alive;
	struct far_asked asked;
	brig_request *request;
	brig_sandbox *sandbox; /* NULL: it is a run, or not open */
	struct buf order;      /* what has come of the next one */
	uint32_t order_of;
	bool over; /* it is to end */
	bool deaf; /* the other side is gone */
	struct served all[COMMANDS_MAX];
	struct { /* a ring: commands that have ended, as the other side has them and as we have */
		uint32_t command, number;
	} past[SERVED_PAST];
	size_t past_count;
};

void served_init(struct far_session *s, struct served *k);
/* The run that was asked for. */
int served_run(struct far_session *s, struct err *e);
/* Frames of commands; negative: they make no sense. */
int served_exec(struct far_session *s, const struct frames_head *h, const void *p);
int served_resize(struct far_session *s, const struct frames_head *h, const void *p);
/* For one that has ended, SIGKILL is for what it has left running. */
void served_signal(struct far_session *s, uint32_t number, int sig);
void served_abandon(struct served *k); /* ends it, because the line is gone */

bool served_any(const struct far_session *s);
bool served_let_go(struct far_session *s);     /* has anything been said? */
void served_finish_all(struct far_session *s); /* also those whose output was not read */
void served_report(struct far_session *s, uint32_t number, const struct outcome *o);
