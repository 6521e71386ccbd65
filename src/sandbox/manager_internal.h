/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/manager_internal.h - what manager.c, request_api.c, run_api.c and open_api.c share. */
#pragma once

#include "sandbox/manager.h"
#include "sandbox/run_telemetry.h"
#include "sandbox/sandbox.h"

struct brig_request {
	struct spec *spec;
	struct run_io io;
	int input; /* a memfd of ours, or -1 */
	brig_note_fn *note;
	void *note_arg;
	const brig_sandbox *sandbox; /* whose command it is; NULL: nobody's */
	char *folder;                /* of a command: where inside it begins; NULL: the usual */
	bool tty;                    /* of a command: it has a terminal */
	struct seat seat;            /* io.seat, where there is one */
	int line[2];                 /* io.line, likewise */
};

struct brig_result {
	struct outcome *o;
};

struct brig_run {
	struct spec *spec;        /* NULL: refused before there was one */
	const struct spec *asked; /* the request's own */
	struct telemetry telemetry;
	struct command_run *run; /* the same */
	brig_result *result;
	int over; /* always readable; -1: nobody asked */
};

int error_give(const struct err *from, struct brig_error *to); /* -errno */

/* A copy of what was asked for, if it is a run; NULL: not as it stands. */
struct spec *request_to_run(const brig_request *q, struct err *e);

/* One that has settings of its own instead of a manager's. Takes the spec over; NULL: no memory. */
brig_request *request_with(struct spec *s);

/* Without a run yet. NULL: no memory. */
brig_run *run_handle_new(const brig_request *q);
/* s: whose record it goes on. */
void run_handle_refuse(brig_run *x, const struct spec *s, const struct err *e);
