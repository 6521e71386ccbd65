/* SPDX-License-Identifier: Apache-2.0 */
#include "interp/context.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/last_words.h"
#include "base/text/str.h"
#include "model/outcome/outcome.h"
#include "model/settings/spec.h"
#include "sandbox/manager.h"

#define GRACE_US 3000000 /* from an interrupt to the end */
#define LAST_US 1000000  /* from the end of its output to its own */
#define IDLE_US ((uint64_t)1800000000)
#define TURN_MS 20 /* until what has just been started is ended, too */

enum context_due { DUE_NOTHING, DUE_LIMIT, DUE_GRACE, DUE_LOST, DUE_IDLE, DUE_KILL };

struct context {
	struct loop_watch w; /* first; of its run */
	struct loop_timer timer;
	enum context_due due;
	uint64_t rests; /* how long it was to the timer when its sandbox was stopped; 0: it goes */
	struct loop *loop;
	struct context_listener by;
	brig_sandbox *sandbox;
	brig_request *request;
	brig_run *run; /* NULL: gone */
	struct interp *interp;
	int in_fd;  /* what its run reads from, as long as that lasts */
	int err_fd; /* what Python said before the program began: read at its end */
	bool called, late, dying;
	char why[CONTEXT_WHY_SIZE]; /* it is dying, or lost; "": neither */
	uint64_t questions;         /* for names, that calls were told of */
	struct last_words said;     /* the last of the call's error output */
};

static void context_say(struct context *x, int stream, const char *p, size_t n)
{
	if (stream == 2)
		last_words_add(&x->said, p, n);
	x->by.output(x->by.arg, stream, p, n);
}

static void set_due(struct context *x, enum context_due due, uint64_t in_us)
{
	x->due = due;
	loop_at(x->loop, &x->timer, due ? clock_us() + in_us : 0);
}

/* ---- its end ---- */

/* Why its program is gone, as far as the run of it knows better. */
static void say_how(const struct context *x, const struct outcome *o, char why[CONTEXT_WHY_SIZE])
{
	char how[48] = "";

	if (o && o->kind == OUTCOME_EXITED)
		(void)snprintf(how, sizeof(how), ", exit code %d", o->exit_code);
	else if (o && o->kind == OUTCOME_SIGNALLED)
		(void)snprintf(how, sizeof(how), ", signal %d", o->signal);
	else if (o && o->kind != OUTCOME_CANCELLED)
		(void)snprintf(how, sizeof(how), ", %s", outcome_name(o->kind));
	(void)snprintf(why, CONTEXT_WHY_SIZE, "%.100s%s", x->why, how);
}

/* Before the program had begun there was nobody to take it. */
static void give_errors(struct context *x)
{
	char said[4096];
	ssize_t n = x->called ? read(x->err_fd, said, sizeof(said)) : 0;

	if (n > 0)
		context_say(x, 2, said, (size_t)n);
}

static void context_let_go(struct context *x, brig_result **ret)
{
	struct brig_error unused;

	set_due(x, DUE_NOTHING, 0);
	x->interp = interp_free(x->interp);
	if (x->w.events)
		(void)loop_want(x->loop, &x->w, 0);
	if (x->run)
		(void)brig_run_finish(x->run, ret, &unused);
	x->run = NULL;
	x->in_fd = fd_close(x->in_fd);
	x->err_fd = fd_close(x->err_fd);
	brig_request_free(x->request);
	x->request = NULL;
}

static void context_gone(struct context *x)
{
	char why[CONTEXT_WHY_SIZE];
	bool called = x->called;
	brig_result *r = NULL;

	if (!x->why[0])
		(void)snprintf(x->why, sizeof(x->why), "its process has ended");
	give_errors(x);
	x->dying = true;
	x->called = false;
	context_let_go(x, &r);
	say_how(x, r ? result_outcome(r) : NULL, why);
	x->by.ended(x->by.arg, why, r ? result_outcome(r) : NULL, called, x->late);
	brig_result_free(r);
}

