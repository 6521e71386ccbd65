/* SPDX-License-Identifier: Apache-2.0 */
/* tools/tool_context.c - run_python with `context`: variables live from call to call.
 *
 *	absent -> starting -> idle <-> busy -> (dying ->) dead -> starting ...
 *
 * A context has a name, and a command of an open sandbox: its own, or the one that `sandbox` names.
 * What ends it (its program's end, what is no answer, an interrupt that is not obeyed, half an hour
 * without use) ends all that its code has started; the name stays, and its next call says what was
 * lost and begins anew. One timer serves all states: `due` says what for. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "model/code.h"
#include "sandbox/manager.h"
#include "tools/tools_internal.h"

#define CONTEXTS_MAX 8
#define GRACE_US 3000000 /* from an interrupt to the end */
#define LAST_US 1000000  /* from the end of its output to its own */
#define IDLE_US ((uint64_t)1800000000)
#define STREAM_MAX ((size_t)64 << 20)

enum context_due { DUE_NOTHING, DUE_LIMIT, DUE_GRACE, DUE_LOST, DUE_IDLE };

struct tool_context {
	struct loop_watch w; /* first; of its run */
	struct loop_timer timer;
	enum context_due due;
	struct tools *of;
	struct tool_context *next;
	char name[64];
	struct tool_box *in;  /* that its calls name; NULL: a box of its own */
	struct tool_box *box; /* where its program runs; NULL: it does not */
	brig_request *request;
	brig_run *run;
	int in_fd;  /* what its run reads from, as long as that lasts; -1: none */
	int err_fd; /* what Python said before the program began: read at its end */
	struct interp *interp;
	struct tool_call *call; /* NULL: idle */
	uint64_t began;
	bool late;          /* the call's time is over */
	char lost[160];     /* why it has ended, for the next call; "": nobody misses anything */
	struct buf denials; /* of the sandbox that went with it, in words */
};

static void set_due(struct tool_context *x, enum context_due due, uint64_t in_us)
{
	x->due = due;
	loop_at(x->of->loop, &x->timer, due ? clock_us() + in_us : 0);
}

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

static void keep_denials(struct tool_context *x, const brig_result *r)
{
	if (r && result_outcome(r)->denial_count)
		result_put_denials(&x->denials, result_outcome(r));
}

/* Ends the program with all that it has started; *ret (may be NULL) is how it ended. */
static void stop(struct tool_context *x, brig_result **ret)
{
	brig_result *box = NULL, *how = NULL;
	struct tool_box *own = x->in ? NULL : x->box;

	set_due(x, DUE_NOTHING, 0);
	x->interp = interp_free(x->interp);
	if (x->w.events)
		(void)loop_want(x->of->loop, &x->w, 0);
	if (x->run)
		box_end_run(x->box, x->request, x->run, &how);
	x->run = NULL;
	keep_denials(x, how);
	if (ret)
		*ret = how;
	else
		brig_result_free(how);
	x->in_fd = fd_close(x->in_fd);
	x->err_fd = fd_close(x->err_fd);
	brig_request_free(x->request);
	x->request = NULL;
	x->box = NULL;
	if (!own)
		return;
	box_close(own, &box);
	keep_denials(x, box);
	brig_result_free(box);
}

/* ---- the end of a call ---- */

static void leave_call(struct tool_context *x)
{
	x->call->context = NULL;
	x->call = NULL;
	x->late = false;
}

static void tell(struct tool_context *x, struct tool_call *c, enum outcome_kind kind)
{
	if (x->late)
		outcome_hit(c->o, LIMIT_TIMEOUT);
	c->o->kind = x->late ? OUTCOME_TIMEOUT : c->cancelled ? OUTCOME_CANCELLED : kind;
	c->o->duration_us = clock_us() - x->began;
	result_run(c, c->o);
}

static void add_denials(struct tool_context *x, struct buf *b)
{
	buf_add(b, buf_str(&x->denials), x->denials.len);
	x->denials.len = 0;
}

