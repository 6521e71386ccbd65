/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/run_telemetry.h"

#include <stdio.h>
#include <string.h>

#include "base/sys/clock.h"
#include "base/text/str.h"
#include "telemetry/metrics.h"
#include "telemetry/metrics_file.h"

#define ARENA_MAX ((size_t)1 << 20)
#define BODY_MAX ((size_t)1 << 20)

static void run_telemetry_say(const struct telemetry *t, const char *what, const struct err *e)
{
	char text[sizeof(e->what) + sizeof(e->hint) + 64];

	(void)snprintf(text, sizeof(text), "%s: %s%s%s", what, e->what, e->hint[0] ? "; " : "",
		       e->hint);
	if (t->note)
		t->note(t->note_arg, text);
}

static bool passes(const struct spec *s, const char *name)
{
	for (size_t i = 0; i < s->env_pass.n; i++)
		if (str_eq(s->env_pass.v[i], name))
			return true;
	return false;
}

void telemetry_pass(struct telemetry *t, struct spec *s)
{
	char text[sizeof("TRACEPARENT=") + TRACEPARENT_SIZE] = "TRACEPARENT=";
	struct err e = { 0 };

	if (!t->arena || !passes(s, "TRACEPARENT"))
		return;
	otlp_traceparent(&t->otlp, text + strlen(text));
	if (spec_set(s, FIELD_ENV, text, ORIGIN_API, &e) < 0)
		run_telemetry_say(t, "the command does not get the run's TRACEPARENT", &e);
}

void telemetry_begin(struct telemetry *t, note_fn *note, void *note_arg)
{
	CLEANUP(arena) struct arena *a = arena_new(ARENA_MAX);
	struct err e = { 0 };
	int r;

	*t = (struct telemetry){ .note = note, .note_arg = note_arg };
	t->when.wall_us = clock_wall_us();
	t->when.began = clock_us();
	r = a ? otlp_open(a, environ, &t->otlp, &e) : err_nomem(&e);
	if (r < 0)
		run_telemetry_say(t, "no trace", &e);
	if (r <= 0)
		return;
	if (t->otlp.warning && note)
		note(note_arg, t->otlp.warning);
	t->arena = TAKE_PTR(a);
}

/* false: a trace was wanted and could not be handed over. */
static bool send_trace(struct telemetry *t, const struct spec *s, const struct outcome *o)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	struct err e = { 0 };

	if (!t->arena || !t->otlp.sampled)
		return true;
	t->when.done = clock_us();
	otlp_body(&t->otlp, s, o, &t->when, &body);
	if (otlp_send(&t->otlp, &body, &e) == 0)
		return true;
	run_telemetry_say(t, "the trace was not sent", &e);
	return false;
}

static void write_metrics(const struct telemetry *t, const char *path, const struct outcome *o,
			  bool sent)
{
	CLEANUP(metrics) struct metrics *m = metrics_new();
	struct err e = { 0 }, why = { 0 };

	if (!m) {
		(void)err_nomem(&e);
		run_telemetry_say(t, "this run is missing in the metrics", &e);
		return;
	}
	metrics_count_run(m, o);
	metrics_add(m, METRIC_EXPORT_FAILURES, NULL, NULL, !sent);
	if (metrics_file_add(path, m, &why, &e) < 0)
		run_telemetry_say(t, "this run is missing in the metrics", &e);
	else if (why.code)
		run_telemetry_say(
			t, "the metrics file was not as brig wrote it, counting starts afresh",
			&why);
}

void telemetry_end(struct telemetry *t, const struct spec *s, const struct outcome *o)
{
	bool sent = send_trace(t, s, o);

	/* A spec that was refused may still have the path as it was written. */
	if (s->metrics_textfile && s->metrics_textfile[0] == '/')
		write_metrics(t, s->metrics_textfile, o, sent);
	t->arena = arena_free(t->arena);
}