/* All that it has started so far. */
static void kill_all(const struct context *x)
{
	sandbox_end_command(x->sandbox, run_handle_number(x->run));
	run_handle_drop(x->run); /* nobody reads it any more */
}

static void die(struct context *x, const char *why)
{
	if (x->dying)
		return;
	if (why != x->why)
		(void)snprintf(x->why, sizeof(x->why), "%s", why);
	x->dying = true;
	brig_request_cancel(x->request);
	kill_all(x);
	set_due(x, DUE_KILL, (uint64_t)TURN_MS * 1000);
}

void context_finish(struct context *x, const char *why)
{
	die(x, why ? why : x->why);
	while (x->run && brig_run_dispatch(x->run)) {
		struct pollfd p[] = { { .fd = brig_run_fd(x->run), .events = POLLIN },
				      { .fd = brig_sandbox_fd(x->sandbox), .events = POLLIN } };

		kill_all(x);
		if (!brig_sandbox_dispatch(x->sandbox))
			break;
		(void)wait_any(p, ARRAY_LEN(p), clock_after(TURN_MS));
	}
	context_gone(x);
}

/* ---- what happens to it ---- */

static void on_run(struct loop_watch *w, uint32_t events UNUSED)
{
	struct context *x = (struct context *)w;

	if (!brig_run_dispatch(x->run))
		context_gone(x);
	else if (x->dying)
		run_handle_drop(x->run);
}

static void on_due(struct loop_timer *t, uint64_t now UNUSED)
{
	struct context *x = CONTAINER_OF(t, struct context, timer);

	switch (x->due) {
	case DUE_LIMIT:
		x->late = true;
		set_due(x, DUE_GRACE, GRACE_US);
		interp_interrupt(x->interp);
		break;
	case DUE_GRACE:
		die(x, "its code did not obey an interrupt");
		break;
	case DUE_LOST:
		die(x, x->why);
		break;
	case DUE_IDLE:
		die(x, "it was not used for half an hour");
		break;
	case DUE_KILL:
		kill_all(x);
		set_due(x, DUE_KILL, (uint64_t)TURN_MS * 1000);
		break;
	case DUE_NOTHING:
		break;
	}
}

static void context_on_answer(void *arg, const struct interp_answer *a)
{
	struct context *x = arg;
	bool late = x->late;

	if (a->type == INTERP_OUT)
		context_say(x, a->stream, a->text, strlen(a->text));
	if (a->type == INTERP_FAIL)
		last_words_add(&x->said, a->text, strlen(a->text));
	if (a->type == INTERP_SHOW || a->type == INTERP_FAIL)
		x->by.said(x->by.arg, a);
	if (a->type != INTERP_DONE)
		return;
	x->called = x->late = false;
	set_due(x, DUE_IDLE, IDLE_US);
	x->by.answered(x->by.arg, a->code, late);
}

/* Of a program that is gone the run knows better why; it is waited for a moment. */
static void on_lost(void *arg, const char *why, bool has_gone)
{
	struct context *x = arg;

	(void)snprintf(x->why, sizeof(x->why), "%s", why);
	set_due(x, DUE_LOST, has_gone ? LAST_US : 0);
}

/* ---- its beginning ---- */

static int context_follow(struct context *x, int to, int from, struct err *e)
{
	const struct interp_listener by = { .answer = context_on_answer,
					    .lost = on_lost,
					    .arg = x };

	if (interp_new(x->loop, to, from, &by, &x->interp, e) < 0)
		return -e->code;
	x->w = (struct loop_watch){ .fd = brig_run_fd(x->run), .ready = on_run };
	if (x->w.fd < 0 || loop_want(x->loop, &x->w, EPOLLIN) < 0)
		return err_set(e, ERR_INTERNAL, EIO, "the context cannot be followed");
	return 0;
}