static void answered(struct tool_context *x, const struct interp_answer *a)
{
	struct tool_call *c = x->call;

	c->o->exit_code = a->code;
	tell(x, c, OUTCOME_EXITED);
	if (x->late)
		buf_puts(&c->result.text,
			 "\nThe code was interrupted; the variables of the context are still "
			 "there.");
	add_denials(x, &c->result.text);
	leave_call(x);
	call_end(c);
	set_due(x, DUE_IDLE, IDLE_US);
}

/* Why its program is gone, as far as the run of it knows better. */
static void say_lost(struct tool_context *x, const struct outcome *o, const char *why)
{
	char how[48] = "";

	if (o && o->kind == OUTCOME_EXITED)
		(void)snprintf(how, sizeof(how), ", exit code %d", o->exit_code);
	else if (o && o->kind == OUTCOME_SIGNALLED)
		(void)snprintf(how, sizeof(how), ", signal %d", o->signal);
	else if (o && o->kind != OUTCOME_CANCELLED)
		(void)snprintf(how, sizeof(how), ", %s", outcome_name(o->kind));
	(void)snprintf(x->lost, sizeof(x->lost), "%s%s", why, how);
}

static void fail_call(struct tool_context *x, const struct outcome *o)
{
	struct tool_call *c = x->call;
	bool limit = o && (o->kind == OUTCOME_OOM || o->kind == OUTCOME_LIMIT);

	if (o)
		keep_output(c, &c->o->err, buf_str(&o->err.data), o->err.data.len);
	(void)err_refuse(
		&c->o->error, ERR_UNAVAILABLE, ECHILD, "the next call with this name begins anew",
		"context '%s' has ended (%s), and its variables are lost", x->name, x->lost);
	c->box = x->in;
	tell(x, c, limit ? o->kind : OUTCOME_FAILED);
	add_denials(x, &c->result.text);
	x->lost[0] = '\0';
	leave_call(x);
	call_end(c);
}

/* Its program is gone, or has to go. */
static void died(struct tool_context *x, const char *why)
{
	char copy[sizeof(x->lost)], said[4096];
	ssize_t n = x->call ? read(x->err_fd, said, sizeof(said)) : 0;
	brig_result *r = NULL;
	const struct outcome *o;

	if (n > 0)
		keep_output(x->call, &x->call->o->err, said, (size_t)n);
	(void)snprintf(copy, sizeof(copy), "%s", why); /* it may be x->lost */
	stop(x, &r);
	o = r ? result_outcome(r) : NULL;
	say_lost(x, o, copy);
	if (x->call)
		fail_call(x, o);
	brig_result_free(r);
}

/* ---- what happens to it ---- */

static void on_run(struct loop_watch *w, uint32_t events)
{
	struct tool_context *x = (struct tool_context *)w;

	(void)events;
	if (!brig_run_dispatch(x->run))
		died(x, x->lost[0] ? x->lost : "its process has ended");
}

static void on_due(struct loop_timer *t, uint64_t now)
{
	struct tool_context *x =
		(struct tool_context *)((char *)t - offsetof(struct tool_context, timer));

	(void)now;
	switch (x->due) {
	case DUE_LIMIT:
		x->late = true;
		interp_interrupt(x->interp);
		set_due(x, DUE_GRACE, GRACE_US);
		break;
	case DUE_GRACE:
		died(x, "its code did not obey an interrupt");
		break;
	case DUE_LOST:
		died(x, x->lost);
		break;
	case DUE_IDLE:
		died(x, "it was not used for half an hour");
		break;
	case DUE_NOTHING:
		break;
	}
}

static void on_answer(void *arg, const struct interp_answer *a)
{
	struct tool_context *x = arg;
	struct tool_call *c = x->call;

	if (a->type == INTERP_OUT)
		keep_output(c, a->stream == 1 ? &c->o->out : &c->o->err, a->text, strlen(a->text));
	else if (a->type == INTERP_FAIL)
		keep_output(c, &c->o->err, a->text, strlen(a->text));
	else if (a->type == INTERP_SHOW)
		shown_add(c, a);
	else if (a->type == INTERP_DONE)
		answered(x, a);
}

/* Of a program that is gone the run knows better why; it is waited for a moment. */
static void on_lost(void *arg, const char *why, bool gone)
{
	struct tool_context *x = arg;

	(void)snprintf(x->lost, sizeof(x->lost), "%s", why);
	set_due(x, DUE_LOST, gone ? LAST_US : 0);
}

