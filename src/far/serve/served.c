/* SPDX-License-Identifier: Apache-2.0 */
#include "far/serve/served.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/fd.h"

void served_init(struct far_session *s, struct served *k)
{
	*k = (struct served){ .s = s,
			      .turns.fd = -1,
			      .theirs = { -1, -1, -1 },
			      .report = BUF_INIT((size_t)FAR_REPORT_MAX) };
}

static struct served *served_find(struct far_session *s, uint32_t number)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (s->all[i].number == number)
			return &s->all[i];
	return NULL;
}

static void put_report(struct buf *b, const struct outcome *o)
{
	struct json j;

	json_init(&j, b, false);
	outcome_json(o, &j);
	buf_putc(b, '\n');
}

void served_report(struct far_session *s, uint32_t number, const struct outcome *o)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)FAR_REPORT_MAX);

	put_report(&b, o);
	if (!b.failed)
		(void)frames_say_all(s->frames, FRAMES_REPORT, number, b.data, b.len);
}

/* ---- the end ---- */

static void served_forget(struct served *k)
{
	struct frames_command *c = frames_find(k->s->frames, k->number);

	if (c)
		frames_end(c);
	for (size_t i = 0; i < ARRAY_LEN(k->theirs); i++)
		(void)fd_close(k->theirs[i]);
	brig_request_free(k->request);
	buf_done(&k->report);
	served_init(k->s, k);
}

/* It has ended, or what it wrote is let go. */
static void served_finish(struct served *k)
{
	struct far_session *s = k->s;
	uint32_t number = run_handle_number(k->run);
	struct brig_error unused;
	brig_result *r = NULL;

	(void)loop_want(s->loop, &k->turns, 0);
	if (number && s->sandbox) {
		s->past[s->past_count % SERVED_PAST].command = k->number;
		s->past[s->past_count++ % SERVED_PAST].number = number;
	}
	(void)brig_run_finish(k->run, &r, &unused);
	k->run = NULL;
	if (r)
		put_report(&k->report, result_outcome(r));
	brig_result_free(r);
	for (size_t i = 0; i < ARRAY_LEN(k->theirs); i++)
		k->theirs[i] = fd_close(k->theirs[i]);
}

static void let_go(struct served *k)
{
	struct far_session *s = k->s;

	if (k->report.len && !k->report.failed)
		(void)frames_say_all(s->frames, FRAMES_REPORT, k->number, k->report.data,
				     k->report.len);
	(void)frames_say(s->frames, FRAMES_ENDED, k->number, NULL, 0);
	served_forget(k);
	s->over |= s->asked.has_words;
}

bool served_let_go(struct far_session *s)
{
	bool any = false;

	for (size_t i = 0; i < COMMANDS_MAX; i++) {
		struct served *k = &s->all[i];
		const struct frames_command *c =
			k->number ? frames_find(s->frames, k->number) : NULL;

		if (!k->number || k->run || (c && !s->deaf && !frames_closed(c)))
			continue;
		let_go(k);
		any = true;
	}
	return any;
}

void served_finish_all(struct far_session *s)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++) {
		struct served *k = &s->all[i];

		if (k->run) {
			run_handle_drop(k->run);
			served_finish(k);
		}
		if (k->number)
			let_go(k);
	}
}

bool served_any(const struct far_session *s)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (s->all[i].number)
			return true;
	return false;
}

static void served_on_turn(struct loop_watch *w, uint32_t events UNUSED)
{
	struct served *k = (struct served *)w;
	int goes_on = brig_run_dispatch(k->run);

	if (goes_on && k->s->deaf) /* the line is gone: what it wrote is dropped */
		run_handle_drop(k->run);
	if (!goes_on)
		served_finish(k);
}

void served_abandon(struct served *k)
{
	if (!k->run)
		return;
	brig_request_cancel(k->request ? k->request : k->s->request);
	run_handle_signal(k->run, SIGKILL);
	run_handle_drop(k->run);
}

/* ---- the beginning ---- */

static int open_pipe(struct frames_command *c, size_t channel, bool inwards, int *theirs)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*theirs = ends[inwards ? 0 : 1];
	return frames_open(c, channel, ends[inwards ? 1 : 0], !inwards);
}

/* A terminal is made by init inside, and its bytes go both ways as they are. */
static int served_open(struct served *k, bool input, bool tty, struct err *e)
{
	struct frames_command *c = frames_begin(k->s->frames, k->number);
	int r = c ? open_pipe(c, 0, false, &k->theirs[1]) : -EAGAIN;

	if (r == 0 && !tty)
		r = open_pipe(c, 1, false, &k->theirs[2]);
	if (r == 0 && input)
		r = open_pipe(c, 2, true, &k->theirs[0]);
	/* One byte more than is kept says that something was cut off. */
	for (size_t i = 0; r == 0 && k->s->line->task && k->s->asked.output && i < 2; i++)
		c->channels[i].most = k->s->asked.output + 1;
	return r < 0 ? err_errno(e, r, "cannot make a pipe") : 0;
}

