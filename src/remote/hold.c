/* SPDX-License-Identifier: Apache-2.0 */
/* remote/hold.c - brig-hold: has a sandbox for a brig on another host, and ends with its session.
 *
 * opening -> open -> closed. Its input is its leash: nothing is ever read from there but the end.
 * A command's connection is its leash likewise. Nobody is waited for: streams pass through the
 * conductor, and a report goes out as one packet with a file. */
#include "remote/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "base/sys/loop.h"
#include "base/sys/signals.h"
#include "base/sys/sockets.h"
#include "base/text/buf.h"
#include "proc/order.h"
#include "proc/supervisor.h"
#include "sandbox/manager.h"
#include "wire/peer.h"

#define BACKLOG 16
#define LAST_US ((uint64_t)1000 * 1000)
#define REST_US ((uint64_t)100 * 1000)
#define REPORT_ROOM ((size_t)1 << 30)

enum {
	CALLERS = COMMANDS_MAX + 64, /* with those who only bring a signal */
	HOLD_PAST = 1024,
	HOLD_EARLY = 64,
	EXEC_FDS = 4, /* order, input, output, errors */
};

struct hold;

/* One connection, and the command that it asked for. */
struct hold_caller {
	struct loop_watch w; /* first; fd -1: nobody */
	struct loop_watch turns;
	struct hold *h;
	uint32_t command; /* 0: it has asked for none */
	brig_request *request;
	brig_run *run;
	int streams[3];
};

/* A command that has ended: its number there, and here. */
struct hold_past {
	uint32_t command, number;
};

/* A signal that overtook its command. */
struct hold_early {
	uint32_t command;
	int sig;
};

struct hold {
	struct loop *loop;
	int folder, listener, signals;
	const char *name;
	struct loop_watch accepts, turns, leash, ends;
	struct loop_timer rest; /* from accepting, for want of descriptors */
	struct hold_caller callers[CALLERS];
	struct hold_past past[HOLD_PAST]; /* a ring */
	size_t past_count;
	uint32_t newest; /* command that was asked for */
	struct hold_early early[HOLD_EARLY];
	brig_sandbox *sandbox;
	bool over; /* its session, its sandbox, or it was told to end; the loop turns a little more
		    */
};

/* ---- the end of a command ---- */

static int report_file(const struct outcome *o)
{
	CLEANUP(buf) struct buf b = BUF_INIT(REPORT_ROOM);
	CLEANUP(fd) int fd = memfd_create("brig-report", MFD_CLOEXEC);
	struct json j;

	json_init(&j, &b, false);
	outcome_json(o, &j);
	buf_putc(&b, '\n');
	if (fd < 0 || b.failed || fd_write_all(fd, b.data, b.len) < 0)
		return -1;
	return TAKE_FD(fd);
}

static void hold_say_word(const struct hold_caller *c, enum hold_says says, int fd)
{
	const struct hold_say s = { .version = HOLD_VERSION, .says = says };

	(void)fd_send(c->w.fd, &s, sizeof(s), &fd, fd >= 0);
}

static void hold_let_go(struct hold_caller *c)
{
	(void)loop_want(c->h->loop, &c->w, 0);
	c->w.fd = fd_close(c->w.fd);
	brig_request_free(c->request);
	c->request = NULL;
	c->command = 0;
	for (size_t i = 0; i < ARRAY_LEN(c->streams); i++)
		c->streams[i] = fd_close(c->streams[i]);
}

static void hold_remember(struct hold *h, uint32_t command, uint32_t number)
{
	if (number)
		h->past[h->past_count++ % HOLD_PAST] = (struct hold_past){ command, number };
}

/* Waits for its end, unless the sandbox has ended already. */
static void hold_finish(struct hold_caller *c)
{
	CLEANUP(fd) int report = -1;
	brig_result *r = NULL;
	struct brig_error unused;

	(void)loop_want(c->h->loop, &c->turns, 0);
	hold_remember(c->h, c->command, run_handle_number(c->run));
	(void)brig_run_finish(c->run, &r, &unused);
	c->run = NULL;
	report = r ? report_file(result_outcome(r)) : -1;
	brig_result_free(r);
	if (c->w.fd >= 0)
		hold_say_word(c, HOLD_ENDED, report);
	hold_let_go(c);
}

