/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_job.c - one run on a node, by way of srun.
 *
 *   asked -> queued -> began -> reported -> gone
 *
 * srun carries frames both ways (far/far_job.h). A node that says what none may say, and an srun
 * that goes without a report, end the run as failed. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/slurm/slurm.h"
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
#define LOG_ROOM 2048
#define ASK_S 5

static void signal_client(const struct backend_job *j, int sig)
{
	(void)syscall(SYS_pidfd_send_signal, j->client.fd, sig, NULL, 0);
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
	const char *argv[] = { NULL, "-h", "-o", "%T", "-j", j->id, NULL };
	struct err unused = { 0 };

	return slurm_program(j->plan, "squeue", &argv[0], &unused) == 0 &&
	       slurm_ask(j->plan, argv, NULL, ASK_S, &out, &unused) == 0 &&
	       strstr(buf_str(&out), "SUSPEND");
}

/* srun would wait for ever for a node whose part of Slurm has died. */
static void look_for_life(struct backend_job *j, uint64_t now)
{
	uint64_t heard = far_job_heard(j->far);

	if (heard < j->quiet_from)
		heard = j->quiet_from;
	if (!slurm_job_began(j) || j->reported || j->bad || j->lost || far_job_waits(j->far) ||
	    now - heard < SILENCE_US)
		return;
	j->quiet_from = now;
	if (is_suspended(j))
		return;
	j->lost = true;
	if (!j->patience.at)
		loop_at(j->loop, &j->patience, now);
}

static void on_ping(struct loop_timer *t, uint64_t now)
{
	struct backend_job *j = CONTAINER_OF(t, struct backend_job, ping);
	size_t waits;

	(void)frames_unsent(far_job_frames(j->far), &waits);
	if (!waits && !j->reported)
		far_job_ping(j->far);
	look_for_life(j, now);
	loop_at(j->loop, t, now + PING_US);
}

/* srun ends the job when it is asked to; what does not obey is Slurm's, and the outcome says so. */
static void on_patience(struct loop_timer *t, uint64_t now)
{
	struct backend_job *j = CONTAINER_OF(t, struct backend_job, patience);

	if (j->gone)
		return;
	signal_client(j, j->struck ? SIGKILL : SIGTERM);
	j->left |= j->struck;
	j->struck = true;
	loop_at(j->loop, t, now + PATIENCE_US);
}

int slurm_job_client(struct backend_job *j, const char *const *argv, struct err *e)
{
	CLEANUP(fd) int to = TAKE_FD(j->theirs[0]), from = TAKE_FD(j->theirs[1]);
	int pidfd = -1, r = 0;

	j->client_pid = argv ? -1 : proc_fork(&pidfd);
	if (j->client_pid == 0)
		slurm_follow(j->plan, to, from, j->log);
	if (argv)
		r = slurm_start_program(j->plan, argv, (const int[]){ to, from, j->log },
					&j->client_pid, &pidfd, e);
	else if (j->client_pid < 0)
		r = err_sys(e, "cannot start a process");
	if (r < 0)
		return r;
	j->client = (struct loop_watch){ .fd = pidfd, .ready = slurm_job_on_gone };
	if (loop_want(j->loop, &j->client, EPOLLIN) < 0)
		return err_nomem(e);
	loop_at(j->loop, &j->ping, clock_us() + PING_US);
	slurm_job_turn(j);
	return 0;
}

