/* SPDX-License-Identifier: Apache-2.0 */
/* far/node/node.c - brig-far: reads what is to be run, runs it, carries its streams, reports.
 *
 *   asked -> running -> over
 *
 * Its input is its leash: when that ends, or nothing has come for two minutes, nobody is left who
 * wants the run. A signal of Slurm's (scancel, the end of its time) cancels it. Input that the
 * command has not taken waits here, bounded by the window, so that a signal is read at once. */
#include "far/node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
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
#include "base/text/num.h"
#include "base/text/str.h"
#include "proc/node/node_frame.h"
#include "far/far_place.h"
#include "far/serve/far_asked.h"
#include "far/spool.h"
#include "sandbox/manager.h"

#define ALIVE_US ((uint64_t)5 * 1000 * 1000)
#define SILENCE_US ((uint64_t)120 * 1000 * 1000)
#define UNSENT_MAX ((size_t)48 << 20)
#define UNSENT_FULL ((size_t)256 << 10)
#define ASK_MAX ((size_t)64 << 20)

enum { OWN_STREAMS = 3, STREAMS = 5 };

struct node_session;

struct node_stream {
	struct loop_watch w; /* first */
	struct node_session *n;
	enum node_word kind;
	uint64_t carried;  /* of the command's output */
	struct buf unsent; /* of what is written to */
};

struct node_session {
	struct loop *loop;
	struct node_stream from, to;     /* who asks */
	struct node_stream in, out, err; /* our ends of the command's streams */
	int theirs[3];
	struct loop_watch turns, signals;
	struct loop_timer silence, alive;
	struct node_reader reader;
	struct far_asked asked;
	brig_request *request;
	brig_run *run;
	uint64_t most;    /* of each stream that is written down; 0: all of it goes on */
	const char *task; /* of an array; NULL: none */
	bool input_ended, over, deaf;
};

static struct node_session *node_of(struct loop_watch *w)
{
	return ((struct node_stream *)w)->n;
}

/* ---- streams ---- */

static void end_stream(struct node_stream *s)
{
	if (s->w.fd >= 0)
		(void)loop_want(s->n->loop, &s->w, 0);
	s->w.fd = fd_close(s->w.fd);
}

/* How much was written; a reader that is gone takes everything. */
static size_t node_flush(struct node_stream *s)
{
	size_t done = 0;

	while (s->w.fd >= 0 && done < s->unsent.len) {
		ssize_t n = write(s->w.fd, s->unsent.data + done, s->unsent.len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			end_stream(s);
		else
			done += (size_t)n;
	}
	if (s->w.fd < 0)
		done = s->unsent.len;
	if (done) {
		memmove(s->unsent.data, s->unsent.data + done, s->unsent.len - done);
		s->unsent.len -= done;
	}
	return done;
}

static void give_input(struct node_session *n)
{
	size_t done = node_flush(&n->in);

	if (done && n->to.w.fd >= 0 && !n->task)
		node_put_number(&n->to.unsent, NODE_TAKEN, (uint32_t)done, 4);
	if (n->input_ended && !n->in.unsent.len)
		end_stream(&n->in);
}

static void node_on_room(struct loop_watch *w, uint32_t events UNUSED)
{
	(void)node_flush((struct node_stream *)w);
}

static void on_input_room(struct loop_watch *w, uint32_t events UNUSED)
{
	give_input(node_of(w));
}

static void node_on_output(struct loop_watch *w, uint32_t events UNUSED)
{
	struct node_stream *s = (struct node_stream *)w;
	char part[NODE_PART];
	ssize_t n = read(w->fd, part, sizeof(part));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		end_stream(s);
		return;
	}
	/* One byte more than is kept says that something was cut off. */
	if (s->n->most && s->carried + (uint64_t)n > s->n->most + 1)
		n = (ssize_t)(s->n->most + 1 - s->carried);
	s->carried += (uint64_t)n;
	if (n > 0)
		node_put(&s->n->to.unsent, s->kind, part, (size_t)n);
}

/* ---- the end ---- */

static void report(struct node_session *n, const struct outcome *o)
{
	CLEANUP(buf) struct buf b = BUF_INIT(node_max(NODE_REPORT));
	struct json j;

	json_init(&j, &b, false);
	outcome_json(o, &j);
	if (!b.failed)
		node_put(&n->to.unsent, NODE_REPORT, b.data, b.len);
}