static void on_turn(struct loop_watch *w, uint32_t events UNUSED)
{
	struct hold_caller *c = CONTAINER_OF(w, struct hold_caller, turns);

	int goes_on = brig_run_dispatch(c->run);

	if (goes_on && c->w.fd < 0) /* its session is gone: nobody takes what it wrote */
		run_handle_drop(c->run);
	if (!goes_on)
		hold_finish(c);
}

/* Its session is gone: nobody would hear of the command any more. */
static void hold_leave(struct hold_caller *c)
{
	if (!c->run) {
		hold_let_go(c);
		return;
	}
	(void)loop_want(c->h->loop, &c->w, 0);
	c->w.fd = fd_close(c->w.fd);
	brig_request_cancel(c->request);
	run_handle_signal(c->run, SIGKILL);
	run_handle_drop(c->run);
}

/* ---- the beginning of one ---- */

static int hold_fill(struct hold_caller *c, const struct hold_ask *q, const struct order *o,
		     struct brig_error *e)
{
	brig_request *x = c->request;
	char time[32] = "none";

	if (q->timeout)
		(void)snprintf(time, sizeof(time), "%llums", (unsigned long long)q->timeout);
	if (brig_request_argv(x, o->argv, e) < 0 ||
	    (*o->cwd && brig_request_folder(x, o->cwd, e) < 0) ||
	    brig_request_set(x, "limits.timeout", time, e) < 0)
		return -e->errnum;
	for (const char *const *v = o->envp; *v; v++)
		if (brig_request_set(x, "env.set", *v, e) < 0)
			return -e->errnum;
	brig_request_stdio(x, c->streams[0], c->streams[1], q->tty ? -1 : c->streams[2]);
	request_apart(x);
	if (q->tty)
		request_terminal(x, q->rows, q->cols);
	return 0;
}

static void hold_refuse(struct hold_caller *c, const struct brig_error *e)
{
	CLEANUP(fd) int report = -1;
	struct outcome *o = outcome_new();

	if (o) {
		o->kind = OUTCOME_REFUSED;
		error_import(e, &o->error);
		report = report_file(o);
	}
	(void)outcome_free(o);
	hold_say_word(c, HOLD_ENDED, report);
	hold_leave(c);
}

/* Signals for it may have come first, each in a session of its own. */
static void catch_up(struct hold_caller *c)
{
	for (size_t i = 0; i < HOLD_EARLY; i++)
		if (c->h->early[i].command == c->command) {
			run_handle_signal(c->run, c->h->early[i].sig);
			c->h->early[i].command = 0;
		}
}

static void hold_start(struct hold_caller *c, const struct hold_ask *q, const struct order *o)
{
	struct brig_error e = { .errnum = ENOMEM, .code = "internal", .what = "out of memory" };

	c->request = brig_sandbox_command(c->h->sandbox);
	if (!c->request || hold_fill(c, q, o, &e) < 0 ||
	    brig_sandbox_exec(c->h->sandbox, c->request, &c->run, &e) < 0) {
		hold_refuse(c, &e);
		return;
	}
	c->turns = (struct loop_watch){ .fd = brig_run_fd(c->run), .ready = on_turn };
	if (c->turns.fd < 0 || loop_want(c->h->loop, &c->turns, EPOLLIN) < 0) {
		run_handle_signal(c->run, SIGKILL); /* nobody would hear of it */
		hold_finish(c);
		return;
	}
	catch_up(c);
}

