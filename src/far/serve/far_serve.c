/* SPDX-License-Identifier: Apache-2.0 */
/* far/serve/far_serve.c - brig-far: reads what is asked for, has it, carries its streams, reports.
 *
 *   asked -> runs, or is open -> over
 *
 * Its line is its leash: when that ends, or is silent for two minutes where the near brig should
 * ping, what it has is ended. A task of a job array has read all it will be told: it is ended once
 * the file it writes to was removed. A signal cancels a run and closes a sandbox. Nobody is
 * waited for: streams go through pipes of which this process has both ends until the command has
 * its own, and a command's end is said once all it wrote is on its way. */
#include "far/serve/far_serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/loop.h"
#include "base/sys/signals.h"
#include "far/serve/served.h"
#include "sandbox/recorder.h"

#define ALIVE_US ((uint64_t)5 * 1000 * 1000)
#define SILENCE_US ((uint64_t)120 * 1000 * 1000)
#define LAST_US ((uint64_t)1000 * 1000) /* for a reader to take a command's last words */

/* ---- the end ---- */

/* The near brig is gone: what it asked for is ended. */
static void far_leave(struct far_session *s)
{
	s->deaf = true;
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		served_abandon(&s->all[i]);
	s->over |= s->sandbox || !s->all[0].run;
}

static void on_silence(struct loop_timer *t, uint64_t now UNUSED)
{
	far_leave(CONTAINER_OF(t, struct far_session, silence));
}

/* A batch that ends removes what its tasks write to. A task whose part of Slurm has died would not
 * hear of it in any other way. */
static bool is_unwanted(int fd)
{
	struct stat st;

	/* ESTALE: another machine has removed it. Any other error says nothing. */
	return fstat(fd, &st) < 0 ? errno == ESTALE : st.st_nlink == 0;
}

static void on_alive(struct loop_timer *t, uint64_t now)
{
	struct far_session *s = CONTAINER_OF(t, struct far_session, alive);
	size_t waits;

	if (s->line->task && is_unwanted(s->line->to)) {
		far_leave(s);
		return;
	}
	(void)frames_unsent(s->frames, &waits);
	if (!waits)
		(void)frames_say(s->frames, FRAMES_PING, 0, NULL, 0);
	loop_at(s->loop, t, now + ALIVE_US);
}

static void far_on_signal(struct loop_watch *w, uint32_t events UNUSED)
{
	struct far_session *s = CONTAINER_OF(w, struct far_session, signals);
	struct signalfd_siginfo unused;

	if (read(w->fd, &unused, sizeof(unused)) != (ssize_t)sizeof(unused))
		return;
	s->deaf |= s->over; /* a second signal: the line's reader does not read */
	if (s->all[0].run && !s->sandbox)
		brig_request_cancel(s->request);
	else
		s->over = true;
}

static void on_sandbox(struct loop_watch *w, uint32_t events UNUSED)
{
	struct far_session *s = CONTAINER_OF(w, struct far_session, turns);

	if (!brig_sandbox_dispatch(s->sandbox))
		s->over = true;
}

static void far_refuse(struct far_session *s, const struct err *e)
{
	uint32_t number = s->asked.has_words ? FAR_RUN : 0;
	struct outcome *o = outcome_new();

	if (o) {
		o->kind = OUTCOME_REFUSED;
		o->error = *e;
		served_report(s, number, o);
	}
	(void)outcome_free(o);
	(void)frames_say(s->frames, FRAMES_ENDED, number, NULL, 0);
	s->over = true;
}

/* ---- what is asked for ---- */

static void open_sandbox(struct far_session *s)
{
	struct brig_error be;
	struct err e = { 0 };

	if (brig_sandbox_open(s->request, &s->sandbox, &be) < 0) {
		error_import(&be, &e);
		far_refuse(s, &e);
		return;
	}
	s->turns = (struct loop_watch){ .fd = brig_sandbox_fd(s->sandbox), .ready = on_sandbox };
	if (s->turns.fd < 0 || loop_want(s->loop, &s->turns, EPOLLIN) < 0) {
		s->over = true;
		return;
	}
	served_report(s, 0, sandbox_facts(s->sandbox));
	(void)frames_say(s->frames, FRAMES_BEGAN, 0, NULL, 0);
}