static void node_refuse(struct node_session *n, const struct err *e)
{
	struct outcome *o = outcome_new();

	if (o) {
		o->kind = OUTCOME_REFUSED;
		o->error = *e;
		report(n, o);
	}
	(void)outcome_free(o);
	n->over = true;
}

/* What is still in the pipes comes before the report. */
static void drain(struct node_stream *s, int theirs)
{
	(void)fd_close(theirs);
	while (s->w.fd >= 0)
		node_on_output(&s->w, 0);
}

static void node_finish(struct node_session *n)
{
	brig_result *r = NULL;
	struct brig_error unused;

	if (n->turns.fd >= 0)
		(void)loop_want(n->loop, &n->turns, 0);
	n->turns.fd = -1;
	(void)brig_run_finish(n->run, &r, &unused);
	n->run = NULL;
	drain(&n->out, n->theirs[1]);
	drain(&n->err, n->theirs[2]);
	n->theirs[1] = n->theirs[2] = -1;
	if (r)
		report(n, result_outcome(r));
	brig_result_free(r);
	n->over = true;
}

static void on_turn(struct loop_watch *w, uint32_t events UNUSED)
{
	struct node_session *n = CONTAINER_OF(w, struct node_session, turns);

	if (!brig_run_dispatch(n->run))
		node_finish(n);
}

static void node_leave(struct node_session *n)
{
	if (n->over) {
		end_stream(&n->from);
		return;
	}
	n->deaf = true;
	end_stream(&n->from);
	if (!n->run) {
		n->over = true;
		return;
	}
	brig_request_cancel(n->request);
	run_handle_signal(n->run, SIGKILL);
}

static void on_silence(struct loop_timer *t, uint64_t now UNUSED)
{
	node_leave(CONTAINER_OF(t, struct node_session, silence));
}

/* A batch that ends removes what its tasks write to. A task whose part of Slurm has died would not
 * hear of it in any other way. */
static bool is_unwanted(int fd)
{
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) < 0)
		return errno == ESTALE; /* removed by another machine; else it is not told */
	return fd < 0 || st.st_nlink == 0;
}

static void on_alive(struct loop_timer *t, uint64_t now)
{
	struct node_session *n = CONTAINER_OF(t, struct node_session, alive);

	if (n->task && is_unwanted(n->to.w.fd)) {
		node_leave(n);
		return;
	}
	if (!n->to.unsent.len)
		node_put(&n->to.unsent, NODE_ALIVE, NULL, 0);
	loop_at(n->loop, t, now + ALIVE_US);
}

static void node_on_signal(struct loop_watch *w, uint32_t events UNUSED)
{
	struct node_session *n = CONTAINER_OF(w, struct node_session, signals);
	struct signalfd_siginfo s;

	if (read(w->fd, &s, sizeof(s)) != (ssize_t)sizeof(s))
		return;
	if (n->run)
		brig_request_cancel(n->request);
	else
		n->over = true;
}

/* ---- the beginning ---- */

static int open_pipes(struct node_session *n, struct err *e)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };
	struct node_stream *all[OWN_STREAMS] = { &n->in, &n->out, &n->err };

	if ((n->asked.input && pipe2(in, O_CLOEXEC) < 0) || pipe2(out, O_CLOEXEC) < 0 ||
	    (!n->asked.tty && pipe2(err, O_CLOEXEC) < 0))
		return err_sys(e, "cannot make a pipe");
	n->theirs[0] = in[0];
	n->theirs[1] = out[1];
	n->theirs[2] = err[1];
	n->in.w = (struct loop_watch){ .fd = in[1], .ready = on_input_room };
	n->out.w = (struct loop_watch){ .fd = out[0], .ready = node_on_output };
	n->err.w = (struct loop_watch){ .fd = err[0], .ready = node_on_output };
	for (size_t i = 0; i < OWN_STREAMS; i++)
		if (all[i]->w.fd >= 0)
			(void)fcntl(all[i]->w.fd, F_SETFL,
				    fcntl(all[i]->w.fd, F_GETFL) | O_NONBLOCK);
	return 0;
}

static void node_on_note(void *arg, const char *text)
{
	struct node_session *n = arg;
	size_t size = strlen(text);

	node_put(&n->to.unsent, NODE_NOTE, text,
		 size < node_max(NODE_NOTE) ? size : node_max(NODE_NOTE));
}

