/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/late.h - a plan that is completed while the new process is at work on it.
 *
 * Where two CPUs are idle (box_start.late), the new process begins with a copy of the plan that
 * lacks what takes long to find out: which folders of the system's hold sockets, what files that
 * are looked at will say, idmapped trees, protected names, the certificate of a door that is still
 * being started. The monitor finds that out meanwhile and says it over the control socket, a packet
 * a word. Both sides know from the plan which comes next: it comes where the new process has got to
 * in the plan's operations. The first byte says what it is (enum late_mark), and a packet with
 * another mark than the one waited for ends the start: should the two sides ever count differently,
 * no tree is taken for a text.
 *
 *   before operation      the monitor says                 its mark     taken by
 *   looked_from           what is to be skipped            LATE_LOOKED  box_held
 *   each that is looked   its text, many a packet          LATE_TEXTS   box_text
 *   trees_from            the trees, as descriptors        LATE_TREES   box_trees
 *   held_from             skips again; names are held      LATE_HELD    box_held
 *   none: after the last  operations added, one a packet   LATE_ADDED   box_added
 *                         no more                          LATE_END     box_added
 *                         what the authority adds to files LATE_TRUST   box_trust
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

/* The first byte of a packet. */
enum late_mark {
	LATE_LOOKED = 1,
	LATE_TEXTS,
	LATE_TREES,
	LATE_HELD,
	LATE_ADDED,
	LATE_END,
	LATE_TRUST
};

/* LATE_LOOKED before operation `looked_from`, LATE_HELD before `held_from`: which ones turned out
 * needless. From the second on the names are held. */
int box_held(const struct box_start *c, enum late_mark mark, struct err *e);

/* Before `trees_from`: the idmapped trees, each in its slot. */
int box_trees(const struct box_start *c, int *trees, struct err *e);

/* Of a file that was to be looked at: its text, which stays until the next. */
struct told_texts {
	size_t at, n;                       /* in room: what was read already, and what has come */
	char room[1 + 2 * LOOKED_TEXT_MAX]; /* a packet, with its mark */
};
bool box_waits_for_text(const struct box_start *c, size_t op);
int box_text(const struct box_start *c, struct told_texts *t, const char **ret, struct err *e);

/* After them all: the operations that were added meanwhile. Their `dst` is in `room`, whose
 * number is 0 before the first. 1: one more; 0: there are no more. */
struct op_added {
	unsigned char mark;
	unsigned number; /* from 1 on; of the end: the last one's */
	enum op_kind kind;
	mode_t mode;
	bool writable;
	char dst[PATH_MAX];
};
int box_added(const struct box_start *c, struct op_added *room, struct op *ret, struct err *e);

/* With trusts_late, last of all: writes what the run's authority adds behind the text of each file
 * whose operation awaits it. They are in the order of the operations. */
int box_trust(const struct box_start *c, const int *files, size_t n, struct err *e);
