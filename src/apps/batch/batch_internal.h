/* SPDX-License-Identifier: Apache-2.0 */
/* apps/batch/batch_internal.h - what the files of this folder share. */
#pragma once

#include <sys/types.h>

#include "apps/batch/batch.h"
#include "base/bytes/jread.h"
#include "brig.h"

#define BATCH_LINE_MAX ((size_t)8 << 20)
#define BATCH_LINES_MAX ((uint64_t)10000000)
#define BATCH_RESULT_MAX ((size_t)1 << 30)

/* Where the lines of the file are; empty ones are none. */
struct batch_lines {
	const char *text;
	struct batch_place {
		size_t at, size, number; /* counted as an editor does */
	} * v;
	size_t n;
	const char *const *argv; /* v is NULL: each of the n runs is this command */
};

/* Finds them and reads each: an error names the first that is wrong. */
int batch_lines_find(const char *text, size_t size, struct batch_lines *ret, struct err *e);
void batch_lines_done(struct batch_lines *l);

/* One line as a tree, of which nothing is yet believed but its form. */
int batch_line_read(const char *p, size_t n, struct jread **ret, struct err *e);
/* The run that it asks for; refused where it would loosen what holds. */
int batch_line_request(const struct jread *v, const struct spec *holds, brig_request **ret,
		       struct err *e);

/* The run of one of them, whatever they are. */
int batch_lines_request(const struct batch_lines *l, const struct spec *holds, uint64_t index,
			brig_request **ret, struct err *e);

/* ---- ledger and results ---- */

struct batch_ledger {
	char id[33];                    /* of the batch */
	int ledger, results;            /* ledger -1: there is none */
	uint64_t size;                  /* of the results */
	bool broken;                    /* they could not be written: nothing is, any more */
	struct buf ends, starts, lines; /* not yet written */
};

/* What an earlier batch knew of one line. */
struct batch_known {
	uint32_t attempts;
	bool ended, failed;
};

int batch_ledger_open(const struct batch_options *o, size_t lines, struct batch_known *known,
		      struct batch_ledger *ret, struct err *e);
void batch_ledger_start(struct batch_ledger *l, uint64_t index, unsigned attempt);
/* `object` is the line of results, without its newline. */
void batch_ledger_end(struct batch_ledger *l, uint64_t index, unsigned attempt, const char *outcome,
		      bool failed, const struct buf *object);
/* All of it is on the disk afterwards, in the order that a crash must find. */
int batch_ledger_commit(struct batch_ledger *l, struct err *e);
void batch_ledger_done(struct batch_ledger *l);
/* The parser alone: everything that a ledger says of `lines` lines. */
int batch_ledger_read(const char *text, size_t size, const char *digest, size_t lines,
		      struct batch_known *known, uint64_t *results, size_t *whole, struct err *e);

/* ---- workers ---- */

struct batch_job {
	uint64_t index;
	uint32_t attempt;
	bool submitted;       /* it is a task of an array: these say which */
	uint64_t array, task; /* of slurm_spec */
	uint32_t limits;      /* that Slurm enforces */
	char spool[512];
};

struct batch_answer {
	uint64_t index;
	uint32_t attempt;
	uint32_t class; /* enum batch_class */
	char outcome[16];
};

/* A process that takes jobs at *fd and answers each there, with a file that has its result. Its
 * number, or -errno. */
pid_t batch_worker_start(const struct batch_lines *l, const struct spec *holds, int *fd,
			 struct err *e);
