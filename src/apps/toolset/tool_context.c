/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_context.c - run_python with `context`: variables live from call to call.
 *
 * A context (interp/context.h) has a name, and a sandbox: its own, or the one that `sandbox` names.
 * When it has ended the name stays, and its next call says what was lost and begins anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "model/request/code.h"
#include "sandbox/manager.h"

#define STREAM_MAX ((size_t)64 << 20)

struct tool_context {
	struct tools *of;
	struct tool_context *next;
	char name[CONTEXT_NAME_SIZE];
	struct tool_box *in;    /* that its calls name; NULL: a box of its own */
	struct tool_box *box;   /* where its program runs; NULL: it does not */
	struct context *live;   /* NULL: nothing runs behind the name */
	struct tool_call *call; /* NULL: idle */
	uint64_t began;
	char lost[CONTEXT_WHY_SIZE]; /* why it has ended, for the next call; "": nobody misses it */
	struct outcome *left; /* what was denied beside its calls, for the next; NULL: nothing */
};

/* ---- output ---- */

/* As much of each stream as the user's limit of output lets a command keep. */
static void keep_output(struct tool_call *c, struct stream *s, const char *p, size_t n)
{
	uint64_t most = c->of->spec->command.output;
	size_t room = most > s->data.len ? (size_t)(most - s->data.len) : 0;

	s->bytes += n;
	if (n > room) {
		n = s->truncated ? 0 : utf8_cut(p, room);
		s->truncated = true;
		outcome_hit(c->o, LIMIT_OUTPUT);
	}
	buf_add(&s->data, p, n);
	call_output(c, s == &c->o->out ? 1 : 2, p, n);
}

/* ---- its end ---- */

static struct outcome *tool_context_left(struct tool_context *x)
{
	if (!x->left)
		x->left = outcome_new();
	return x->left;
}

/* Its program is gone: a sandbox of its own goes with it. */
static void leave_box(struct tool_context *x)
{
	struct tool_box *own = x->in ? NULL : x->box;

	x->box = NULL;
	if (own)
		box_close(own, tool_context_left(x));
}

static void tool_context_stop(struct tool_context *x)
{
	if (x->live)
		context_finish(x->live, "it was begun anew");
	leave_box(x);
}

/* ---- the end of a call ---- */

static void leave_call(struct tool_context *x)
{
	x->call->context = NULL;
	x->call = NULL;
}

static void tool_context_tell(struct tool_context *x, struct tool_call *c, enum outcome_kind kind,
			      bool late)
{
	if (late)
		outcome_hit(c->o, LIMIT_TIMEOUT);
	c->o->kind = late ? OUTCOME_TIMEOUT : c->cancelled ? OUTCOME_CANCELLED : kind;
	c->o->duration_us = clock_us() - x->began;
	if (x->live)
		context_explain(x->live, c->o);
	if (c->box)
		box_end_call(c, c->o);
	if (x->left)
		outcome_deny_since(c->o, x->left, NULL);
	x->left = outcome_free(x->left);
	result_run(c, c->o);
}

static void on_answered(void *arg, int code, bool late)
{
	struct tool_context *x = arg;
	struct tool_call *c = x->call;

	c->o->exit_code = code;
	tool_context_tell(x, c, OUTCOME_EXITED, late);
	if (late)
		buf_puts(&c->result.text, CONTEXT_INTERRUPTED);
	leave_call(x);
	call_end(c);
}

static void fail_call(struct tool_context *x, const struct outcome *o, bool late)
{
	struct tool_call *c = x->call;
	bool limit = o && (o->kind == OUTCOME_OOM || o->kind == OUTCOME_LIMIT);

	if (o)
		keep_output(c, &c->o->err, buf_str(&o->err.data), o->err.data.len);
	(void)err_refuse(
		&c->o->error, ERR_UNAVAILABLE, ECHILD, "the next call with this name begins anew",
		"context '%s' has ended (%s), and its variables are lost", x->name, x->lost);
	c->box = x->in;
	tool_context_tell(x, c, limit ? o->kind : OUTCOME_FAILED, late);
	x->lost[0] = '\0';
	leave_call(x);
	call_end(c);
}

