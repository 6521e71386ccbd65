/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh_hold.c - a sandbox that another brig keeps open, and its commands.
 *
 *   asked -> open -> (closing) -> over
 *
 * One session has all of it: brig-far at its far end, frames (far/far_job.h) on its two streams,
 * with its own wrapper, watcher, keeper and numbers as any other. No command has its streams. The
 * sandbox ends when the session does, and the session when the sandbox has. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

#include "backend/kit/process/ends.h"
#include "backend/ssh/ssh_job.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/loop.h"
#include "base/sys/wait.h"
#include "far/far_job.h"

#define OPEN_PATIENCE_MS 30000
#define LAST_US ((uint64_t)500 * 1000) /* for a reader here, once all is over there */
#define SLICE_MS 100

struct ssh_hold {
	struct backend_job *job; /* the session */
	struct loop *loop;
	struct loop_watch session;
	struct loop_timer last;
	struct far_job *far;
	int in, out; /* the session's streams */
	uint32_t given;
	bool closing, expected, over;
	uint64_t over_at;
	int line; /* why nothing more comes */
};

static void on_session(struct loop_watch *w UNUSED, uint32_t events UNUSED)
{
	/* Looked at in every turn. */
}

static void on_last(struct loop_timer *t UNUSED, uint64_t now UNUSED)
{
	/* Likewise. */
}

/* The session is to end by itself now. */
static void expect_end(struct ssh_hold *h, long ms)
{
	if (!h->expected)
		ssh_job_expect_end(h->job, ms);
	h->expected = true;
}

static void ssh_hold_turn(struct ssh_hold *h)
{
	loop_turn(h->loop, 0);
	if (!h->over && ssh_job_event(h->job) == JOB_ENDED) {
		h->over = true;
		h->over_at = clock_us();
		(void)loop_want(h->loop, &h->session, 0);
		loop_at(h->loop, &h->last, h->over_at + LAST_US);
	}
	h->line = far_job_turn(h->far);
	if (h->line || far_job_ended(h->far, 0))
		expect_end(h, h->line == -EPROTO ? 1 : SSH_PATIENCE_MS);
}

/* What it said last is the session's report. */
static void take_report(const struct ssh_hold *h)
{
	const struct buf *b = far_job_report(h->far, 0);

	if (b && b->len)
		buf_add(&h->job->report, b->data, b->len);
}

/* The session's end, with its events off the loop. */
static void finish_session(struct ssh_hold *h, struct outcome *o)
{
	(void)loop_want(h->loop, &h->session, 0);
	h->session.fd = -1;
	take_report(h);
	ssh_job_finish(TAKE_PTR(h->job), o);
}

struct ssh_hold *ssh_hold_free(struct ssh_hold *h)
{
	if (!h)
		return NULL;
	(void)far_job_free(h->far);
	if (h->loop && h->session.fd >= 0)
		(void)loop_want(h->loop, &h->session, 0);
	(void)fd_close(h->in);
	(void)fd_close(h->out);
	(void)ssh_job_free(h->job);
	(void)loop_free(h->loop);
	free(h);
	return NULL;
}

/* ---- opening ---- */

/* It ended instead: its report says why. */
static int not_opened(struct ssh_hold *h, struct err *e)
{
	const char *host = h->job->plan->ssh.host;
	CLEANUP(outcome) struct outcome *o = outcome_new();
	const struct buf *said;
	bool silent;

	if (!o)
		return err_nomem(e);
	said = far_job_report(h->far, 0);
	silent = h->job->told && !said;
	finish_session(h, o);
	if (h->line == -EPROTO)
		return err_set(e, ERR_INTERNAL, EPROTO,
			       "the brig on '%.60s' does not say what the sandbox is like", host);
	if (silent)
		return err_refuse(e, ERR_UNAVAILABLE, EPROTO,
				  "install the version of brig there that is here; an older one "
				  "runs single commands",
				  "the brig on '%.60s' is too old to keep a sandbox open", host);
	if (!said || said->len) /* an end without a word has no reason */
		*e = o->error;
	return e->code ? -e->code
		       : err_set(e, ERR_INTERNAL, EPROTO, "the sandbox on '%.60s' was not opened",
				 host);
}

