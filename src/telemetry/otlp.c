/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/otlp.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes/hex.h"
#include "base/text/str.h"
#include "telemetry/send.h"

#define NAME_MAX_BYTES 128
#define KIND_INTERNAL 1
#define STATUS_ERROR 2

static void put_hex(const unsigned char *raw, size_t n, char *out)
{
	hex_encode(raw, n, out);
	out[2 * n] = '\0';
}

void otlp_traceparent(const struct otlp *t, char out[TRACEPARENT_SIZE])
{
	char trace[2 * TRACE_ID_SIZE + 1], span[2 * SPAN_ID_SIZE + 1];

	put_hex(t->trace, TRACE_ID_SIZE, trace);
	put_hex(t->span, SPAN_ID_SIZE, span);
	(void)snprintf(out, TRACEPARENT_SIZE, "00-%s-%s-0%d", trace, span, t->sampled);
}

/* ---- attributes ---- */

static void begin_attribute(struct json *j, const char *name, const char *type)
{
	json_object(j);
	json_kstr(j, "key", name);
	json_kobject(j, "value");
	json_key(j, type);
}

static void end_attribute(struct json *j)
{
	json_object_end(j);
	json_object_end(j);
}

static void attribute(struct json *j, const char *name, const char *value)
{
	if (!value)
		return;
	begin_attribute(j, name, "stringValue");
	json_str(j, value);
	end_attribute(j);
}

/* 64-bit numbers are text in the JSON of protocol buffers. */
static void otlp_put_number(struct json *j, uint64_t v)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	json_str(j, text);
}

static void attribute_number(struct json *j, const char *name, uint64_t v)
{
	begin_attribute(j, name, "intValue");
	otlp_put_number(j, v);
	end_attribute(j);
}

static void attribute_limits(struct json *j, const struct outcome *o)
{
	if (!o->limits_hit)
		return;
	begin_attribute(j, "brig.limits_hit", "arrayValue");
	json_object(j);
	json_karray(j, "values");
	for (int l = 0; l < LIMIT_COUNT; l++)
		if (o->limits_hit & (1U << l)) {
			json_object(j);
			json_kstr(j, "stringValue", limit_name((enum limit)l));
			json_object_end(j);
		}
	json_array_end(j);
	json_object_end(j);
	end_attribute(j);
}