static void on_ended(void *arg, const char *why, const struct outcome *o, bool called, bool late)
{
	struct tool_context *x = arg;

	(void)snprintf(x->lost, sizeof(x->lost), "%s", why);
	if (o && tool_context_left(x))
		outcome_deny_since(x->left, o, NULL);
	if (called && x->call)
		context_explain(x->live, x->call->o);
	x->live = context_free(x->live);
	leave_box(x);
	if (called && x->call)
		fail_call(x, o, late);
}

/* ---- what happens to it ---- */

static void tool_context_on_output(void *arg, int stream, const char *p, size_t n)
{
	struct tool_context *x = arg;
	struct outcome *o = x->call ? x->call->o : NULL;

	if (o)
		keep_output(x->call, stream == 1 ? &o->out : &o->err, p, n);
}

static void tool_context_on_said(void *arg, const struct interp_answer *a)
{
	struct tool_context *x = arg;

	if (a->type == INTERP_SHOW)
		shown_add(x->call, a);
	else
		tool_context_on_output(x, 2, a->text, strlen(a->text));
}

static int tool_context_start(struct tool_context *x, struct err *e)
{
	const struct context_listener by = { .output = tool_context_on_output,
					     .said = tool_context_on_said,
					     .answered = on_answered,
					     .ended = on_ended,
					     .arg = x };

	char name[CONTEXT_NAME_SIZE + 16];

	(void)snprintf(name, sizeof(name), "context %s", x->name);
	x->box = x->in;
	if (!x->box && box_open(x->of, name, &x->box, e) < 0)
		return -e->code;
	return context_new(x->of->loop, x->box->sandbox, &by, &x->live, e);
}

/* ---- by name ---- */

static void tool_context_forget(struct tool_context *x)
{
	struct tool_context **at = &x->of->contexts;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	x->of->context_count--;
	tool_context_stop(x);
	(void)outcome_free(x->left);
	free(x);
}

/* The oldest name behind which nothing runs makes room. */
static bool tool_context_make_room(struct tools *t)
{
	struct tool_context *oldest = NULL;

	if (t->context_count < CONTEXTS_MAX)
		return true;
	for (struct tool_context *x = t->contexts; x; x = x->next)
		if (!x->live && !x->call)
			oldest = x;
	if (oldest)
		tool_context_forget(oldest);
	return oldest != NULL;
}

static int tool_context_add(struct tools *t, const char *name, struct tool_box *in,
			    struct tool_context **ret, struct err *e)
{
	struct tool_context *x;

	if (!tool_context_make_room(t))
		return err_refuse(e, ERR_USAGE, EAGAIN,
				  "use one of them, with restart: true if its variables may go",
				  "there are %d contexts already", CONTEXTS_MAX);
	x = calloc(1, sizeof(*x));
	if (!x)
		return err_nomem(e);
	*x = (struct tool_context){ .of = t, .next = t->contexts, .in = in };
	(void)snprintf(x->name, sizeof(x->name), "%s", name);
	t->contexts = x;
	t->context_count++;
	*ret = x;
	return 0;
}

bool contexts_asked(const struct jread *args)
{
	const struct jread *v = jread_get(args, "context");

	return jread_kind(v) == JREAD_BOOL ? jread_bool(args, "context")
					   : args_there(args, "context");
}

static int tool_context_name_of(const struct jread *args, const char **ret, struct err *e)
{
	*ret = "main";
	if (jread_kind(jread_get(args, "context")) != JREAD_BOOL &&
	    args_text(args, "context", 63, ret, e) < 0)
		return -e->code;
	return context_name_ok(*ret)
		       ? 0
		       : err_set(e, ERR_USAGE, EINVAL,
				 "a name has lower-case letters, digits, '.', '_' and '-'");
}

static int tool_context_find(struct tool_call *c, const struct jread *args, const char *name,
			     struct tool_context **ret, struct err *e)
{
	struct tool_box *in = NULL;
	struct tool_context *x = c->of->contexts;

