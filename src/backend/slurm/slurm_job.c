/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_job.c - one run on a node, by way of srun.
 *
 *   asked -> queued -> began -> reported -> gone
 *
 * srun carries frames both ways; what is in them goes to the conductor's ends. Input is sent as far
 * as the node has taken what came before, so that a signal never waits behind it. While a reader of
 * output does not keep up, nothing more is read from srun. A node that says what none may say, and
 * an srun that goes without a report, end the run as failed. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/slurm/slurm.h"
#include "base/bytes/jread.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "proc/spawn.h"

#define PING_US ((uint64_t)10 * 1000 * 1000)
#define SILENCE_US                                                                                 \
	((uint64_t)30 * 1000 * 1000)             /* of a node that says every 5 s that it is there \
						  */
#define PATIENCE_US ((uint64_t)10 * 1000 * 1000) /* for the end of what was killed */
#define UNSENT_MAX ((size_t)1 << 20)
#define LOG_ROOM 2048
#define STREAMS 5
#define ASK_S 5

static struct backend_job *job_of(struct loop_watch *w)
{
	return ((struct slurm_stream *)w)->j;
}

/* ---- writing ---- */

/* A reader that is gone takes no more: the rest is dropped. */
static void slurm_job_flush(struct slurm_stream *s)
{
	size_t done = 0;

	while (s->w.fd >= 0 && done < s->unsent.len) {
		ssize_t n = write(s->w.fd, s->unsent.data + done, s->unsent.len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			(void)loop_want(s->j->loop, &s->w, 0);
			s->w.fd = fd_close(s->w.fd);
			break;
		}
		done += (size_t)n;
	}
	if (s->w.fd < 0)
		done = s->unsent.len;
	if (done) {
		memmove(s->unsent.data, s->unsent.data + done, s->unsent.len - done);
		s->unsent.len -= done;
	}
}

static void end_stream(struct slurm_stream *s)
{
	if (s->w.fd >= 0)
		(void)loop_want(s->j->loop, &s->w, 0);
	s->w.fd = fd_close(s->w.fd);
}

static bool output_waits(const struct backend_job *j)
{
	return j->out.unsent.len || j->err.unsent.len;
}

static void arrange(struct backend_job *j)
{
	bool room = j->sent - j->taken < NODE_WINDOW && j->to.unsent.len < UNSENT_MAX / 2;

	if (j->to.w.fd >= 0)
		(void)loop_want(j->loop, &j->to.w, j->to.unsent.len ? EPOLLOUT : 0);
	if (j->out.w.fd >= 0)
		(void)loop_want(j->loop, &j->out.w, j->out.unsent.len ? EPOLLOUT : 0);
	if (j->err.w.fd >= 0)
		(void)loop_want(j->loop, &j->err.w, j->err.unsent.len ? EPOLLOUT : 0);
	if (j->in.w.fd >= 0)
		(void)loop_want(j->loop, &j->in.w, j->began && room ? EPOLLIN : 0);
	if (j->from.w.fd >= 0)
		(void)loop_want(j->loop, &j->from.w, output_waits(j) ? 0 : EPOLLIN);
}

static void slurm_job_on_room(struct loop_watch *w, uint32_t events UNUSED)
{
	slurm_job_flush((struct slurm_stream *)w);
}

/* ---- what the conductor gives ---- */

static void on_input(struct loop_watch *w, uint32_t events UNUSED)
{
	struct backend_job *j = job_of(w);
	char part[NODE_PART];
	ssize_t n = read(w->fd, part, sizeof(part));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		end_stream(&j->in);
		node_put(&j->to.unsent, NODE_INPUT_END, NULL, 0);
	} else {
		node_put(&j->to.unsent, NODE_INPUT, part, (size_t)n);
		j->sent += (uint64_t)n;
	}
	slurm_job_flush(&j->to);
}

/* ---- what the node says ---- */

