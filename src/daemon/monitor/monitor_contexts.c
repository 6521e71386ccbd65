/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_contexts.c - Python that stays in a monitor's sandbox: calls of contexts.
 *
 * A call is a command to everybody else: it has an id, a file with what it wrote and showed, an end
 * with an outcome, and can be cancelled. Behind a name runs one program (interp/context.h). When it
 * has ended the name stays, and the next call says what was lost and begins anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/json.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/monitor/monitor_internal.h"
#include "interp/context.h"
#include "proc/order.h"
#include "sandbox/manager.h"

struct monitor_context {
	struct monitor *m;
	struct monitor_context *next;
	char name[CONTEXT_NAME_SIZE];
	struct context *live;      /* NULL: nothing runs behind the name */
	struct monitor_task *call; /* NULL: idle */
	char lost[CONTEXT_WHY_SIZE];
};

/* One call, as far as it has come. */
struct context_call {
	struct monitor_context *of;
	struct outcome *o;
	uint64_t began, most; /* most: bytes kept of each stream; 0: all */
	size_t shown, shown_bytes;
	bool cancelled;
};

/* ---- what comes out ---- */

/* As much of each stream as the limit lets a command keep. */
static void keep_text(struct monitor_task *t, int stream, const char *p, size_t n)
{
	struct context_call *c = t->call;
	struct stream *s = stream == 2 ? &c->o->err : &c->o->out;
	size_t room = s->bytes < c->most ? (size_t)(c->most - s->bytes) : 0;

	s->bytes += n;
	if (c->most && n > room) {
		n = s->truncated ? 0 : utf8_cut(p, room);
		s->truncated = true;
		outcome_hit(c->o, LIMIT_OUTPUT);
	}
	if (n)
		task_keep(t, stream == 2 ? KEPT_ERRORS : KEPT_OUTPUT, p, n);
}

static void monitor_contexts_on_output(void *arg, int stream, const char *p, size_t n)
{
	const struct monitor_context *x = arg;

	if (x->call)
		keep_text(x->call, stream, p, n);
}

/* Who hears of it twice knows it by its number. */
static void open_shown(const struct monitor_task *t, struct json *j, struct buf *b,
		       const char *type)
{
	json_init(j, b, false);
	json_object(j);
	json_ku64(j, "number", t->call->shown + 1);
	json_kstr(j, "type", type);
}

/* What is beyond the bounds is dropped. */
static void keep_shown(struct monitor_task *t, struct json *j, const struct buf *b)
{
	struct context_call *c = t->call;

	json_object_end(j);
	if (b->failed || c->shown == CONTEXT_SHOWN_MAX ||
	    b->len > CONTEXT_SHOWN_BYTES - c->shown_bytes) {
		t->lost = true;
		return;
	}
	c->shown++;
	c->shown_bytes += b->len;
	task_keep(t, KEPT_SHOWN, buf_str(b), b->len);
}

static void put_data(struct json *j, const struct interp_answer *a)
{
	json_kobject(j, "data");
	for (int m = 0; m < MIME_COUNT; m++)
		if (a->data[m])
			json_kstr(j, interp_mime_name((enum interp_mime)m), a->data[m]);
	json_object_end(j);
}

static void monitor_contexts_put_error(struct json *j, const struct interp_answer *a)
{
	json_kstr(j, "name", a->name);
	json_kstr(j, "message", a->message);
	json_kstr(j, "trace", a->text);
}

static void monitor_contexts_on_said(void *arg, const struct interp_answer *a)
{
	CLEANUP(buf) struct buf b = BUF_INIT(KEPT_FRAME_MAX);
	const struct monitor_context *x = arg;
	struct json j;

	if (!x->call)
		return;
	open_shown(x->call, &j, &b,
		   a->type == INTERP_FAIL ? "error"
		   : a->value             ? "value"
					  : "display");
	if (a->type == INTERP_SHOW)
		put_data(&j, a);
	else
		monitor_contexts_put_error(&j, a);
	keep_shown(x->call, &j, &b);
	if (a->type == INTERP_FAIL)
		keep_text(x->call, 2, a->text, strlen(a->text));
}

static void say_new(struct monitor_task *t, struct monitor_context *x)
{
	CLEANUP(buf) struct buf b = BUF_INIT(KEPT_FRAME_MAX);
	struct json j;

	if (!x->lost[0])
		return;
	open_shown(t, &j, &b, "new");
	json_kstr(&j, "why", x->lost);
	keep_shown(t, &j, &b);
	x->lost[0] = '\0';
}

/* ---- the end of a call ---- */

static struct context_call *call_free(struct context_call *c)
{
	if (c)
		(void)outcome_free(c->o);
	free(c);
	return NULL;
}

static void end_call(struct monitor_context *x, enum outcome_kind kind, bool late)
{
	struct monitor_task *t = x->call;
	struct context_call *c = t->call;
	brig_result *r;

	if (late)
		outcome_hit(c->o, LIMIT_TIMEOUT);
	c->o->kind = late ? OUTCOME_TIMEOUT : c->cancelled ? OUTCOME_CANCELLED : kind;
	c->o->duration_us = clock_us() - c->began;
	if (x->live)
		context_explain(x->live, c->o);
	r = result_new(c->o);
	if (r)
		c->o = NULL;
	x->call = NULL;
	t->call = call_free(c);
	task_over(t, r);
}

static void on_answered(void *arg, int code, bool late)
{
	struct monitor_context *x = arg;

	x->call->call->o->exit_code = code;
	end_call(x, OUTCOME_EXITED, late);
}

