/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/sandbox.h - the conductor: a spec and a backend become one run and its outcome.
 *
 * sandbox_run blocks until nothing of the run is left. It owns the deadline, moves the streams with
 * bounded memory and decides what a cancel means; isolation itself is the backend's. */
#pragma once

#include "backend/backend.h"
#include "model/outcome.h"
#include "model/spec.h"

typedef void output_fn(void *arg, int stream, const char *data, size_t n);

struct run_io {
	int in;       /* where input comes from; -1: none */
	int out, err; /* where output goes; -1: it is kept in the outcome */
	output_fn
		*on_output; /* called with what is kept, as it arrives, whole characters; or NULL */
	void *arg;
	int signals; /* a signalfd: TERM, INT, HUP, QUIT cancel, WINCH resizes; or -1 */
	int cancel;  /* readable: cancel; or -1 */
};

/* Says what the user should know; text is one line. */
typedef void note_fn(void *arg, const char *text);

/* Fills *o in every case, refusals included; the outcome says how it went. The spec must be
 * checked. */
void sandbox_run(const struct spec *s, const struct run_io *io, note_fn *note, void *note_arg,
		 struct outcome *o);

/* The plan as JSON, or an error; nothing is run. */
int sandbox_plan(const struct spec *s, struct json *j, struct err *e);