static void go(struct node_session *n)
{
	struct brig_error be;
	struct err e = { 0 };

	if (!n->asked.has_words)
		(void)err_set(&e, ERR_INTERNAL, EPROTO, "no command was sent");
	if (e.code || far_asked_request(&n->asked, NULL, &n->request, &e) < 0 ||
	    open_pipes(n, &e) < 0) {
		node_refuse(n, &e);
		return;
	}
	if (n->task)
		n->most = n->asked.output;
	brig_request_stdio(n->request, n->theirs[0], n->theirs[1], n->theirs[2]);
	brig_request_on_note(n->request, node_on_note, n);
	if (brig_start(n->request, &n->run, &be) < 0) {
		error_import(&be, &e);
		node_refuse(n, &e);
		return;
	}
	n->turns = (struct loop_watch){ .fd = brig_run_fd(n->run), .ready = on_turn };
	if (!brig_run_dispatch(n->run)) {
		node_finish(n);
		return;
	}
	node_put(&n->to.unsent, NODE_BEGAN, NULL, 0);
	if (n->turns.fd < 0 || loop_want(n->loop, &n->turns, EPOLLIN) < 0) {
		run_handle_signal(n->run, SIGKILL);
		node_finish(n);
	}
}

static void take_input(struct node_session *n, const struct node_frame *f)
{
	if (n->in.w.fd >= 0)
		buf_add(&n->in.unsent, f->data, f->size);
	give_input(n);
}

static void node_take(struct node_session *n, const struct node_frame *f)
{
	static const enum frames_kind texts[] = { [NODE_SETTINGS] = FRAMES_SETTINGS,
						  [NODE_WORDS] = FRAMES_WORDS,
						  [NODE_VARIABLES] = FRAMES_VARIABLES,
						  [NODE_CODE] = FRAMES_CODE };

	switch (f->kind) {
	case NODE_SETTINGS:
	case NODE_WORDS:
	case NODE_VARIABLES:
	case NODE_CODE:
		if (!n->request)
			far_asked_whole(&n->asked, texts[f->kind], f->data, f->size);
		break;
	case NODE_GO:
		if (!n->request)
			go(n);
		break;
	case NODE_INPUT:
		take_input(n, f);
		break;
	case NODE_INPUT_END:
		n->input_ended = true;
		give_input(n);
		break;
	case NODE_SIGNAL:
		if (n->run && node_number(f) > 0 && node_number(f) <= (uint32_t)SIGRTMAX)
			run_handle_signal(n->run, (int)node_number(f));
		break;
	case NODE_SIZE:
		if (n->run)
			run_handle_resize(n->run, (unsigned short)(node_number(f) >> 16),
					  (unsigned short)node_number(f));
		break;
	default:
		break;
	}
}

static void on_frames(struct loop_watch *w, uint32_t events UNUSED)
{
	struct node_session *n = node_of(w);
	struct node_frame f;
	char part[65536];
	ssize_t got = read(w->fd, part, sizeof(part));
	int r = 0;

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got <= 0) {
		node_leave(n);
		return;
	}
	loop_at(n->loop, &n->silence, clock_us() + SILENCE_US);
	node_reader_add(&n->reader, part, (size_t)got);
	while (!n->over && (r = node_reader_next(&n->reader, &f)) == 1)
		node_take(n, &f);
	if (r < 0 || n->in.unsent.failed)
		node_leave(n);
}

static void node_settle(void *arg)
{
	struct node_session *n = arg;
	bool full;

	(void)node_flush(&n->to);
	full = n->to.unsent.len > UNSENT_FULL;
	if (n->over && (!n->to.unsent.len || n->to.w.fd < 0)) {
		loop_stop(n->loop);
		return;
	}
	if (n->to.w.fd >= 0)
		(void)loop_want(n->loop, &n->to.w, n->to.unsent.len ? EPOLLOUT : 0);
	if (n->out.w.fd >= 0)
		(void)loop_want(n->loop, &n->out.w, full ? 0 : EPOLLIN);
	if (n->err.w.fd >= 0)
		(void)loop_want(n->loop, &n->err.w, full ? 0 : EPOLLIN);
	if (n->in.w.fd >= 0)
		(void)loop_want(n->loop, &n->in.w, n->in.unsent.len ? EPOLLOUT : 0);
}

