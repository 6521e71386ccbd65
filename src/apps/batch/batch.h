/* SPDX-License-Identifier: Apache-2.0 */
/* apps/batch/batch.h - many runs from one file of JSON lines; see docs/design/batch.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"
#include "model/settings/spec.h"

enum { BATCH_JOBS_MAX = 256 };

/* How a run ended, as far as another attempt is concerned. */
enum batch_class {
	BATCH_OK,
	BATCH_EXIT,
	BATCH_SIGNAL,
	BATCH_TIMEOUT,
	BATCH_OOM,
	BATCH_LIMIT,
	BATCH_UNAVAILABLE,
	BATCH_LOST,
	BATCH_REFUSED,
	BATCH_CANCELLED,
	BATCH_CLASSES
};

const char *batch_class_name(enum batch_class c);
/* "timeout,oom": bits 1 << class; only of classes that may be run again. */
int batch_classes_read(const char *text, unsigned *ret, struct err *e);

struct batch_count {
	uint64_t lines, done, failed, running, retries;
	uint64_t taken;  /* runs that left something which was moved to quarantine */
	uint64_t before; /* of done: by an earlier batch, which this one resumes */
	uint64_t since_us;
	uint64_t by[BATCH_CLASSES];
};

struct batch_options {
	const struct spec *spec; /* what holds for every line */
	const char *text;        /* the lines; borrowed */
	size_t size;
	/* In place of lines: one command, so many times; each is told which it is. */
	const char *const *argv;
	uint64_t repeat;
	const char *out;       /* folder of ledger and results; NULL: results go to stdout */
	unsigned jobs;         /* at a time */
	unsigned retries;      /* more attempts of one line */
	unsigned retry_on;     /* bits 1 << enum batch_class */
	uint64_t max_failures; /* 0: any number */
	bool resume;
	int signals; /* a signalfd that ends the batch; borrowed */
	/* Something to tell; may be NULL. */
	void (*note)(void *arg, const char *text);
	/* Called when something has changed, five times a second at most, and at the end. */
	void (*progress)(void *arg, const struct batch_count *c);
	void *arg;
};

enum batch_end { BATCH_ENDED, BATCH_STOPPED, BATCH_INTERRUPTED };

/* Runs them all. An error is one of the batch itself: nothing or not everything was run. */
int batch_run(const struct batch_options *o, struct batch_count *ret, enum batch_end *how,
	      struct err *e);
