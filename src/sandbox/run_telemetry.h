/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run_telemetry.h - around one run: its trace and its metrics, where they are configured.
 *
 * Neither can fail a run or hold it up; what goes wrong is said through the note function. */
#pragma once

#include "sandbox/sandbox.h"
#include "telemetry/otlp.h"

struct telemetry {
	struct arena *arena; /* NULL: no trace */
	struct otlp otlp;
	struct otlp_times when;
	note_fn *note;
	void *note_arg;
};

/* Before the run, or its refusal: reads the OTEL_* variables. `note` may be NULL. */
void telemetry_begin(struct telemetry *t, note_fn *note, void *note_arg);

/* If the caller passes TRACEPARENT on (env.pass), the command gets the run's own rather than the
 * one we were started with, so that its spans stand below the run. */
void telemetry_pass(struct telemetry *t, struct spec *s);

/* After it, in every case. */
void telemetry_end(struct telemetry *t, const struct spec *s, const struct outcome *o);