static void fail_call(struct monitor_context *x, const struct outcome *o, bool late)
{
	struct context_call *c = x->call->call;
	bool limit = o && (o->kind == OUTCOME_OOM || o->kind == OUTCOME_LIMIT);

	if (o) {
		keep_text(x->call, 2, buf_str(&o->err.data), o->err.data.len);
		outcome_deny_since(c->o, o, NULL);
	}
	(void)err_refuse(
		&c->o->error, ERR_UNAVAILABLE, ECHILD, "the next call with this name begins anew",
		"context '%s' has ended (%s), and its variables are lost", x->name, x->lost);
	x->lost[0] = '\0';
	end_call(x, limit ? o->kind : OUTCOME_FAILED, late);
}

static void on_ended(void *arg, const char *why, const struct outcome *o, bool called, bool late)
{
	struct monitor_context *x = arg;

	(void)snprintf(x->lost, sizeof(x->lost), "%s", why);
	if (called && x->call)
		context_explain(x->live, x->call->call->o);
	x->live = context_free(x->live);
	if (called && x->call)
		fail_call(x, o, late);
	else if (o)
		monitor_left(x->m, o);
}

/* ---- by name ---- */

static void monitor_contexts_forget(struct monitor_context *x)
{
	struct monitor_context **at = &x->m->contexts;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	free(x);
}

/* The oldest name behind which nothing runs makes room. */
static bool monitor_contexts_make_room(struct monitor *m)
{
	struct monitor_context *oldest = NULL;
	size_t n = 0;

	for (struct monitor_context *x = m->contexts; x; x = x->next, n++)
		if (!x->live && !x->call)
			oldest = x;
	if (n >= CONTEXTS_MAX && oldest)
		monitor_contexts_forget(oldest);
	return n < CONTEXTS_MAX || oldest;
}

static int monitor_contexts_find(struct monitor *m, const char *name, struct monitor_context **ret,
				 struct err *e)
{
	struct monitor_context *x = m->contexts;

	if (!context_name_ok(name))
		return err_set(e, ERR_USAGE, EINVAL, "that is no name of a context");
	while (x && !str_eq(x->name, name))
		x = x->next;
	if (x && x->call)
		return err_refuse(e, ERR_USAGE, EBUSY, "wait for it, or name another context",
				  "context '%s' is busy with another call", name);
	if (!x && !monitor_contexts_make_room(m))
		return err_refuse(e, ERR_USAGE, EAGAIN,
				  "use one of them, with restart if its variables may go",
				  "there are %d contexts already", CONTEXTS_MAX);
	if (!x) {
		x = calloc(1, sizeof(*x));
		if (!x)
			return err_nomem(e);
		*x = (struct monitor_context){ .m = m, .next = m->contexts };
		(void)snprintf(x->name, sizeof(x->name), "%s", name);
		m->contexts = x;
	}
	*ret = x;
	return 0;
}

/* ---- a call ---- */

static int monitor_contexts_start(struct monitor_context *x, bool again, struct err *e)
{
	const struct context_listener by = { .output = monitor_contexts_on_output,
					     .said = monitor_contexts_on_said,
					     .answered = on_answered,
					     .ended = on_ended,
					     .arg = x };

	if (x->live && (again || context_dying(x->live)))
		context_finish(x->live, again ? "it was begun anew" : NULL);
	if (again)
		x->lost[0] = '\0';
	return x->live ? 0 : context_new(x->m->loop, x->m->sandbox, &by, &x->live, e);
}

static struct context_call *call_new(struct monitor_context *x, const struct command_limits *limits)
{
	const struct outcome *facts = sandbox_facts(x->m->sandbox);
	struct context_call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct context_call){
		.of = x, .o = outcome_new(), .began = clock_us(), .most = limits->output
	};
	if (!c->o)
		return call_free(c);
	c->o->started = true;
	c->o->timeout_ms = limits->timeout;
	c->o->backend = facts->backend;
	if (facts->isolation)
		outcome_contain(c->o, facts->isolation);
	c->o->timeout_by = limits->timeout ? ENFORCER_MONITOR : ENFORCER_NONE;
	c->o->output_by = ENFORCER_MONITOR;
	(void)snprintf(c->o->id, sizeof(c->o->id), "%s", context_run_id(x->live));
	return c;
}

int contexts_call(struct monitor_task *t, const struct order *o, bool again,
		  const struct command_limits *limits, struct err *e)
{
	struct monitor_context *x = NULL;

	if (!o->argv[0] || !o->argv[1])
		return err_set(e, ERR_USAGE, EPROTO, "the code could not be read");
	if (monitor_contexts_find(t->m, o->argv[0], &x, e) < 0 ||
	    monitor_contexts_start(x, again, e) < 0)
		return -e->code;
	t->call = call_new(x, limits);
	if (!t->call)
		return err_nomem(e);
	if (context_ask(x->live, o->argv[1], o->argv + 2, limits->timeout, e) < 0) {
		t->call = call_free(t->call);
		return -e->code;
	}
	x->call = t;
	return 0;
}

void contexts_began(struct monitor_task *t)
{
	if (t->call)
		say_new(t, t->call->of);
}

void contexts_interrupt(struct monitor_task *t, bool cancel)
{
	t->call->cancelled |= cancel;
	context_cancel(t->call->of->live);
}

/* ---- of all of them ---- */

size_t contexts_living(const struct monitor *m)
{
	size_t n = 0;

	for (const struct monitor_context *x = m->contexts; x; x = x->next)
		n += x->live != NULL;
	return n;
}

void contexts_rest(struct monitor *m, bool on)
{
	for (struct monitor_context *x = m->contexts; x; x = x->next)
		if (x->live)
			context_rest(x->live, on);
}

void contexts_end(struct monitor *m)
{
	while (m->contexts) {
		struct monitor_context *x = m->contexts;

		if (x->live)
			context_finish(x->live, "its sandbox has ended");
		monitor_contexts_forget(x);
	}
}