static void far_go(struct far_session *s)
{
	struct err e = { 0 }, unrecorded = { 0 };

	s->asked.complete = true;
	if (far_asked_request(&s->asked, s->line->load, &s->request, &e) < 0) {
		if (s->request && s->asked.has_options)
			(void)recorder_refused(request_spec(s->request), "_far", &e, &unrecorded);
		far_refuse(s, &e);
		return;
	}
	if (!s->asked.has_words)
		open_sandbox(s);
	else if (served_run(s, &e) < 0)
		far_refuse(s, &e);
}

static int far_on_order(struct far_session *s, const struct frames_head *h, const void *p)
{
	if (s->order.len && s->order_of != h->command)
		return -EPROTO;
	s->order_of = h->command;
	buf_add(&s->order, p, h->size);
	return s->order.failed ? -EPROTO : 0;
}

static int far_on_signal_for(struct far_session *s, const struct frames_head *h, const void *p)
{
	uint32_t sig;

	if (h->size != sizeof(sig))
		return -EPROTO;
	memcpy(&sig, p, sizeof(sig));
	if (!sig || sig > (uint32_t)SIGRTMAX)
		return 0;
	if (h->command || !s->sandbox)
		served_signal(s, h->command, (int)sig);
	else if (sig == SIGKILL)
		s->over = true;
	else
		sandbox_signal(s->sandbox, (int)sig);
	return 0;
}

static int far_hear(void *arg, const struct frames_head *h, const void *p)
{
	struct far_session *s = arg;

	if (s->line->speaks && !s->line->task)
		loop_at(s->loop, &s->silence, clock_us() + SILENCE_US);
	if (far_asked_take(&s->asked, h, p) || h->kind == FRAMES_PING)
		return 0;
	switch (h->kind) {
	case FRAMES_GO:
		if (!s->asked.complete)
			far_go(s);
		return 0;
	case FRAMES_ORDER:
		return s->asked.complete ? far_on_order(s, h, p) : -EPROTO;
	case FRAMES_EXEC:
		return s->asked.complete ? served_exec(s, h, p) : -EPROTO;
	case FRAMES_SIGNAL:
		return far_on_signal_for(s, h, p);
	case FRAMES_RESIZE:
		return served_resize(s, h, p);
	default:
		return -EPROTO;
	}
}

/* ---- its life ---- */

static void far_settle(void *arg)
{
	struct far_session *s = arg;
	int r = frames_turn(s->frames, NULL, 0);

	if (served_let_go(s) && r == 0)
		r = frames_turn(s->frames, NULL, 0);
	if (s->line->task && frames_said_all(s->frames) && !s->asked.complete)
		r = -EPROTO; /* the request has no end */
	if (r < 0 && !s->deaf)
		far_leave(s);
	if (s->over)
		loop_stop(s->loop);
}

static void far_say_ready(struct far_session *s)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)FRAMES_PIECE);
	const char *job = s->line->task ? s->line->task : getenv("SLURM_JOB_ID");
	char host[128];
	struct json j;

	far_asked_name(host, sizeof(host));
	json_init(&j, &b, false);
	json_object(&j);
	json_kstr(&j, "version", BRIG_VERSION);
	json_kstr(&j, "host", host);
	json_kstr(&j, "job", job ? job : "");
	json_object_end(&j);
	(void)frames_say(s->frames, FRAMES_READY, 0, b.data, b.len);
}