static void say_ready(struct node_session *n)
{
	CLEANUP(buf) struct buf b = BUF_INIT(node_max(NODE_READY));
	const char *job = n->task ? n->task : getenv("SLURM_JOB_ID");
	char host[128];
	struct json j;

	far_asked_name(host, sizeof(host));
	json_init(&j, &b, false);
	json_object(&j);
	json_kstr(&j, "version", BRIG_VERSION);
	json_kstr(&j, "host", host);
	json_kstr(&j, "job", job ? job : "");
	json_object_end(&j);
	node_put(&n->to.unsent, NODE_READY, b.data, b.len);
}

static void node_prepare(struct node_session *n, int from, int to)
{
	struct node_stream *all[STREAMS] = { &n->from, &n->to, &n->in, &n->out, &n->err };

	for (size_t i = 0; i < STREAMS; i++) {
		all[i]->n = n;
		all[i]->w.fd = -1;
		all[i]->unsent = (struct buf)BUF_INIT(UNSENT_MAX);
	}
	n->in.unsent.max = (size_t)NODE_WINDOW * 2;
	n->out.kind = NODE_OUT;
	n->err.kind = NODE_ERR;
	n->from.w = (struct loop_watch){ .fd = from, .ready = on_frames };
	n->to.w = (struct loop_watch){ .fd = to, .ready = node_on_room };
	(void)fcntl(from, F_SETFL, fcntl(from, F_GETFL) | O_NONBLOCK);
	(void)fcntl(to, F_SETFL, fcntl(to, F_GETFL) | O_NONBLOCK);
	n->turns.fd = n->theirs[0] = n->theirs[1] = n->theirs[2] = -1;
	signals_ignore_pipe();
	n->signals =
		(struct loop_watch){ .fd = signals_open(SIGNALS_END), .ready = node_on_signal };
	n->silence.due = on_silence;
	n->alive.due = on_alive;
	node_reader_init(&n->reader, NODE_FROM_HERE);
	far_asked_init(&n->asked);
	n->asked.protocol = NODE_PROTOCOL;
}

static void done(struct node_session *n)
{
	struct node_stream *all[STREAMS] = { &n->from, &n->to, &n->in, &n->out, &n->err };

	brig_request_free(n->request);
	for (size_t i = 0; i < STREAMS; i++) {
		end_stream(all[i]);
		buf_done(&all[i]->unsent);
	}
	for (size_t i = 0; i < ARRAY_LEN(n->theirs); i++)
		(void)fd_close(n->theirs[i]);
	node_reader_done(&n->reader);
	far_asked_done(&n->asked);
	(void)loop_free(n->loop);
}