/* ---- its beginning ---- */

static int follow(struct tool_context *x, int to, int from, struct err *e)
{
	const struct interp_listener by = { .answer = on_answer, .lost = on_lost, .arg = x };

	if (interp_new(x->of->loop, to, from, &by, &x->interp, e) < 0)
		return -e->code;
	x->w = (struct loop_watch){ .fd = brig_run_fd(x->run), .ready = on_run };
	if (x->w.fd < 0 || loop_want(x->of->loop, &x->w, EPOLLIN) < 0)
		return err_set(e, ERR_INTERNAL, EIO, "the context cannot be followed");
	return 0;
}

/* The sandbox's settings hold; time and output are a call's. */
static int begin_run(struct tool_context *x, int out, int err, struct err *e)
{
	static const char *const argv[] = { "python3", "-c", interp_program, NULL };
	struct brig_error be = { .errnum = ENOMEM, .code = "internal", .what = "out of memory" };

	x->request = brig_sandbox_command(x->box->sandbox);
	if (!x->request || brig_request_argv(x->request, argv, &be) < 0 ||
	    brig_request_set(x->request, "limits.timeout", "none", &be) < 0) {
		error_import(&be, e);
		return -e->code;
	}
	request_spec(x->request)->command.output = 0;
	request_spec(x->request)->origin[FIELD_OUTPUT] = ORIGIN_API;
	brig_request_stdio(x->request, x->in_fd, out, err);
	request_apart(x->request);
	if (brig_sandbox_exec(x->box->sandbox, x->request, &x->run, &be) < 0) {
		error_import(&be, e);
		return -e->code;
	}
	return 0;
}

/* Each end has its place at once, for who closes it. */
static int make_pipe(int *from, int *to, int flags, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | flags) < 0)
		return err_sys(e, "a context needs pipes");
	*from = ends[0];
	*to = ends[1];
	return 0;
}

static int start(struct tool_context *x, struct err *e)
{
	CLEANUP(fd) int to = -1, from = -1, out = -1, err = -1;

	if (make_pipe(&x->in_fd, &to, 0, e) < 0 || make_pipe(&from, &out, 0, e) < 0 ||
	    make_pipe(&x->err_fd, &err, O_NONBLOCK, e) < 0)
		return -e->code;
	x->box = x->in;
	if ((!x->box && box_open(x->of, &x->box, e) < 0) || begin_run(x, out, err, e) < 0)
		return -e->code;
	return follow(x, TAKE_FD(to), TAKE_FD(from), e);
}

/* ---- by name ---- */

static void context_free(struct tool_context *x)
{
	struct tool_context **at = &x->of->contexts;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	x->of->context_count--;
	stop(x, NULL);
	buf_done(&x->denials);
	free(x);
}

/* The oldest name behind which nothing runs makes room. */
static bool make_room(struct tools *t)
{
	struct tool_context *oldest = NULL;

	if (t->context_count < CONTEXTS_MAX)
		return true;
	for (struct tool_context *x = t->contexts; x; x = x->next)
		if (!x->run && !x->call)
			oldest = x;
	if (oldest)
		context_free(oldest);
	return oldest != NULL;
}

static int context_new(struct tools *t, const char *name, struct tool_box *in,
		       struct tool_context **ret, struct err *e)
{
	struct tool_context *x;

	if (!make_room(t))
		return err_refuse(e, ERR_USAGE, EAGAIN,
				  "use one of them, with restart: true if its variables may go",
				  "there are %d contexts already", CONTEXTS_MAX);
	x = calloc(1, sizeof(*x));
	if (!x)
		return err_nomem(e);
	*x = (struct tool_context){ .timer.due = on_due,
				    .of = t,
				    .next = t->contexts,
				    .in = in,
				    .in_fd = -1,
				    .err_fd = -1,
				    .denials = BUF_INIT((size_t)1 << 16) };
	(void)snprintf(x->name, sizeof(x->name), "%s", name);
	t->contexts = x;
	t->context_count++;
	*ret = x;
	return 0;
}

