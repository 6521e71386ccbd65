/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/subprocess.c - see subprocess.h.
 *
 *     started -> writes -> both pipes at their end -> it has ended -> answered
 *                  \-> the caller left, its time is over, too much: killed, then as above
 *
 * The daemon never waits for one: that it has ended is heard by its pidfd. */
#include "daemon/api/subprocess.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "proc/host_find.h"
#include "proc/host_program.h"

#define OUT_MAX ((size_t)8 << 20)
#define WORDS_MAX ((size_t)4096) /* of what it says on its second stream */
#define PIECE ((size_t)32 << 10)
#define LINE_SEQ "{\"seq\":"

enum { TENANT_MAX = 2, TENANT_FOLLOW = 1, OWNERS = 2 /* places that no tenant gets */ };

struct subprocess {
	struct loop_watch out, words; /* out must stay first */
	struct loop_watch ends;       /* the process */
	struct loop_timer late;
	struct subprocess *next, **link;
	struct api *api;
	struct http_call *call; /* NULL: it has left */
	char tenant[HTTP_TENANT_SIZE];
	pid_t pid;
	bool follow;
	char event[32];
	int most;
	const char *tail; /* a constant */
	struct buf text, said;
	bool too_much, too_late;
};

/* ---- the process ---- */

static int subprocess_start(struct subprocess *r, const struct subprocess_asked *q, struct err *e)
{
	CLEANUP(fd) int out = -1, err = -1;
	char path[PATH_MAX] = "/proc/self/exe";
	int a[2], b[2];

	if (q->program && host_find_own(q->program, path, e) < 0)
		return -e->code;
	if (pipe2(a, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	r->out.fd = a[0];
	out = a[1];
	if (pipe2(b, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	r->words.fd = b[0];
	err = b[1];
	if (fcntl(r->out.fd, F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(r->words.fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "cannot read without waiting");
	return host_start(&(struct host_program){ .program = path,
						  .argv = q->argv,
						  .envp = (const char *const *)environ,
						  .streams = (const int[]){ -1, out, err },
						  .own = true },
			  &r->pid, &r->ends.fd, e);
}

/* ---- its end ---- */

static void close_watch(struct subprocess *r, struct loop_watch *w)
{
	if (w->fd < 0)
		return;
	(void)loop_want(r->api->loop, w, 0);
	w->fd = fd_close(w->fd);
}

static void subprocess_leave(struct subprocess *r)
{
	if (r->link)
		*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	loop_at(r->api->loop, &r->late, 0);
	close_watch(r, &r->out);
	close_watch(r, &r->words);
	close_watch(r, &r->ends);
	buf_done(&r->text);
	buf_done(&r->said);
	free(r);
}

/* Its own words: "brig: what failed", "hint: what to do". */
static void subprocess_put_words(const struct subprocess *r, struct err *e)
{
	const char *said = buf_str(&r->said), *hint = strstr(said, "hint: ");
	const char *what = str_starts(said, "brig: ") ? said + 6 : said;

	(void)problem_say(PROBLEM_INVALID, e, "%.*s", (int)strcspn(what, "\n"), what);
	if (!e->what[0])
		(void)problem_say(PROBLEM_INTERNAL, e, "it could not be found out");
	if (hint)
		(void)err_hint(e, "%.*s", (int)strcspn(hint + 6, "\n"), hint + 6);
}

static void subprocess_answer(struct subprocess *r, int status)
{
	struct http_call *c = r->call;
	struct err e = { 0 };

	if (r->too_much || r->too_late) {
		(void)problem_say(PROBLEM_TOO_LARGE, &e,
				  r->too_much ? "there is too much of it" : "it took too long");
		(void)err_hint(&e, "ask for less");
		http_problem(c, PROBLEM_TOO_LARGE, &e);
	} else if (!WIFEXITED(status) || WEXITSTATUS(status) > r->most || !r->text.len) {
		subprocess_put_words(r, &e);
		http_problem(c, WIFEXITED(status) ? PROBLEM_INVALID : PROBLEM_INTERNAL, &e);
	} else {
		buf_puts(&r->text, r->tail ? r->tail : "");
		api_answer_json(c, 200, &r->text);
	}
}

/* It has ended, with that status; -1: nobody knows. */
static void subprocess_settle(struct subprocess *r, int status)
{
	struct http_call *c = r->call;

	if (c)
		c->room = c->gone = NULL;
	if (c && r->follow)
		http_stream_end(c);
	else if (c)
		subprocess_answer(r, status);
	subprocess_leave(r);
}

/* Both of its streams are at their end, or it was killed. Our programs close them by ending: one
 * that was stopped meanwhile, or that the kernel still has something to do for, may take longer. */
static void subprocess_finish(struct subprocess *r)
{
	int status = -1;
	pid_t got = r->pid > 0 ? waitpid(r->pid, &status, WNOHANG | __WALL) : -1;

	close_watch(r, &r->out);
	close_watch(r, &r->words);
	if (got == 0 && loop_want(r->api->loop, &r->ends, EPOLLIN) == 0)
		return;
	if (got == 0)
		(void)kill(r->pid, SIGKILL); /* never reaped: there is no memory to hear of it */
	subprocess_settle(r, got > 0 ? status : -1);
}

static void on_ended(struct loop_watch *w, uint32_t events UNUSED)
{
	subprocess_finish(CONTAINER_OF(w, struct subprocess, ends));
}

/* Nobody waits for its answer. */
static void subprocess_discard(struct subprocess *r)
{
	r->call = NULL;
	if (r->pid > 0)
		(void)kill(r->pid, SIGKILL);
	subprocess_finish(r);
}

static void subprocess_gone(void *arg)
{
	subprocess_discard(arg);
}

static void subprocess_on_late(struct loop_timer *t, uint64_t now UNUSED)
{
	struct subprocess *r = CONTAINER_OF(t, struct subprocess, late);

	r->too_late = true;
	(void)kill(r->pid, SIGKILL);
	subprocess_finish(r);
}

/* ---- what it writes ---- */

/* Whole lines become events; an object begins with its number. */
static void tell_lines(struct subprocess *r)
{
	char *at = r->text.data, *nl;
	size_t left = r->text.len;

	while (left && (nl = memchr(at, '\n', left))) {
		size_t n = (size_t)(nl - at);
		bool numbered = n > strlen(LINE_SEQ) && memcmp(at, LINE_SEQ, strlen(LINE_SEQ)) == 0;

		if (numbered)
			http_event(r->call, r->event, strtoull(at + strlen(LINE_SEQ), NULL, 10), at,
				   n);
		at += n + 1;
		left -= n + 1;
	}
	if (r->text.data)
		memmove(r->text.data, at, left);
	r->text.len = left;
}

/* false: at its end. */
static bool subprocess_take(int fd, struct buf *b)
{
	char piece[PIECE];
	ssize_t n = read(fd, piece, sizeof(piece));

	if (n > 0)
		buf_add(b, piece, (size_t)n);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void on_out(struct loop_watch *w, uint32_t events UNUSED)
{
	struct subprocess *r = (struct subprocess *)w;

	if (r->follow && !http_room(r->call)) {
		(void)loop_want(r->api->loop, w, 0);
		return;
	}
	if (!subprocess_take(w->fd, &r->text))
		close_watch(r, w);
	else if (r->follow)
		tell_lines(r);
	r->too_much = r->text.failed;
	if (r->too_much)
		(void)kill(r->pid, SIGKILL);
	if (r->too_much || (r->out.fd < 0 && r->words.fd < 0))
		subprocess_finish(r);
}

static void on_words(struct loop_watch *w, uint32_t events UNUSED)
{
	struct subprocess *r = CONTAINER_OF(w, struct subprocess, words);

	if (!subprocess_take(w->fd, &r->said))
		close_watch(r, w);
	if (r->out.fd < 0 && r->words.fd < 0)
		subprocess_finish(r);
}

static void subprocess_room(void *arg)
{
	struct subprocess *r = arg;

	if (r->follow && r->out.fd >= 0 && http_room(r->call))
		(void)loop_want(r->api->loop, &r->out, EPOLLIN);
}

/* ---- the beginning ---- */

/* Each tenant has bounds of its own, and all of them together leave room for the owner. */
static bool too_many(const struct api *a, const struct http_call *c, bool follow)
{
	const char *tenant = c->caller->tenant;
	int keep = *tenant ? OWNERS : 0, all = keep, same = keep, own = 0, own_same = 0;

	for (const struct subprocess *r = a->subprocesses; r; r = r->next) {
		bool mine = str_eq(r->tenant, tenant);

		all++;
		same += r->follow == follow;
		own += mine;
		own_same += mine && r->follow == follow;
	}
	return all >= SUBPROCESSES_MAX || (follow && same >= SUBPROCESSES_FOLLOW) ||
	       (*tenant && (own >= TENANT_MAX || (follow && own_same >= TENANT_FOLLOW)));
}

static void subprocess_begin(struct subprocess *r, struct http_call *c,
			     const struct subprocess_asked *q)
{
	struct api *a = r->api;

	r->next = a->subprocesses;
	r->link = &a->subprocesses;
	if (r->next)
		r->next->link = &r->next;
	a->subprocesses = r;
	buf_puts(&r->text, q->head && !q->follow ? q->head : "");
	if (q->seconds)
		loop_at(a->loop, &r->late, clock_us() + q->seconds * 1000000);
	c->room = subprocess_room;
	c->gone = subprocess_gone;
	c->arg = r;
}

void subprocess_run(struct api *a, struct http_call *c, const struct subprocess_asked *q)
{
	struct subprocess *r = too_many(a, c, q->follow) ? NULL : calloc(1, sizeof(*r));
	struct err e = { 0 };

	if (!r) {
		(void)problem_say(PROBLEM_QUOTA, &e, "too many ask for this at the same time");
		http_problem(c, PROBLEM_QUOTA, &e);
		return;
	}
	*r = (struct subprocess){ .api = a,
				  .call = c,
				  .out = { .fd = -1, .ready = on_out },
				  .words = { .fd = -1, .ready = on_words },
				  .ends = { .fd = -1, .ready = on_ended },
				  .late = { .due = subprocess_on_late },
				  .follow = q->follow,
				  .most = q->most,
				  .tail = q->tail,
				  .text = BUF_INIT(OUT_MAX),
				  .said = BUF_INIT(WORDS_MAX) };
	memcpy(r->tenant, c->caller->tenant, sizeof(r->tenant));
	(void)snprintf(r->event, sizeof(r->event), "%s", q->event ? q->event : "");
	if (subprocess_start(r, q, &e) < 0 || loop_want(a->loop, &r->out, EPOLLIN) < 0 ||
	    loop_want(a->loop, &r->words, EPOLLIN) < 0) {
		subprocess_discard(r);
		http_problem(c, PROBLEM_INTERNAL, &e);
		return;
	}
	if (q->follow && !http_stream(c, NULL)) {
		subprocess_discard(r);
		return;
	}
	subprocess_begin(r, c, q);
}

void subprocess_end_all(struct api *a)
{
	while (a->subprocesses) {
		struct subprocess *r = a->subprocesses;

		if (r->pid > 0)
			(void)kill(r->pid, SIGKILL);
		if (r->call) /* its connection ends later */
			r->call->room = r->call->gone = NULL;
		subprocess_leave(r);
	}
}