static void exec_order(struct hold_caller *c, const struct hold_ask *q, int *fds, size_t n)
{
	const char *data = NULL;
	const char **words = NULL;
	struct order o = { 0 };
	size_t size = 0, count = 0;

	if (n == EXEC_FDS && !c->command && q->command && order_map(fds[0], &data, &size))
		count = order_words(data, size);
	words = count ? calloc(count, sizeof(*words)) : NULL;
	if (words && order_read(data, size, words, &o)) {
		c->command = q->command;
		c->h->newest = q->command > c->h->newest ? q->command : c->h->newest;
		for (size_t i = 0; i < ARRAY_LEN(c->streams); i++)
			c->streams[i] = TAKE_FD(fds[i + 1]);
		hold_start(c, q, &o);
	} else {
		hold_say_word(c, HOLD_UNKNOWN, -1);
		hold_leave(c);
	}
	free(words);
	if (data)
		(void)munmap((void *)(uintptr_t)data, size);
}

/* ---- signals ---- */

static struct hold_caller *hold_running(struct hold *h, uint32_t command)
{
	for (size_t i = 0; command && i < CALLERS; i++)
		if (h->callers[i].command == command && h->callers[i].run)
			return &h->callers[i];
	return NULL;
}

static bool end_past(struct hold *h, uint32_t command)
{
	for (size_t i = 0; i < HOLD_PAST; i++)
		if (h->past[i].number && h->past[i].command == command) {
			sandbox_end_command(h->sandbox, h->past[i].number);
			return true;
		}
	return false;
}

static bool keep_early(struct hold *h, uint32_t command, int sig)
{
	for (size_t i = 0; command > h->newest && i < HOLD_EARLY; i++)
		if (!h->early[i].command) {
			h->early[i] = (struct hold_early){ command, sig };
			return true;
		}
	return false;
}

static bool hold_pass_on(struct hold *h, const struct hold_ask *q)
{
	struct hold_caller *c = hold_running(h, q->command);
	int sig = q->value > 0 && q->value <= (uint32_t)SIGRTMAX ? (int)q->value : 0;

	if (q->asks == HOLD_SIZE) {
		if (c)
			run_handle_resize(c->run, q->rows, q->cols);
		return c != NULL;
	}
	if (!q->command && sig && sig != SIGKILL) { /* for all; their end is the session's */
		sandbox_signal(h->sandbox, sig);
		return true;
	}
	if (c && sig)
		run_handle_signal(c->run, sig);
	if (c || !sig)
		return c && sig;
	/* One that is to be killed before it has begun must not begin: that is for who asks. */
	return sig == SIGKILL ? end_past(h, q->command) : keep_early(h, q->command, sig);
}

/* ---- callers ---- */

static void hold_answer(struct hold_caller *c, const struct hold_ask *q, int *fds, size_t n)
{
	if (!c->h->sandbox) {
		hold_leave(c);
		return;
	}
	if (q->version == HOLD_VERSION && q->asks == HOLD_EXEC) {
		exec_order(c, q, fds, n);
		return;
	}
	hold_say_word(c,
		      q->version == HOLD_VERSION && q->asks < HOLD_ASKS && hold_pass_on(c->h, q)
			      ? HOLD_DONE
			      : HOLD_UNKNOWN,
		      -1);
	hold_leave(c);
}

static void on_caller(struct loop_watch *w, uint32_t events UNUSED)
{
	struct hold_caller *c = (struct hold_caller *)w;
	struct hold_ask q = { 0 };
	int fds[EXEC_FDS];
	size_t n = EXEC_FDS;
	ssize_t r = fd_recv(w->fd, &q, sizeof(q), fds, &n);

	if (r == -EAGAIN)
		return;
	if (r == (ssize_t)sizeof(q) && !c->command)
		hold_answer(c, &q, fds, n);
	else
		hold_leave(c); /* it has ended, or has more to say than there is */
	for (size_t i = 0; i < n; i++)
		(void)fd_close(fds[i]);
}

static void on_rest(struct loop_timer *t, uint64_t now UNUSED)
{
	struct hold *h = CONTAINER_OF(t, struct hold, rest);

	if (h->listener >= 0)
		(void)loop_want(h->loop, &h->accepts, EPOLLIN);
}