static int read_ask(int spool, const char *name, struct buf *text)
{
	CLEANUP(fd) int fd = far_spool_read(spool, name);
	char part[65536];
	ssize_t n;

	while (fd >= 0 && ((n = read(fd, part, sizeof(part))) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0)
			buf_add(text, part, (size_t)n);
	return fd < 0 || n < 0 || text->failed ? -EIO : 0;
}

/* The same comes by the input, where what is there already is left alone: whatever is wrong with
 * the file is no reason not to wait for that. */
static void take_quickly(struct node_session *n, const char *path)
{
	const char *name = strrchr(path, '/');
	CLEANUP(buf) struct buf text = BUF_INIT(ASK_MAX), folder = BUF_INIT(PATH_MAX);
	CLEANUP(fd) int spool = -1;
	struct node_reader r;
	struct node_frame f;

	buf_add(&folder, path, (size_t)(name - path));
	spool = far_spool_open(buf_str(&folder));
	if (spool < 0 || !str_starts(name + 1, FAR_SPOOL_ASK) ||
	    read_ask(spool, name + 1, &text) < 0)
		return;
	(void)unlinkat(spool, name + 1, 0);
	node_reader_init(&r, NODE_FROM_HERE);
	node_reader_add(&r, text.data, text.len);
	while (!n->request && !n->over && node_reader_next(&r, &f) == 1)
		node_take(n, &f);
	node_reader_done(&r);
}

static int node_serve_request(int from, int to, const char *ask)
{
	struct node_session n = { 0 };
	struct err e = { 0 };

	(void)prctl(PR_SET_NAME, "brig-far", 0, 0, 0);
	if (loop_new(&n.loop, &e) < 0)
		return 1;
	node_prepare(&n, from, to);
	say_ready(&n);
	loop_at(n.loop, &n.silence, clock_us() + SILENCE_US);
	loop_at(n.loop, &n.alive, clock_us() + ALIVE_US);
	if (loop_want(n.loop, &n.signals, EPOLLIN) == 0 &&
	    loop_want(n.loop, &n.from.w, EPOLLIN) == 0) {
		(void)node_flush(&n.to); /* whoever waits sees that it has begun */
		if (ask)
			take_quickly(&n, ask);
		node_settle(&n);
		if (!n.over || n.to.unsent.len)
			loop_run(n.loop, node_settle, &n);
	}
	done(&n);
	return n.deaf ? 1 : 0;
}

int node_serve(const char *ask)
{
	return node_serve_request(fcntl(0, F_DUPFD_CLOEXEC, 3), fcntl(1, F_DUPFD_CLOEXEC, 3), ask);
}

/* ---- a task of an array ---- */

/* All that it will ever be told. */
static void take_all(struct node_session *n, const struct buf *text)
{
	struct node_frame f;
	int r = 0;

	n->in.unsent.max = ASK_MAX;
	n->reader.held.max = ASK_MAX * 2;
	node_reader_add(&n->reader, text->data, text->len);
	while (!n->over && (r = node_reader_next(&n->reader, &f)) == 1)
		node_take(n, &f);
	if (r < 0 || n->in.unsent.failed || (!n->run && !n->over))
		node_leave(n);
}

static int run_task(int to, const char *task, const struct buf *text)
{
	struct node_session n = { .task = task };
	struct err e = { 0 };

	(void)prctl(PR_SET_NAME, "brig-far", 0, 0, 0);
	if (loop_new(&n.loop, &e) < 0)
		return 1;
	node_prepare(&n, -1, to);
	say_ready(&n);
	(void)node_flush(&n.to); /* whoever waits sees that it has begun */
	loop_at(n.loop, &n.alive, clock_us() + ALIVE_US);
	if (loop_want(n.loop, &n.signals, EPOLLIN) == 0) {
		take_all(&n, text);
		node_settle(&n);
		if (!n.over || n.to.unsent.len)
			loop_run(n.loop, node_settle, &n);
	}
	done(&n);
	return n.deaf ? 1 : 0;
}

/* What sbatch itself needed is none of the command's: it has the variables that were sent, as one
 * that srun has started. */
static void forget_variables(void)
{
	static const char *const names[] = { "PATH", "USER", "LOGNAME", "LC_ALL" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)unsetenv(names[i]); /* allow unsetenv: the process is ours */
}

int node_task(const char *spool)
{
	CLEANUP(buf) struct buf text = BUF_INIT(ASK_MAX);
	CLEANUP(fd) int folder = far_spool_open(spool);
	const char *job = getenv("SLURM_ARRAY_JOB_ID"), *index = getenv("SLURM_ARRAY_TASK_ID");
	char ask[FAR_SPOOL_NAME], out[FAR_SPOOL_NAME], task[64];
	uint64_t number;
	int to;

	if (folder < 0 || !job || !index || num_count(index, &number) < 0)
		return 1;
	forget_variables();
	far_spool_name(ask, number, "ask");
	far_spool_name(out, number, "out");
	(void)snprintf(task, sizeof(task), "%.32s_%llu", job, (unsigned long long)number);
	if (read_ask(folder, ask, &text) < 0)
		return 1;
	/* Whoever comes second is not wanted: a task runs once. */
	to = openat(folder, out, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	return to < 0 ? 1 : run_task(to, task, &text);
}

void node_where(const char *path, char *out, size_t room)
{
	struct far_place at = { 0 };
	char boot[FAR_BOOT_SIZE];

	far_boot(boot);
	(void)far_place_look(path, &at);
	(void)snprintf(out, room, "brig-place %llu %llu %llu %s", (unsigned long long)at.dev,
		       (unsigned long long)at.ino, (unsigned long long)at.type, boot);
}

void node_probe(char *out, size_t room)
{
	brig_manager *m = brig_manager_new();
	struct brig_error e = { .what = "out of memory" };
	char host[128];
	int r = m ? brig_manager_set(m, "backend", "native", &e) : -ENOMEM;

	far_asked_name(host, sizeof(host));
	if (r == 0)
		r = brig_manager_ready(m, &e);
	(void)snprintf(out, room, "brig-far %s %s %s%s%.300s", BRIG_VERSION, host,
		       r == 0 ? "ok" : "no", r == 0 ? "" : " ", r == 0 ? "" : e.what);
	brig_manager_free(m);
}