/* Of a task that was submitted with others the input is there already, and nothing is answered. */
static int open_line(struct backend_job *j, struct ends *ends, struct err *e)
{
	int to[2], from[2];
	struct frames_line line = { .window = FAR_WINDOW,
				    .most = FAR_OUT,
				    .newlines = true,
				    .unanswered = j->plan->slurm.spool };

	if (loop_new(&j->loop, e) < 0)
		return -e->code;
	j->log = memfd_create("brig-slurm-log", MFD_CLOEXEC);
	if (j->log < 0 || pipe2(to, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	j->theirs[0] = to[0];
	j->to = line.to = to[1];
	if (pipe2(from, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	j->from = line.from = from[0];
	j->theirs[1] = from[1];
	line.loop = j->loop;
	(void)fcntl(j->to, F_SETFL, O_NONBLOCK);
	(void)fcntl(j->from, F_SETFL, O_NONBLOCK);
	if (line.unanswered)
		ends->in[0] = fd_close(ends->in[0]);
	return far_job_new(&line, &j->far, e) < 0 ||
			       far_job_add(j->far, FAR_RUN, TAKE_FD(ends->in[0]),
					   TAKE_FD(ends->out[1]), TAKE_FD(ends->err[1]), e) < 0
		       ? -e->code
		       : 0;
}

int slurm_job_new(struct backend_plan *p, struct ends *ends, struct backend_job **ret,
		  struct err *e)
{
	CLEANUP(slurm_job) struct backend_job *j = calloc(1, sizeof(*j));

	if (!j)
		return err_nomem(e);
	j->plan = p;
	j->id = j->node = "";
	j->log = j->client.fd = j->to = j->from = j->theirs[0] = j->theirs[1] = -1;
	j->ping.due = on_ping;
	j->patience.due = on_patience;
	if (open_line(j, ends, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(j);
	return 0;
}

/* ---- the conductor's words ---- */

bool slurm_job_began(const struct backend_job *j)
{
	return far_job_began(j->far, FAR_RUN);
}

/* Nothing more will come of it. */
static bool is_over(const struct backend_job *j)
{
	const struct frames *line = far_job_frames(j->far);

	return j->reported || j->lost || frames_deaf(line) || frames_said_all(line);
}

static bool slurm_job_ended(const struct backend_job *j)
{
	return j->gone && is_over(j) && !far_job_waits(j->far);
}

void slurm_job_turn(struct backend_job *j)
{
	struct frames *line = far_job_frames(j->far);

	loop_turn(j->loop, 0);
	(void)far_job_turn(j->far);
	(void)far_job_ready(j->far, &j->node, &j->id);
	if (!j->bad && frames_deaf(line) && frames_deaf(line) != -EPIPE) {
		j->bad = true;
		signal_client(j, SIGTERM);
	}
	if (!j->reported && far_job_report(j->far, FAR_RUN)) {
		j->reported = true;
		frames_hush(line); /* nothing is left to say: srun need not look after it */
		j->to = fd_close(j->to);
	}
	/* The last news may have come while it was started, or given a signal: the conductor is
	 * to ask once more. */
	if (slurm_job_ended(j))
		loop_at(j->loop, &j->ping, clock_us());
}

static enum job_event slurm_event(struct backend_job *j, bool alarm UNUSED,
				  struct outcome *o UNUSED)
{
	struct frames_command *c;

	slurm_job_turn(j);
	c = frames_find(far_job_frames(j->far), FAR_RUN);
	if (c && is_over(j) && !far_job_waits(j->far))
		frames_end(c); /* the streams' readers see their end */
	if ((j->reported || j->bad) && !j->patience.at)
		loop_at(j->loop, &j->patience, clock_us() + PATIENCE_US);
	return slurm_job_ended(j) ? JOB_ENDED : JOB_NOTHING;
}

static void slurm_signal(struct backend_job *j, uint32_t command UNUSED, int sig)
{
	if (sig == SIGKILL && j->killing)
		return;
	far_job_signal(j->far, FAR_RUN, sig);
	if (sig == SIGKILL) {
		j->killing = true;
		loop_at(j->loop, &j->patience, clock_us() + PATIENCE_US);
	}
	slurm_job_turn(j);
}

static void slurm_resize(struct backend_job *j, uint32_t command UNUSED, unsigned short rows,
			 unsigned short cols)
{
	far_job_resize(j->far, FAR_RUN, rows, cols);
	slurm_job_turn(j);
}

/* ---- the end ---- */

int slurm_job_explain(struct backend_job *j, struct err *e)
{
	char words[LOG_ROOM];

	slurm_words(j->log, false, words, sizeof(words));
	if (j->bad)
		return err_refuse(e, ERR_UNAVAILABLE, EPROTO,
				  "is slurm.brig the brig of this version there?",
				  "what answers on node '%.60s' is no brig that fits", j->node);
	if (!j->id[0])
		return err_refuse(e, ERR_UNAVAILABLE, EIO, "brig doctor --backend slurm",
				  "Slurm did not start the run: %.250s",
				  words[0] ? words : "srun ended without a word");
	return err_refuse(e, ERR_UNAVAILABLE, ECONNRESET,
			  "sacct, or scontrol show job, has Slurm's own account of it",
			  "the run on node '%.60s' (job %s) was lost%s%.200s", j->node, j->id,
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
	if (!j)
		return NULL;
	if (j->client_pid > 0) {
		if (!j->gone) {
			signal_client(j, SIGTERM);
			if (wait_fd(j->client.fd, POLLIN, clock_us() + PATIENCE_US) < 0)
				signal_client(j, SIGKILL);
		}
		(void)proc_wait(j->client_pid);
	}
	forget_ask(j);
	(void)far_job_free(j->far);
	for (size_t i = 0; i < ARRAY_LEN(j->theirs); i++)
		(void)fd_close(j->theirs[i]);
	(void)fd_close(j->to);
	(void)fd_close(j->from);
	if (j->client.fd >= 0)
		(void)loop_want(j->loop, &j->client, 0);
	(void)fd_close(j->client.fd);
	(void)fd_close(j->log);
	(void)loop_free(j->loop);
	free(j);
	return NULL;
}

void slurm_job_finish(struct backend_job *j, struct outcome *o)
{
	struct isolation unused = { 0 }, *i = j->isolation ? j->isolation : &unused;
	const struct buf *said = far_job_report(j->far, FAR_RUN);
	struct err e = { 0 };

	if (said && report_read(said->data, said->len, o, i, &e) < 0 && o->kind == OUTCOME_FAILED)
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