static int far_prepare(struct far_session *s, const struct far_line *l)
{
	struct frames_line line = { .from = l->from,
				    .to = l->to,
				    .window = FAR_WINDOW,
				    .most = FAR_OUT,
				    .newlines = l->newlines,
				    .unanswered = l->task };
	struct err unused;

	(void)prctl(PR_SET_NAME, "brig-far", 0, 0, 0);
	signals_ignore_pipe();
	fd_raise_limit();
	(void)fcntl(l->from, F_SETFL, fcntl(l->from, F_GETFL) | O_NONBLOCK);
	(void)fcntl(l->to, F_SETFL, fcntl(l->to, F_GETFL) | O_NONBLOCK);
	if (loop_new(&s->loop, &unused) < 0)
		return -ENOMEM;
	line.loop = s->loop;
	s->line = l;
	s->frames = frames_on(&line, far_hear, s);
	s->order = (struct buf)BUF_INIT((size_t)ORDER_MAX);
	s->silence.due = on_silence;
	s->alive.due = on_alive;
	far_asked_init(&s->asked);
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		served_init(s, &s->all[i]);
	s->signals = (struct loop_watch){ .fd = signals_open((const int[]){ SIGTERM, SIGINT, SIGHUP,
									    SIGQUIT, 0 }),
					  .ready = far_on_signal };
	return s->frames && s->signals.fd >= 0 && loop_want(s->loop, &s->signals, EPOLLIN) == 0
		       ? 0
		       : -ENOMEM;
}

static void done(struct far_session *s)
{
	brig_request_free(s->request);
	far_asked_done(&s->asked);
	buf_done(&s->order);
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		buf_done(&s->all[i].report);
	(void)frames_free(s->frames);
	(void)fd_close(s->signals.fd);
	(void)loop_free(s->loop);
	free(s);
}

static void turn_until(struct far_session *s, uint64_t until)
{
	uint64_t now = clock_us();

	if (now < until)
		loop_turn(s->loop, (int)((until - now) / 1000) + 1);
	far_settle(s);
}

/* First the sandbox: its end is that of all commands, and each is reported. What they wrote has a
 * moment to reach a reader, who may never come. */
static void far_close(struct far_session *s)
{
	uint64_t until;
	brig_result *r = NULL;
	struct brig_error be;
	struct outcome *refused;

	if (!s->sandbox)
		return;
	(void)loop_want(s->loop, &s->turns, 0);
	(void)brig_sandbox_close(s->sandbox, &r, &be);
	s->sandbox = NULL;
	for (until = clock_us() + LAST_US; served_any(s) && !s->deaf && clock_us() < until;)
		turn_until(s, until);
	served_finish_all(s);
	refused = r ? NULL : outcome_new();
	if (refused)
		error_import(&be, &refused->error);
	if (r || refused)
		served_report(s, 0, r ? result_outcome(r) : refused);
	(void)outcome_free(refused);
	brig_result_free(r);
	(void)frames_say(s->frames, FRAMES_ENDED, 0, NULL, 0);
}

/* The last words, as long as the line is there. */
static void far_say_last(struct far_session *s)
{
	size_t waits = 1;

	while (!s->deaf && waits) {
		far_settle(s);
		(void)frames_unsent(s->frames, &waits);
		if (!s->deaf && waits)
			loop_turn(s->loop, -1);
	}
}

/* All of a request, or nothing: the line brings the same. */
static void take_ask(struct far_session *s, const char *ask, size_t size)
{
	struct frames_head h = { 0 };
	const char *payload;
	ssize_t n;

	for (int taking = 0; taking < 2; taking++) {
		size_t at = 0;

		for (h.kind = 0; h.kind != FRAMES_GO; at += (size_t)n) {
			n = frames_look(ask + at, size - at, s->line->newlines, &h, &payload);
			if (n <= 0 || h.kind < FRAMES_SETTINGS || h.kind > FRAMES_GO)
				return;
			if (taking)
				(void)far_hear(s, &h, payload);
		}
	}
}

int far_serve(const struct far_line *l)
{
	struct far_session *s = calloc(1, sizeof(*s));
	bool left;

	if (!s || far_prepare(s, l) < 0)
		return 1;
	far_say_ready(s);
	if (l->speaks)
		loop_at(s->loop, &s->alive, clock_us() + ALIVE_US);
	if (l->speaks && !l->task)
		loop_at(s->loop, &s->silence, clock_us() + SILENCE_US);
	if (l->ask) {
		(void)frames_turn(s->frames, NULL, 0); /* the other side sees that it has begun */
		take_ask(s, l->ask, l->ask_size);
	}
	far_settle(s);
	if (!s->over)
		loop_run(s->loop, far_settle, s);
	far_close(s);
	far_say_last(s);
	left = s->deaf;
	done(s);
	return left ? 1 : 0;
}