/* Until it says that the sandbox is open, or ends. */
static int hear_facts(struct ssh_hold *h, struct err *e)
{
	const struct backend_plan *p = h->job->plan;
	uint64_t until = clock_us() + (p->ssh.connect_timeout + OPEN_PATIENCE_MS) * (uint64_t)1000;

	for (;;) {
		struct pollfd at = { .fd = loop_fd(h->loop), .events = POLLIN };

		ssh_hold_turn(h);
		if (far_job_facts(h->far))
			return 0;
		if (h->over)
			return not_opened(h, e);
		if (clock_us() > until || ssh_interrupted())
			return ssh_overdue(p, e);
		if (wait_any(&at, 1, clock_after(SLICE_MS)) < 0)
			return err_sys(e, "cannot wait for ssh");
	}
}

static int ask(struct ssh_hold *h, const struct job_want *w, struct err *e)
{
	const struct backend_plan *p = h->job->plan;
	const struct far_request q = { .id = w->id, .options = p->options, .variables = p->vars };
	const struct frames_line line = {
		.from = h->out, .to = h->in, .loop = h->loop, .window = FAR_WINDOW, .most = FAR_OUT
	};

	(void)fcntl(h->out, F_SETFL, O_NONBLOCK);
	(void)fcntl(h->in, F_SETFL, O_NONBLOCK);
	h->session = (struct loop_watch){ .fd = h->job->events, .ready = on_session };
	h->last.due = on_last;
	if (loop_want(h->loop, &h->session, EPOLLIN) < 0)
		return err_nomem(e);
	return far_job_new(&line, &h->far, e) < 0 || far_job_add(h->far, 0, -1, -1, -1, e) < 0
		       ? -e->code
		       : far_request_say(far_job_frames(h->far), &q, e);
}

static int ssh_hold_open(struct ssh_hold *h, struct backend_plan *p, const struct job_want *w,
			 struct err *e)
{
	struct isolation unused = { 0 };
	struct job_io io = { -1, -1, -1, -1, -1, -1 };
	struct job_want own = *w;
	const struct buf *facts;

	own.no_input = false; /* that is half of the line */
	if (loop_new(&h->loop, e) < 0 || ssh_job_start(p, &own, &io, &h->job, e) < 0)
		return -e->code;
	h->in = io.in;
	h->out = io.out;
	(void)fd_close(io.err);   /* else its writer would wait for us */
	h->job->abandoned = true; /* unless it is what it should be, it is not left there */
	if (ask(h, w, e) < 0 || hear_facts(h, e) < 0)
		return -e->code;
	facts = far_job_facts(h->far);
	if (w->outcome && report_facts(facts->data, facts->len, w->outcome,
				       w->isolation ? w->isolation : &unused, e) < 0)
		return -e->code;
	h->job->abandoned = false;
	return 0;
}

int ssh_hold_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		   struct backend_job **ret, struct err *e)
{
	CLEANUP(ssh_job) struct backend_job *j = ssh_job_new(p, w->id);

	if (!j || !(j->hold = calloc(1, sizeof(*j->hold))))
		return err_nomem(e);
	j->hold->in = j->hold->out = j->hold->session.fd = -1;
	if (ssh_hold_open(j->hold, p, w, e) < 0)
		return -e->code;
	*io = (struct job_io){ .in = -1,
			       .out = -1,
			       .err = -1,
			       .in_peer = -1,
			       .events = loop_fd(j->hold->loop),
			       .alarm = -1,
			       .names = -1,
			       .agent = -1 };
	*ret = TAKE_PTR(j);
	return 0;
}