	if (box_of(c->of, args, &in, e) < 0)
		return -e->code;
	while (x && (x->in != in || !str_eq(x->name, name)))
		x = x->next;
	if (x && x->call)
		return err_refuse(e, ERR_USAGE, EBUSY, "wait for it, or name another context",
				  "context '%s' is busy with another call", name);
	*ret = x;
	return x ? 0 : tool_context_add(c->of, name, in, ret, e);
}

/* ---- a call ---- */

static int tool_context_check(const struct tool_call *c, const struct jread *args, struct err *e)
{
	const struct jread *list = jread_get(args, "args");

	if (args_there(args, "args") && jread_kind(list) != JREAD_ARRAY)
		return err_set(e, ERR_USAGE, EINVAL, "'args' must be a list of strings");
	for (size_t i = 0; i < jread_count(list); i++)
		if (!jread_text(jread_at(list, i)))
			return err_set(e, ERR_USAGE, EINVAL, "'args' must be a list of strings");
	return call_check_offline(c, "context", e);
}

static int tool_context_attach(struct tool_context *x, struct tool_call *c, struct err *e)
{
	c->o = outcome_new();
	if (!c->o)
		return err_nomem(e);
	c->o->out.data = c->o->err.data = (struct buf)BUF_INIT(STREAM_MAX);
	c->o->dialect = c->of->spec->dialect_used;
	c->o->timeout_ms = c->timeout_ms;
	(void)snprintf(c->o->id, sizeof(c->o->id), "%s", context_run_id(x->live));
	c->box = x->box;
	box_begin_call(c);
	c->context = x;
	x->call = c;
	x->began = clock_us();
	return 0;
}

static int tool_context_ask(struct tool_context *x, const struct tool_call *c,
			    const struct jread *args, const char *code, struct err *e)
{
	const struct jread *list = jread_get(args, "args");
	size_t n = jread_count(list);
	CLEANUP(mem) const char **words = calloc(n + 1, sizeof(*words));

	if (!words)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++)
		words[i] = jread_text(jread_at(list, i));
	return context_ask(x->live, code, words, c->timeout_ms, e);
}

static void say_new(struct tool_context *x, struct tool_call *c)
{
	if (x->lost[0])
		buf_printf(&c->plain,
			   "[context '%s' had ended (%s): this is a new one, and what was in it is "
			   "lost]\n",
			   x->name, x->lost);
	x->lost[0] = '\0';
}

int contexts_run(struct tool_call *c, const struct jread *args, const char *code, struct err *e)
{
	struct tool_context *x = NULL;
	const char *name;
	bool again = false;

	if (tool_context_check(c, args, e) < 0 || args_flag(args, "restart", &again, e) < 0 ||
	    call_timeout(c, args, CODE_PYTHON, e) < 0 || tool_context_name_of(args, &name, e) < 0)
		return -e->code;
	if (is_far(c))
		return far_context(c, args, name, code, again, e);
	if (tool_context_find(c, args, name, &x, e) < 0)
		return -e->code;
	if (again) {
		tool_context_stop(x);
		x->lost[0] = '\0';
	}
	if (x->live && context_dying(x->live)) /* between two calls; it has not ended yet */
		context_finish(x->live, NULL);
	if ((!x->live && tool_context_start(x, e) < 0) || tool_context_attach(x, c, e) < 0 ||
	    tool_context_ask(x, c, args, code, e) < 0) {
		if (x->call)
			leave_call(x);
		tool_context_stop(x);
		return -e->code;
	}
	say_new(x, c);
	return 0;
}

void contexts_cancel(struct tool_call *c)
{
	context_cancel(c->context->live);
}

void contexts_forget(struct tool_call *c)
{
	if (c->context)
		c->context->call = NULL;
}

void contexts_leave(struct tools *t, const struct tool_box *b)
{
	struct tool_context *next;

	for (struct tool_context *x = t->contexts; x; x = next) {
		next = x->next;
		if (x->in != b)
			continue;
		if (x->call && x->live)
			context_finish(x->live, "its sandbox was deleted");
		tool_context_forget(x);
	}
}

void contexts_free(struct tools *t)
{
	while (t->contexts)
		tool_context_forget(t->contexts);
}
