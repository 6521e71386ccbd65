/* SPDX-License-Identifier: Apache-2.0 */
/* far/far_job.h - the near end of a line: a run, or a sandbox and its commands, that another brig
 * has.
 *
 *   asked -> began -> ended
 *
 * of each number (far/far_request.h). What the other side says is not believed: its reports are
 * kept as bytes, within bounds, for who reads them strictly. How the line comes to be, who ends it
 * and what its end means are the backend's. The process may be a program that embeds brig: no
 * signal is raised and none is handled. */
#pragma once

#include "far/far_request.h"
#include "proc/order.h"

struct far_job; /* opaque */

int far_job_new(const struct frames_line *l, struct far_job **ret, struct err *e);
struct far_job *far_job_free(struct far_job *j);
struct frames *far_job_frames(struct far_job *j); /* for far_request_say, and for what waits */

/* A command, or the sandbox: from here on it is heard of. What comes of it is written to out and
 * err, and what can be read from in goes over; all three are taken over, -1: none. */
int far_job_add(struct far_job *j, uint32_t number, int in, int out, int err, struct err *e);
/* Of a sandbox that is open: asks for a command that was added. */
struct far_exec {
	const struct order *order;
	bool tty;
	unsigned short rows, cols;
	uint64_t timeout; /* milliseconds; 0: none */
};
int far_job_exec(struct far_job *j, uint32_t number, const struct far_exec *x, struct err *e);
void far_job_leave(struct far_job *j, uint32_t number); /* what the node says of it is dropped */

/* SIGKILL for a command ends all it has started; for the sandbox (0), that. */
void far_job_signal(struct far_job *j, uint32_t number, int sig);
void far_job_resize(struct far_job *j, uint32_t number, unsigned short rows, unsigned short cols);
void far_job_ping(struct far_job *j);

/* After each turn of the line's loop. 0, or -errno for good: nothing more will be heard. */
int far_job_turn(struct far_job *j);

/* What was said. */
bool far_job_ready(const struct far_job *j, const char **host, const char **job);
bool far_job_began(const struct far_job *j, uint32_t number);
/* Its end; and all it wrote before is where its reader finds it. */
bool far_job_ended(const struct far_job *j, uint32_t number);
/* Some output has not been taken by its reader yet. */
bool far_job_waits(const struct far_job *j);
/* Its report, once it has ended; of the sandbox, once it is open, what that is like. */
const struct buf *far_job_report(const struct far_job *j, uint32_t number);
const struct buf *far_job_facts(const struct far_job *j);
/* Readable when its end was said, or nothing more will be. -1: none. */
int far_job_news(const struct far_job *j, uint32_t number);
uint64_t far_job_heard(const struct far_job *j); /* when the other side last said something */
