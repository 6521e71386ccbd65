/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/late.h - a plan that is completed while the new process is at work on it.
 *
 * Where two CPUs are idle (box_start.late), the new process begins with a copy of the plan that
 * lacks what takes long to find out: which folders of the system's hold sockets, what files that
 * are looked at will say, idmapped trees, protected names. The monitor finds that out meanwhile and
 * says it over the control socket. Each word is a packet without a mark: both sides know from the
 * plan which comes next, and it comes where the new process has got to in the plan's operations.
 *
 *   before operation      the monitor says          the new process takes it by
 *   looked_from           what is to be skipped     box_held
 *   each that is looked   its text, many a packet   box_text
 *   trees_from            go, with the trees        box_trees
 *   held_from             skips; names are held     box_held
 *   none: after the last  operations added, an end  box_added
 *
 * A step whose number is op_count is left out by both. looked_from <= trees_from <= held_from, as
 * far as there are such. What the new process has of an operation (its kind, its writability) must
 * not change behind it: late_complete refuses that. */
#pragma once

#include "backend/kit/process/job.h"

/* Before the process is made, or before it is told: completes the plan, or prepares to do so later.
 */
int late_begin(struct backend_job *j, struct box_start *c, const struct job_want *w, struct err *e);

/* While it is at work: finds out what was left for later, and says it. */
int late_complete(struct backend_job *j, struct box_start *c, const struct job_want *w,
		  struct err *e);

/* The trees shown through its range of ids. */
int late_map_trees(struct backend_job *j, struct box_start *c, struct err *e);

/* ---- in the new process ---- */

/* Before the operations `looked_from` and `held_from`: which ones turned out needless. From the
 * second on the names are held. */
int box_held(const struct box_start *c, struct err *e);

/* Before `trees_from`: the idmapped trees, each in its slot. */
int box_trees(const struct box_start *c, int *trees, struct err *e);

/* Of a file that was to be looked at: its text, which stays until the next. */
struct told_texts {
	size_t at, n; /* in room: what was read already, and what has come */
	char room[2 * LOOKED_TEXT_MAX];
};
bool box_waits_for_text(const struct box_start *c, size_t op);
int box_text(const struct box_start *c, struct told_texts *t, const char **ret, struct err *e);

/* After them all: the operations that were added meanwhile. Their `dst` is in `room`. 1: one more;
 * 0: there are no more. */
struct op_added {
	enum op_kind kind;
	mode_t mode;
	bool writable;
	char dst[PATH_MAX];
};
int box_added(const struct box_start *c, struct op_added *room, struct op *ret, struct err *e);
