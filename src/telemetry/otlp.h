/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/otlp.h - a run as a trace: OTLP/HTTP with JSON, when the standard OTEL_* variables ask
 * for it.
 *
 * Pure but for the random ids and the start of the sender. Attributes hold no argument beyond
 * argv0, no path, no variable and nothing the command wrote. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "model/outcome/outcome.h"
#include "model/settings/spec.h"

enum { TRACE_ID_SIZE = 16, SPAN_ID_SIZE = 8, TRACEPARENT_SIZE = 56 /* with the NUL */ };

struct otlp_pair {
	const char *name, *value;
};

struct otlp_pairs {
	struct otlp_pair *v;
	size_t n;
};

enum { OTLP_PAIRS_MAX = 64 };

/* W3C trace context of whoever called us. */
struct otlp_parent {
	unsigned char trace[TRACE_ID_SIZE], span[SPAN_ID_SIZE];
	bool there, sampled;
	const char *state; /* TRACESTATE; NULL: none */
};

enum otlp_sampler { OTLP_ALWAYS_ON, OTLP_ALWAYS_OFF, OTLP_RATIO };

/* What the environment asks for, and the ids of this run. Plain data; texts are borrowed from the
 * environment or the arena. */
struct otlp {
	const char *url, *ca_file; /* ca_file NULL: the system's */
	struct otlp_pairs headers, resource;
	const char *service;
	uint64_t timeout_ms;
	enum otlp_sampler sampler;
	bool by_parent;       /* a parent's decision is followed */
	uint64_t ratio_bound; /* of OTLP_RATIO: trace ids below it, of 2^63, are sampled */
	struct otlp_parent parent;
	unsigned char trace[TRACE_ID_SIZE], span[SPAN_ID_SIZE]; /* span: the root span's */
	bool sampled;
	const char *warning; /* of a variable that was not taken; NULL: none */
};

/* Reads the variables and draws the ids. 1: traces are wanted; 0: they are not; -errno and *e: they
 * are, but not in a way brig knows. */
int otlp_open(struct arena *a, char *const *variables, struct otlp *ret, struct err *e);

/* The run itself as a parent, for programs inside: "00-TRACE-SPAN-01". */
void otlp_traceparent(const struct otlp *t, char out[TRACEPARENT_SIZE]);

/* When it was. Clock values are base/sys/clock.h's; wall_us is the time of day at `began`. */
struct otlp_times {
	uint64_t wall_us, began, done;
};

/* The ExportTraceServiceRequest. */
void otlp_body(const struct otlp *t, const struct spec *s, const struct outcome *o,
	       const struct otlp_times *when, struct buf *out);

/* Hands it to brig-send; does not wait. */
int otlp_send(const struct otlp *t, const struct buf *body, struct err *e);

/* ---- parts, for otlp_open and their tests ---- */

/* "name=value,name=value" with percent-encoded values. -EINVAL and *e: nothing of it is taken. */
int otlp_pairs_parse(struct arena *a, const char *text, struct otlp_pairs *ret, struct err *e);
/* The same, as HTTP headers that may be sent: names are tokens, values have no control byte. */
int otlp_headers_parse(struct arena *a, const char *text, struct otlp_pairs *ret, struct err *e);
bool otlp_parent_parse(const char *traceparent, struct otlp_parent *ret); /* false: not valid */
bool otlp_decide(const struct otlp *t);