/* ---- commands ---- */

static int bring(struct ssh_hold *h, uint32_t number, const struct job_want *w, struct err *e)
{
	static const char *const none[] = { NULL };
	const struct command *c = w->command;
	const struct order o = { .argv = c->argv,
				 .envp = c->env ? c->env : none,
				 .path = "",
				 .cwd = c->cwd ? c->cwd : "" };
	const struct far_exec x = { .order = &o,
				    .tty = c->tty,
				    .rows = w->rows ? w->rows : 24,
				    .cols = w->cols ? w->cols : 80,
				    .timeout = c->timeout };

	return far_job_exec(h->far, number, &x, e);
}

int ssh_hold_exec(struct backend_job *j, const struct job_want *w, struct job_io *io, uint32_t *ret,
		  struct err *e)
{
	struct ssh_hold *h = j->hold;
	uint32_t number = h->given + 1;
	struct ends ends = ENDS_NONE;
	int r;

	if (h->closing || h->line)
		return err_refuse(e, ERR_UNAVAILABLE, ECHILD, "open another one",
				  "the sandbox has ended");
	r = ends_far(&ends, w, e);
	if (r == 0)
		r = far_job_add(h->far, number, TAKE_FD(ends.in[0]), TAKE_FD(ends.out[1]),
				TAKE_FD(ends.err[1]), e);
	if (r == 0 && bring(h, number, w, e) < 0) {
		far_job_leave(h->far, number);
		r = -e->code;
	}
	if (r == 0) {
		*ret = h->given = number;
		*io = (struct job_io){ .in = TAKE_FD(ends.in[1]),
				       .out = TAKE_FD(ends.out[0]),
				       .err = TAKE_FD(ends.err[0]),
				       .in_peer = -1,
				       .events = far_job_news(h->far, number),
				       .alarm = -1,
				       .names = -1,
				       .agent = -1 };
		ssh_hold_turn(h);
	}
	ends_done(&ends);
	return r;
}

/* The sandbox's end is the command's, unless that was told before. */
bool ssh_hold_ended(struct backend_job *j, uint32_t command, struct outcome *o)
{
	struct ssh_hold *h = j->hold;
	struct isolation unused = { 0 };
	const struct buf *report;
	struct err e = { 0 };

	ssh_hold_turn(h);
	if (!command || !far_job_ended(h->far, command))
		return false;
	report = far_job_report(h->far, command);
	if (report_read(report->data, report->len, o, &unused, &e) < 0 && o->kind == OUTCOME_FAILED)
		o->error = e;
	if (o->error.code)
		(void)err_wrap(&o->error, "on '%.60s'", j->plan->ssh.host);
	far_job_leave(h->far, command);
	return true;
}

void ssh_hold_signal(struct backend_job *j, uint32_t command, int sig)
{
	struct ssh_hold *h = j->hold;

	if (command == COMMAND_FIRST && sig == SIGKILL) {
		if (h->closing)
			return;
		h->closing = true;
		expect_end(h, SSH_PATIENCE_MS);
	}
	if (command <= h->given)
		far_job_signal(h->far, command, sig);
	ssh_hold_turn(h);
}

void ssh_hold_resize(struct backend_job *j, uint32_t command, unsigned short rows,
		     unsigned short cols)
{
	far_job_resize(j->hold->far, command, rows, cols);
	ssh_hold_turn(j->hold);
}

/* ---- ending ---- */

enum job_event ssh_hold_event(struct backend_job *j)
{
	struct ssh_hold *h = j->hold;

	ssh_hold_turn(h);
	if (!h->over || !h->line)
		return JOB_NOTHING;
	return far_job_waits(h->far) && clock_us() < h->over_at + LAST_US ? JOB_NOTHING : JOB_ENDED;
}

void ssh_hold_finish(struct backend_job *j, struct outcome *o)
{
	finish_session(j->hold, o);
	(void)ssh_job_free(j);
}