/* Who waits there would wake us up all the time. */
static void hold_rest(struct hold *h)
{
	h->rest.due = on_rest;
	(void)loop_want(h->loop, &h->accepts, 0);
	loop_at(h->loop, &h->rest, clock_us() + REST_US);
}

static void on_newcomer(struct loop_watch *w, uint32_t events UNUSED)
{
	struct hold *h = CONTAINER_OF(w, struct hold, accepts);
	CLEANUP(fd) int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct hold_caller *c = NULL;
	struct peer p;

	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			hold_rest(h);
		return;
	}
	peer_look(fd, &p);
	for (size_t i = 0; p.ours && i < CALLERS && !c; i++)
		if (h->callers[i].w.fd < 0 && !h->callers[i].run)
			c = &h->callers[i];
	if (!c)
		return;
	c->w = (struct loop_watch){ .fd = fd, .ready = on_caller };
	if (loop_want(h->loop, &c->w, EPOLLIN) == 0)
		(void)TAKE_FD(fd);
	else
		c->w.fd = -1;
}

/* ---- its own end ---- */

static void hold_on_end(struct loop_watch *w, uint32_t events UNUSED)
{
	struct hold *h = CONTAINER_OF(w, struct hold, ends);

	h->over = true;
}

static void on_leash(struct loop_watch *w, uint32_t events UNUSED)
{
	struct hold *h = CONTAINER_OF(w, struct hold, leash);
	char unused[512];
	ssize_t n = read(w->fd, unused, sizeof(unused));

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		h->over = true;
}

static void on_sandbox(struct loop_watch *w, uint32_t events UNUSED)
{
	struct hold *h = CONTAINER_OF(w, struct hold, turns);

	if (!brig_sandbox_dispatch(h->sandbox))
		h->over = true;
}

/* ---- opening ---- */

/* Of one that was killed. The lock is held: nobody is between bind and listen. One that is alive
 * and takes no call, because it opens its sandbox or is stopped, is not waited for. */
static void hold_sweep(int folder)
{
	CLEANUP(fd) int dir = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *d;
	struct folder f;

	if (dir < 0)
		return;
	folder_begin(&f, dir);
	while ((d = folder_next(&f))) {
		CLEANUP(fd)
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		struct sockaddr_un at;

		socket_address(folder, d->name, &at);
		if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 &&
		    errno == ECONNREFUSED)
			(void)unlinkat(folder, d->name, 0);
	}
}

static int listen_there(struct hold *h, struct err *e)
{
	struct sockaddr_un at;
	bool listens;

	h->folder = state_open(HOLD_STATE, NULL, 0, e);
	if (h->folder < 0)
		return -e->code;
	h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socket_address(h->folder, h->name, &at);
	if (h->listener < 0 || flock(h->folder, LOCK_EX) < 0)
		return err_sys(e, "cannot listen for commands");
	hold_sweep(h->folder);
	listens = bind(h->listener, (const struct sockaddr *)&at, sizeof(at)) == 0 &&
		  listen(h->listener, BACKLOG) == 0;
	if (!listens) {
		(void)err_sys(e, "cannot listen for commands");
		h->listener = fd_close(h->listener); /* the name may be somebody else's */
	}
	(void)flock(h->folder, LOCK_UN);
	return listens ? 0 : -e->code;
}

static int hold_settle(struct hold *h, struct err *e)
{
	(void)prctl(PR_SET_NAME, "brig-hold", 0, 0, 0);
	signals_ignore_pipe();
	fd_raise_limit();
	for (size_t i = 0; i < CALLERS; i++)
		h->callers[i] = (struct hold_caller){
			.h = h, .w.fd = -1, .turns.fd = -1, .streams = { -1, -1, -1 }
		};
	h->signals = signals_open((const int[]){ SIGTERM, SIGINT, SIGHUP, SIGQUIT, 0 });
	if (h->signals < 0)
		return err_sys(e, "cannot listen for signals");
	return loop_new(&h->loop, e);
}