static void copy_word(const struct jread *v, const char *key, char *out, size_t room)
{
	const char *text = jread_str(v, key);
	size_t n = 0;

	for (; text && *text && n + 1 < room; text++)
		if (*text > ' ' && *text < 127 && *text != '\'')
			out[n++] = *text;
	out[n] = '\0';
}

static void slurm_job_on_ready(struct backend_job *j, const struct node_frame *f)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct err unused = { 0 };

	if (jread_parse(f->data, f->size, &v, &unused) < 0) {
		j->bad = true;
		return;
	}
	copy_word(v, "host", j->node, sizeof(j->node));
	copy_word(v, "job", j->job_id, sizeof(j->job_id));
}

static void put_output(struct slurm_stream *s, const struct node_frame *f)
{
	if (s->w.fd >= 0)
		buf_add(&s->unsent, f->data, f->size);
	slurm_job_flush(s);
}

static void slurm_job_take(struct backend_job *j, const struct node_frame *f)
{
	switch (f->kind) {
	case NODE_READY:
		slurm_job_on_ready(j, f);
		break;
	case NODE_BEGAN:
		j->began = true;
		break;
	case NODE_OUT:
		put_output(&j->out, f);
		break;
	case NODE_ERR:
		put_output(&j->err, f);
		break;
	case NODE_TAKEN:
		j->taken += node_number(f);
		j->bad |= j->taken > j->sent;
		break;
	case NODE_ALIVE:
	case NODE_NOTE:
		break;
	case NODE_REPORT:
		buf_add(&j->report, f->data, f->size);
		j->reported = true;
		end_stream(&j->to); /* nothing is left to say: srun need not look after it */
		break;
	default:
		j->bad = true;
		break;
	}
}

/* What follows the report is nobody's. */
static void read_frames(struct backend_job *j)
{
	struct node_frame f;
	int r = 0;

	while (!j->bad && !j->reported && !output_waits(j) &&
	       (r = node_reader_next(&j->reader, &f)) == 1)
		slurm_job_take(j, &f);
	j->bad |= r < 0;
	if (!j->bad)
		return;
	end_stream(&j->from);
	(void)syscall(SYS_pidfd_send_signal, j->client.fd, SIGTERM, NULL, 0);
}

static void on_frames(struct loop_watch *w, uint32_t events UNUSED)
{
	struct backend_job *j = job_of(w);
	char part[65536];
	ssize_t n = read(w->fd, part, sizeof(part));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
		end_stream(&j->from);
	else if (!j->reported)
		node_reader_add(&j->reader, part, (size_t)n);
	j->heard = clock_us();
}

/* ---- its processes ---- */

static void slurm_job_on_gone(struct loop_watch *w, uint32_t events UNUSED)
{
	struct backend_job *j = CONTAINER_OF(w, struct backend_job, client);

	(void)loop_want(j->loop, w, 0);
	j->gone = true;
}

/* A job that Slurm has suspended says nothing, and is well. */
static bool is_suspended(const struct backend_job *j)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	const char *argv[] = { NULL, "-h", "-o", "%T", "-j", j->job_id, NULL };
	struct err unused = { 0 };

	return slurm_program(j->plan, "squeue", &argv[0], &unused) == 0 &&
	       slurm_ask(j->plan, argv, NULL, ASK_S, &out, &unused) == 0 &&
	       strstr(buf_str(&out), "SUSPEND");
}

/* srun would wait for ever for a node whose part of Slurm has died. */
static void look_for_life(struct backend_job *j, uint64_t now)
{
	if (!j->began || j->reported || j->bad || output_waits(j) || now - j->heard < SILENCE_US)
		return;
	j->heard = now;
	if (is_suspended(j))
		return;
	end_stream(&j->from);
	if (!j->patience.at)
		loop_at(j->loop, &j->patience, now);
}