/* What its watch is to tell of has been asked for already. */
static int follow(struct served *k, struct err *e)
{
	k->turns = (struct loop_watch){ .fd = brig_run_fd(k->run), .ready = served_on_turn };
	if (k->turns.fd >= 0 && loop_want(k->s->loop, &k->turns, EPOLLIN) == 0)
		return 0;
	run_handle_signal(k->run, SIGKILL); /* its end would not be heard */
	served_finish(k);
	return err_nomem(e);
}

int served_run(struct far_session *s, struct err *e)
{
	struct served *k = &s->all[0];
	struct brig_error be;

	k->number = FAR_RUN;
	if (served_open(k, s->asked.input, s->asked.tty, e) < 0) {
		served_forget(k);
		return -e->code;
	}
	brig_request_stdio(s->request, k->theirs[0], k->theirs[1], k->theirs[2]);
	if (brig_start(s->request, &k->run, &be) < 0) {
		error_import(&be, e);
		served_forget(k);
		return -e->code;
	}
	if (!brig_run_dispatch(k->run)) {
		served_finish(k);
		return 0;
	}
	(void)frames_say(s->frames, FRAMES_BEGAN, FAR_RUN, NULL, 0);
	(void)follow(k, e);
	return 0;
}

static int served_fill(struct served *k, const struct frames_exec *q, const struct order *o,
		       struct brig_error *e)
{
	brig_request *x = k->request;
	char time[32] = "none";

	if (q->timeout)
		(void)snprintf(time, sizeof(time), "%llums", (unsigned long long)q->timeout);
	if (request_order(x, o, e) < 0 || brig_request_set(x, "limits.timeout", time, e) < 0)
		return -e->errnum;
	brig_request_stdio(x, k->theirs[0], k->theirs[1], k->theirs[2]);
	request_apart(x);
	if (q->tty)
		request_terminal(x, q->rows, q->cols);
	return 0;
}

static int served_start(struct served *k, const struct frames_exec *q, const struct order *o,
			struct err *e)
{
	struct brig_error be = { .errnum = ENOMEM, .code = "internal", .what = "out of memory" };
	brig_sandbox *sandbox = k->s->sandbox;

	if (!sandbox)
		return err_refuse(e, ERR_UNAVAILABLE, ECHILD, "open another one",
				  "the sandbox has ended");
	if (served_open(k, q->inwards & 1U << 2, q->tty, e) < 0)
		return -e->code;
	k->request = brig_sandbox_command(sandbox);
	if (!k->request || served_fill(k, q, o, &be) < 0 ||
	    brig_sandbox_exec(sandbox, k->request, &k->run, &be) < 0) {
		error_import(&be, e);
		return -e->code;
	}
	return follow(k, e);
}

/* It is not started, and its end is reported like that of any other. */
static void served_refuse(struct served *k, const struct err *e)
{
	struct frames_command *c = frames_find(k->s->frames, k->number);
	struct outcome *o = k->report.len ? NULL : outcome_new();

	if (o) {
		o->kind = OUTCOME_REFUSED;
		o->error = *e;
		put_report(&k->report, o);
	}
	(void)outcome_free(o);
	if (c)
		frames_end(c);
}

int served_exec(struct far_session *s, const struct frames_head *h, const void *p)
{
	struct served *k = served_find(s, 0);
	const char **words = NULL;
	struct frames_exec q;
	struct err e = { 0 };
	struct order o;
	size_t count;
	int r = -EPROTO;

	if (h->size != sizeof(q) || !h->command || served_find(s, h->command) ||
	    s->order_of != h->command)
		return -EPROTO;
	memcpy(&q, p, sizeof(q));
	count = order_words(s->order.data, s->order.len);
	words = count ? calloc(count, sizeof(*words)) : NULL;
	if (k && words && order_read(s->order.data, s->order.len, words, &o)) {
		k->number = h->command;
		if (served_start(k, &q, &o, &e) < 0)
			served_refuse(k, &e);
		r = 0;
	}
	free(words);
	s->order.len = 0;
	return r;
}

/* ---- signals ---- */

void served_signal(struct far_session *s, uint32_t number, int sig)
{
	const struct served *k = number ? served_find(s, number) : NULL;

	if (k && k->run)
		run_handle_signal(k->run, sig);
	for (size_t i = 0; !(k && k->run) && s->sandbox && sig == SIGKILL && i < SERVED_PAST; i++)
		if (s->past[i].number && s->past[i].command == number)
			sandbox_end_command(s->sandbox, s->past[i].number);
}

int served_resize(struct far_session *s, const struct frames_head *h, const void *p)
{
	const struct served *k = h->command ? served_find(s, h->command) : NULL;
	uint16_t both[2];

	if (h->size != sizeof(both))
		return -EPROTO;
	memcpy(both, p, sizeof(both));
	if (k && k->run)
		run_handle_resize(k->run, both[0], both[1]);
	return 0;
}