/* The sandbox's settings hold; time and output are a call's. */
static int begin_run(struct context *x, int out, int err, struct err *e)
{
	static const char *const argv[] = { "python3", "-c", interp_program, NULL };
	struct brig_error be = { .errnum = ENOMEM, .code = "internal", .what = "out of memory" };

	x->request = brig_sandbox_command(x->sandbox);
	if (!x->request || brig_request_argv(x->request, argv, &be) < 0 ||
	    brig_request_set(x->request, "limits.timeout", "none", &be) < 0) {
		error_import(&be, e);
		return -e->code;
	}
	request_spec(x->request)->command.output = 0;
	request_spec(x->request)->origin[FIELD_OUTPUT] = ORIGIN_API;
	brig_request_stdio(x->request, x->in_fd, out, err);
	request_apart(x->request);
	if (brig_sandbox_exec(x->sandbox, x->request, &x->run, &be) < 0) {
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

int context_new(struct loop *l, brig_sandbox *s, const struct context_listener *by,
		struct context **ret, struct err *e)
{
	CLEANUP(fd) int to = -1, from = -1, out = -1, err = -1;
	CLEANUP(context) struct context *x = calloc(1, sizeof(*x));

	if (!x)
		return err_nomem(e);
	*x = (struct context){
		.timer.due = on_due, .loop = l, .by = *by, .sandbox = s, .in_fd = -1, .err_fd = -1
	};
	x->questions = sandbox_questions(s);
	if (make_pipe(&x->in_fd, &to, 0, e) < 0 || make_pipe(&from, &out, 0, e) < 0 ||
	    make_pipe(&x->err_fd, &err, O_NONBLOCK, e) < 0 || begin_run(x, out, err, e) < 0 ||
	    context_follow(x, TAKE_FD(to), TAKE_FD(from), e) < 0)
		return -e->code;
	*ret = TAKE_PTR(x);
	return 0;
}

static void nobody_said(void *arg UNUSED, const struct interp_answer *a UNUSED)
{
}

static void nobody_output(void *arg UNUSED, int stream UNUSED, const char *p UNUSED,
			  size_t n UNUSED)
{
}

static void nobody_ended(void *arg UNUSED, const char *why UNUSED, const struct outcome *o UNUSED,
			 bool called UNUSED, bool late UNUSED)
{
}

struct context *context_free(struct context *x)
{
	if (!x)
		return NULL;
	x->by = (struct context_listener){ .output = nobody_output,
					   .said = nobody_said,
					   .ended = nobody_ended };
	if (x->run)
		context_finish(x, "it is not wanted any more");
	else
		context_let_go(x, NULL);
	free(x);
	return NULL;
}

/* ---- a call ---- */

int context_ask(struct context *x, const char *code, const char *const *args, uint64_t timeout_ms,
		struct err *e)
{
	if (interp_ask(x->interp, code, args, e) < 0)
		return -e->code;
	x->called = true;
	x->late = false;
	x->said.n = 0;
	if (x->due == DUE_LOST) /* it was lost while it was asked */
		return 0;
	set_due(x, DUE_LIMIT, timeout_ms * 1000);
	if (!timeout_ms)
		loop_at(x->loop, &x->timer, 0);
	return 0;
}

void context_explain(struct context *x, struct outcome *o)
{
	sandbox_explain(x->sandbox, x->questions, x->said.text, x->said.n, o);
	x->questions = sandbox_questions(x->sandbox);
}

void context_cancel(struct context *x)
{
	if (x->due != DUE_LIMIT)
		return;
	interp_interrupt(x->interp);
	if (x->due == DUE_LIMIT)
		set_due(x, DUE_GRACE, GRACE_US);
}

void context_rest(struct context *x, bool on)
{
	uint64_t now = clock_us();

	if (on && x->timer.at && !x->rests) {
		x->rests = x->timer.at > now ? x->timer.at - now : 1;
		loop_at(x->loop, &x->timer, 0);
	} else if (!on && x->rests) {
		loop_at(x->loop, &x->timer, now + x->rests);
		x->rests = 0;
	}
}

bool context_dying(const struct context *x)
{
	return x->dying || x->due == DUE_LOST;
}

const char *context_run_id(const struct context *x)
{
	return run_handle_id(x->run);
}

bool context_name_ok(const char *name)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";

	return *name && strchr(first, *name) && strlen(name) < CONTEXT_NAME_SIZE &&
	       !name[strspn(name, rest)];
}