bool context_asked(const struct jread *args)
{
	const struct jread *v = jread_get(args, "context");

	return jread_kind(v) == JREAD_BOOL ? jread_bool(args, "context")
					   : args_there(args, "context");
}

static int find(struct tool_call *c, const struct jread *args, struct tool_context **ret,
		struct err *e)
{
	const char *name = "main";
	struct tool_box *in = NULL;
	struct tool_context *x = c->of->contexts;

	if (jread_kind(jread_get(args, "context")) != JREAD_BOOL &&
	    args_text(args, "context", 63, &name, e) < 0)
		return -e->code;
	if (!box_name_ok(name))
		return err_set(e, ERR_USAGE, EINVAL,
			       "a name has lower-case letters, digits, '.', '_' and '-'");
	if (box_of(c->of, args, &in, e) < 0)
		return -e->code;
	while (x && (x->in != in || !str_eq(x->name, name)))
		x = x->next;
	if (x && x->call)
		return err_refuse(e, ERR_USAGE, EBUSY, "wait for it, or name another context",
				  "context '%s' is busy with another call", name);
	*ret = x;
	return x ? 0 : context_new(c->of, name, in, ret, e);
}

/* ---- a call ---- */

static int check(const struct tool_call *c, const struct jread *args, struct err *e)
{
	const struct jread *list = jread_get(args, "args");

	if (is_far(c))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "leave 'context' out; the user has contexts with brig mcp on "
				  "stdio without --daemon",
				  "sandboxes of the daemon keep no context yet");
	if (args_there(args, "args") && jread_kind(list) != JREAD_ARRAY)
		return err_set(e, ERR_USAGE, EINVAL, "'args' must be a list of strings");
	for (size_t i = 0; i < jread_count(list); i++)
		if (!jread_text(jread_at(list, i)))
			return err_set(e, ERR_USAGE, EINVAL, "'args' must be a list of strings");
	return call_check_offline(c, "context", e);
}

static int attach(struct tool_context *x, struct tool_call *c, struct err *e)
{
	c->o = outcome_new();
	if (!c->o)
		return err_nomem(e);
	c->o->out.data = c->o->err.data = (struct buf)BUF_INIT(STREAM_MAX);
	c->o->dialect = c->of->spec->dialect_used;
	c->o->timeout_ms = c->timeout_ms;
	(void)snprintf(c->o->id, sizeof(c->o->id), "%s", run_handle_id(x->run));
	c->box = x->box;
	c->denials_before = sandbox_facts(x->box->sandbox)->denial_count;
	c->denied_before = outcome_denied(sandbox_facts(x->box->sandbox));
	c->context = x;
	x->call = c;
	x->began = clock_us();
	return 0;
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

int context_run(struct tool_call *c, const struct jread *args, const char *code, struct err *e)
{
	struct tool_context *x = NULL;
	bool again = false;

	if (check(c, args, e) < 0 || args_flag(args, "restart", &again, e) < 0 ||
	    call_timeout(c, args, CODE_PYTHON, e) < 0 || find(c, args, &x, e) < 0)
		return -e->code;
	if (again) {
		stop(x, NULL);
		x->lost[0] = '\0';
	}
	if (x->due == DUE_LOST) /* between two calls; its run has not ended yet */
		died(x, x->lost);
	if ((!x->run && start(x, e) < 0) || attach(x, c, e) < 0 ||
	    interp_ask(x->interp, code, jread_get(args, "args"), e) < 0) {
		if (x->call)
			leave_call(x);
		stop(x, NULL);
		return -e->code;
	}
	say_new(x, c);
	if (x->due != DUE_LOST)
		set_due(x, DUE_LIMIT, c->timeout_ms * 1000);
	return 0;
}

void context_cancel(struct tool_call *c)
{
	struct tool_context *x = c->context;

	if (x->due != DUE_LIMIT)
		return;
	interp_interrupt(x->interp);
	if (x->due == DUE_LIMIT)
		set_due(x, DUE_GRACE, GRACE_US);
}

void context_forget(struct tool_call *c)
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
		if (x->call)
			died(x, "its sandbox was deleted");
		context_free(x);
	}
}

void contexts_free(struct tools *t)
{
	while (t->contexts)
		context_free(t->contexts);
}