static void on_ping(struct loop_timer *t, uint64_t now)
{
	struct backend_job *j = CONTAINER_OF(t, struct backend_job, ping);

	if (!j->to.unsent.len)
		node_put(&j->to.unsent, NODE_PING, NULL, 0);
	slurm_job_flush(&j->to);
	look_for_life(j, now);
	loop_at(j->loop, t, now + PING_US);
}

/* srun ends the job when it is asked to; what does not obey is Slurm's, and the outcome says so. */
static void on_patience(struct loop_timer *t, uint64_t now)
{
	struct backend_job *j = CONTAINER_OF(t, struct backend_job, patience);

	if (j->gone)
		return;
	(void)syscall(SYS_pidfd_send_signal, j->client.fd, j->struck ? SIGKILL : SIGTERM, NULL, 0);
	j->left |= j->struck;
	j->struck = true;
	loop_at(j->loop, t, now + PATIENCE_US);
}

void slurm_watch(struct backend_job *j, struct slurm_stream *s, int fd, watch_fn *ready)
{
	s->w = (struct loop_watch){ .fd = fd, .ready = ready };
	s->j = j;
	if (fd >= 0)
		(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* argv NULL: a process of ours follows a task. */
static int open_client(struct backend_job *j, const char *const *argv, struct err *e)
{
	int to[2] = { -1, -1 }, from[2] = { -1, -1 }, pidfd = -1, r = 0;

	j->log = memfd_create("brig-slurm-log", MFD_CLOEXEC);
	if (j->log < 0 || pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	slurm_watch(j, &j->to, to[1], slurm_job_on_room);
	slurm_watch(j, &j->from, from[0], on_frames);
	slurm_watch(j, &j->in, j->in.w.fd, on_input);
	slurm_watch(j, &j->out, j->out.w.fd, slurm_job_on_room);
	slurm_watch(j, &j->err, j->err.w.fd, slurm_job_on_room);
	j->client_pid = argv ? -1 : proc_fork(&pidfd);
	if (j->client_pid == 0)
		slurm_follow(j->plan, to[0], from[1], j->log);
	if (argv)
		r = slurm_start_program(j->plan, argv, (const int[]){ to[0], from[1], j->log },
					&j->client_pid, &pidfd, e);
	else if (j->client_pid < 0)
		r = err_sys(e, "cannot start a process");
	(void)fd_close(to[0]);
	(void)fd_close(from[1]);
	if (r < 0)
		return r;
	j->client = (struct loop_watch){ .fd = pidfd, .ready = slurm_job_on_gone };
	if (loop_want(j->loop, &j->client, EPOLLIN) < 0)
		return err_nomem(e);
	loop_at(j->loop, &j->ping, clock_us() + PING_US);
	slurm_job_flush(&j->to);
	arrange(j);
	return 0;
}

int slurm_job_client(struct backend_job *j, const char *const *argv, struct err *e)
{
	return open_client(j, argv, e);
}

int slurm_job_follow(struct backend_job *j, struct err *e)
{
	return open_client(j, NULL, e);
}

struct backend_job *slurm_job_new(struct backend_plan *p)
{
	struct backend_job *j = calloc(1, sizeof(*j));
	struct err unused;

	if (!j)
		return NULL;
	j->plan = p;
	j->log = j->client.fd = -1;
	j->to.w.fd = j->from.w.fd = j->in.w.fd = j->out.w.fd = j->err.w.fd = -1;
	j->to.unsent = (struct buf)BUF_INIT(UNSENT_MAX);
	j->out.unsent = j->err.unsent = (struct buf)BUF_INIT(UNSENT_MAX);
	j->report = (struct buf)BUF_INIT(node_max(NODE_REPORT) + 1);
	j->ping.due = on_ping;
	j->patience.due = on_patience;
	node_reader_init(&j->reader, NODE_FROM_NODE);
	if (loop_new(&j->loop, &unused) == 0)
		return j;
	free(j);
	return NULL;
}

/* ---- the conductor's words ---- */

void slurm_job_turn(struct backend_job *j)
{
	loop_turn(j->loop, 0);
	read_frames(j);
	slurm_job_flush(&j->to);
	arrange(j);
}

enum job_event slurm_job_event(struct backend_job *j)
{
	slurm_job_turn(j);
	if (!output_waits(j) && (j->reported || j->bad || j->from.w.fd < 0)) {
		end_stream(&j->out);
		end_stream(&j->err);
	}
	if ((j->reported || j->bad) && !j->patience.at)
		loop_at(j->loop, &j->patience, clock_us() + PATIENCE_US);
	return j->gone && j->from.w.fd < 0 && !output_waits(j) ? JOB_ENDED : JOB_NOTHING;
}

void slurm_job_signal(struct backend_job *j, int sig)
{
	if (sig == SIGKILL && j->killing)
		return;
	node_put_number(&j->to.unsent, NODE_SIGNAL, (uint32_t)sig, 1);
	slurm_job_flush(&j->to);
	if (sig == SIGKILL) {
		j->killing = true;
		loop_at(j->loop, &j->patience, clock_us() + PATIENCE_US);
	}
	arrange(j);
}

void slurm_job_resize(struct backend_job *j, unsigned short rows, unsigned short cols)
{
	node_put_number(&j->to.unsent, NODE_SIZE, (uint32_t)rows << 16 | cols, 4);
	slurm_job_flush(&j->to);
	arrange(j);
}

/* ---- the end ---- */

static void last_line(int log, char *out, size_t room)
{
	ssize_t n = pread(log, out, room - 1, 0);
	char *at;

	out[n > 0 ? n : 0] = '\0';
	for (char *c = out; *c; c++)
		if (*c != '\n' && (*c < 32 || *c == 127))
			*c = ' ';
	for (size_t k = strlen(out); k && strchr("\n ", out[k - 1]); k--)
		out[k - 1] = '\0';
	/* The first complaint is the cause, what follows are consequences. */
	at = strstr(out, "error: ");
	if (at) {
		memmove(out, at + 7, strlen(at + 7) + 1);
		out[strcspn(out, "\n")] = '\0';
		return;
	}
	at = strrchr(out, '\n');
	if (at)
		memmove(out, at + 1, strlen(at));
}

int slurm_job_explain(struct backend_job *j, struct err *e)
{
	char words[LOG_ROOM];

	last_line(j->log, words, sizeof(words));
	if (j->bad)
		return err_refuse(e, ERR_UNAVAILABLE, EPROTO,
				  "is slurm.brig the brig of this version there?",
				  "what answers on node '%.60s' is no brig that fits", j->node);
	if (!j->job_id[0])
		return err_refuse(e, ERR_UNAVAILABLE, EIO, "brig doctor --backend slurm",
				  "Slurm did not start the run: %.250s",
				  words[0] ? words : "srun ended without a word");
	return err_refuse(e, ERR_UNAVAILABLE, ECONNRESET,
			  "sacct, or scontrol show job, has Slurm's own account of it",
			  "the run on node '%.60s' (job %s) was lost%s%.200s", j->node, j->job_id,
			  words[0] ? ": " : "", words);
}

/* A node that shares it has removed it when it has read it. */
static void forget_ask(const struct backend_job *j)
{
	CLEANUP(fd) int folder = j->ask[0] ? state_find(SLURM_FOLDER, NULL, 0) : -1;

	if (folder >= 0)
		(void)unlinkat(folder, j->ask, 0);
}

struct backend_job *slurm_job_free(struct backend_job *j)
{
	struct slurm_stream *all[STREAMS];

	if (!j)
		return NULL;
	all[0] = &j->to;
	all[1] = &j->from;
	all[2] = &j->in;
	all[3] = &j->out;
	all[4] = &j->err;
	if (j->client_pid > 0) {
		if (!j->gone) {
			(void)syscall(SYS_pidfd_send_signal, j->client.fd, SIGTERM, NULL, 0);
			if (wait_fd(j->client.fd, POLLIN, clock_us() + PATIENCE_US) < 0)
				(void)syscall(SYS_pidfd_send_signal, j->client.fd, SIGKILL, NULL,
					      0);
		}
		(void)proc_wait(j->client_pid);
	}
	forget_ask(j);
	for (size_t i = 0; i < STREAMS; i++) {
		all[i]->j = j;
		end_stream(all[i]);
		buf_done(&all[i]->unsent);
	}
	if (j->client.fd >= 0)
		(void)loop_want(j->loop, &j->client, 0);
	(void)fd_close(j->client.fd);
	(void)fd_close(j->log);
	node_reader_done(&j->reader);
	buf_done(&j->report);
	(void)loop_free(j->loop);
	free(j);
	return NULL;
}

void slurm_job_finish(struct backend_job *j, struct outcome *o)
{
	struct isolation unused = { 0 }, *i = j->isolation ? j->isolation : &unused;
	struct err e = { 0 };

	if (j->reported && report_read(j->report.data, j->report.len, o, i, &e) < 0 &&
	    o->kind == OUTCOME_FAILED)
		o->error = e;
	i->slurm = j->plan->slurm.holds;
	if (j->plan->most_timeout && o->kind == OUTCOME_TIMEOUT)
		o->timeout_ms = j->plan->most_timeout;
	if (j->reported && o->error.code)
		(void)err_wrap(&o->error, "node '%.60s'", j->node);
	if (!j->reported && o->kind == OUTCOME_FAILED)
		(void)slurm_job_explain(j, &o->error);
	if (j->left)
		outcome_deny(o, "process", j->node,
			     "something of the run may still be there: Slurm was asked to end it");
	(void)slurm_job_free(j);
}

static int slurm_probe(const struct spec *s, struct isolation *ret, struct err *e)
{
	CLEANUP(spec) struct spec *copy = s ? spec_clone(s, e) : spec_new(e);
	CLEANUP(slurm_plan) struct backend_plan *p = NULL;
	struct slurm_nodes n = { .unfit = BUF_INIT(SLURM_TEXT_MAX), .why = BUF_INIT(1024) };
	const char *const argv[] = { "true", NULL };
	int r;

	if (!copy)
		return -e->code;
	copy->command.argv = argv;
	copy->command.code = (struct code_spec){ 0 };
	r = slurm_check(copy, e) < 0 || slurm_plan(copy, &p, NULL, e) < 0
		    ? -e->code
		    : slurm_nodes_fit(p, &n, e);
	slurm_nodes_done(&n);
	*ret = (struct isolation){ .cgroup = "none" };
	return r;
}

static enum job_event slurm_event(struct backend_job *j, bool alarm UNUSED,
				  struct outcome *o UNUSED)
{
	return slurm_job_event(j);
}

static void slurm_signal(struct backend_job *j, uint32_t command UNUSED, int sig)
{
	slurm_job_signal(j, sig);
}

static void slurm_resize(struct backend_job *j, uint32_t command UNUSED, unsigned short rows,
			 unsigned short cols)
{
	slurm_job_resize(j, rows, cols);
}

static const struct open_ops slurm_open_ops = { .resize = slurm_resize };

const struct backend backend_slurm = {
	.name = "slurm",
	.kind = BACKEND_SLURM,
	.bit = ON_SLURM,
	.can = BACKEND_SHOWS_CODE | BACKEND_DELEGATES | BACKEND_PROXY | BACKEND_BRIDGE,
	.open = &slurm_open_ops,
	.probe = slurm_probe,
	.check = slurm_check,
	.plan = slurm_plan,
	.plan_json = slurm_plan_json,
	.plan_free = slurm_plan_free,
	.start = slurm_start,
	.event = slurm_event,
	.signal = slurm_signal,
	.finish = slurm_job_finish,
	.array = &slurm_array,
};