static void attribute_program(struct json *j, const struct spec *s)
{
	const char *slash =
		s->command.argv && s->command.argv[0] ? strrchr(s->command.argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : s->command.argv ? s->command.argv[0] : NULL;

	if (!name)
		return;
	begin_attribute(j, "process.executable.name", "stringValue");
	json_strn(j, name, utf8_cut(name, strnlen(name, NAME_MAX_BYTES)));
	end_attribute(j);
}

static void run_attributes(struct json *j, const struct spec *s, const struct outcome *o)
{
	json_karray(j, "attributes");
	attribute(j, "brig.run.id", o->id[0] ? o->id : NULL);
	attribute(j, "brig.backend", o->backend);
	attribute(j, "brig.policy", fields[FIELD_POLICY].words[s->policy]);
	attribute(j, "brig.network", fields[FIELD_NETWORK].words[s->network]);
	attribute(j, "brig.outcome", outcome_name(o->kind));
	attribute_program(j, s);
	attribute_number(j, "process.exit.code", (uint64_t)outcome_status(o));
	attribute_number(j, "brig.denials", outcome_denied(o));
	attribute_limits(j, o);
	if (outcome_status(o) != 0)
		attribute(j, "error.type",
			  o->error.code ? err_kind_name(o->error.kind) : outcome_name(o->kind));
	json_array_end(j);
}

static void resource(struct json *j, const struct otlp *t)
{
	json_kobject(j, "resource");
	json_karray(j, "attributes");
	attribute(j, "service.name", t->service);
	attribute(j, "service.version", BRIG_VERSION);
	for (size_t i = 0; i < t->resource.n; i++) {
		const struct otlp_pair *p = &t->resource.v[i];

		if (!str_eq(p->name, "service.name") && !str_eq(p->name, "service.version"))
			attribute(j, p->name, p->value);
	}
	json_array_end(j);
	json_object_end(j);
}

/* ---- spans ---- */

struct writer {
	struct json j;
	const struct otlp *t;
	const struct otlp_times *when;
};

static void otlp_put_time(struct writer *w, const char *key, uint64_t clock)
{
	uint64_t since = clock > w->when->began ? clock - w->when->began : 0;

	json_key(&w->j, key);
	otlp_put_number(&w->j, (w->when->wall_us + since) * 1000);
}

/* Opens a span and writes what all have; the caller adds attributes and closes the object. */
static void begin_span(struct writer *w, const char *name, const unsigned char *id,
		       const unsigned char *parent, uint64_t from, uint64_t to)
{
	char text[2 * TRACE_ID_SIZE + 1];

	json_object(&w->j);
	put_hex(w->t->trace, TRACE_ID_SIZE, text);
	json_kstr(&w->j, "traceId", text);
	put_hex(id, SPAN_ID_SIZE, text);
	json_kstr(&w->j, "spanId", text);
	if (parent) {
		put_hex(parent, SPAN_ID_SIZE, text);
		json_kstr(&w->j, "parentSpanId", text);
	}
	if (w->t->parent.state)
		json_kstr(&w->j, "traceState", w->t->parent.state);
	json_kstr(&w->j, "name", name);
	json_ku64(&w->j, "kind", KIND_INTERNAL);
	otlp_put_time(w, "startTimeUnixNano", from);
	otlp_put_time(w, "endTimeUnixNano", to < from ? from : to);
}

static void status(struct writer *w, const struct outcome *o)
{
	json_kobject(&w->j, "status");
	if (outcome_status(o) != 0) {
		json_ku64(&w->j, "code", STATUS_ERROR);
		json_kstr(&w->j, "message", outcome_name(o->kind));
	}
	json_object_end(&w->j);
}

/* The phases in order; the first that was not reached ends them, and the one before it lasted until
 * the end. */
static void phase_spans(struct writer *w, const struct phases *p)
{
	static const char *const names[] = { "plan", "setup", "run", "finish" };
	const uint64_t at[] = { w->when->began, p->planned, p->started, p->ended };

	for (size_t i = 0; i < ARRAY_LEN(names) && at[i]; i++) {
		bool last = i + 1 == ARRAY_LEN(names) || !at[i + 1];
		unsigned char id[SPAN_ID_SIZE] = { 0 };

		(void)!getrandom(id, sizeof(id), 0);
		id[0] |= 1; /* an id is never zero */
		begin_span(w, names[i], id, w->t->span, at[i], last ? w->when->done : at[i + 1]);
		json_object_end(&w->j);
	}
}

void otlp_body(const struct otlp *t, const struct spec *s, const struct outcome *o,
	       const struct otlp_times *when, struct buf *out)
{
	struct writer w = { .t = t, .when = when };
	struct json *j = &w.j;

	json_init(j, out, false);
	json_object(j);
	json_karray(j, "resourceSpans");
	json_object(j);
	resource(j, t);
	json_karray(j, "scopeSpans");
	json_object(j);
	json_kobject(j, "scope");
	json_kstr(j, "name", "brig");
	json_kstr(j, "version", BRIG_VERSION);
	json_object_end(j);
	json_karray(j, "spans");
	begin_span(&w, "brig run", t->span, t->parent.there ? t->parent.span : NULL, when->began,
		   when->done);
	run_attributes(j, s, o);
	status(&w, o);
	json_object_end(j);
	phase_spans(&w, &o->phases);
	json_array_end(j);
	json_object_end(j);
	json_array_end(j);
	json_object_end(j);
	json_array_end(j);
	json_object_end(j);
}

int otlp_send(const struct otlp *t, const struct buf *body, struct err *e)
{
	const char *headers[OTLP_PAIRS_MAX + 2] = { "Content-Type: application/json" };
	CLEANUP(arena) struct arena *a = arena_new((size_t)256 << 10);
	struct send s = { .url = t->url,
			  .headers = headers,
			  .body = body->data,
			  .len = body->len,
			  .timeout_ms = t->timeout_ms,
			  .ca_file = t->ca_file };

	if (!a || body->failed)
		return err_nomem(e);
	for (size_t i = 0; i < t->headers.n; i++) {
		headers[i + 1] =
			arena_printf(a, "%s: %s", t->headers.v[i].name, t->headers.v[i].value);
		if (!headers[i + 1])
			return err_nomem(e);
	}
	return send_detached(&s, e);
}