static int tell_facts(const struct hold *h, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(REPORT_ROOM);
	struct json j;
	int r;

	json_init(&j, &b, false);
	outcome_json(sandbox_facts(h->sandbox), &j);
	buf_putc(&b, '\n');
	r = b.failed ? -ENOMEM : fd_write_all(STDOUT_FILENO, b.data, b.len);
	return r < 0 ? err_errno(e, r, "cannot tell what the sandbox is like") : 0;
}

static int watch_all(struct hold *h)
{
	const struct {
		struct loop_watch *w;
		int fd;
		watch_fn *ready;
	} all[] = { { &h->accepts, h->listener, on_newcomer },
		    { &h->turns, brig_sandbox_fd(h->sandbox), on_sandbox },
		    { &h->leash, STDIN_FILENO, on_leash },
		    { &h->ends, h->signals, hold_on_end } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		*all[i].w = (struct loop_watch){ .fd = all[i].fd, .ready = all[i].ready };
		if (all[i].fd < 0 || loop_want(h->loop, all[i].w, EPOLLIN) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Before everything else: whoever is killed while it ends leaves nothing either. */
static void stop_listening(struct hold *h)
{
	(void)loop_want(h->loop, &h->accepts, 0);
	if (h->listener >= 0)
		(void)unlinkat(h->folder, h->name, 0);
	h->listener = fd_close(h->listener);
}

static void done(struct hold *h)
{
	(void)fd_close(h->folder);
	(void)fd_close(h->signals);
	(void)loop_free(h->loop);
	free(h);
}

static bool any_runs(const struct hold *h)
{
	for (size_t i = 0; i < CALLERS; i++)
		if (h->callers[i].run)
			return true;
	return false;
}

/* First the sandbox: its end is that of all commands, and each is told. What they wrote has a
 * moment to reach a reader, who may never come. */
static int hold_close_all(struct hold *h, brig_result **ret, struct brig_error *e)
{
	uint64_t until;
	int r;

	(void)loop_want(h->loop, &h->turns, 0);
	(void)loop_want(h->loop, &h->leash, 0);
	(void)loop_want(h->loop, &h->ends, 0);
	r = brig_sandbox_close(h->sandbox, ret, e);
	h->sandbox = NULL;
	for (until = clock_us() + LAST_US; any_runs(h) && clock_us() < until;)
		loop_turn(h->loop, LAST_US / 1000);
	for (size_t i = 0; i < CALLERS; i++)
		if (h->callers[i].run)
			run_handle_drop(h->callers[i].run);
	for (size_t i = 0; i < CALLERS; i++)
		if (h->callers[i].run)
			hold_finish(&h->callers[i]);
		else if (h->callers[i].w.fd >= 0)
			hold_leave(&h->callers[i]);
	return r;
}

int hold_serve(brig_request *q, const char *name, brig_result **ret, struct brig_error *be)
{
	struct hold *h = calloc(1, sizeof(*h));
	struct err e = { 0 };
	int r;

	*ret = NULL;
	if (!h) {
		(void)err_nomem(&e);
		error_export(&e, be);
		return -ENOMEM;
	}
	h->name = name;
	h->folder = h->listener = h->signals = -1;
	r = hold_settle(h, &e);
	if (r == 0)
		r = listen_there(h, &e);
	if (r == 0) {
		r = brig_sandbox_open(q, &h->sandbox, be);
		if (r < 0)
			error_import(be, &e);
	}
	if (r == 0 && (tell_facts(h, &e) < 0 || watch_all(h) < 0))
		r = e.code ? -e.code : err_nomem(&e);
	while (r == 0 && !h->over)
		loop_turn(h->loop, -1);
	stop_listening(h);
	if (h->sandbox && hold_close_all(h, ret, be) < 0 && r == 0)
		error_import(be, &e);
	done(h);
	if (e.code)
		error_export(&e, be);
	return -e.code;
}
