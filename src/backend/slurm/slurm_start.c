/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_start.c - from a plan to a command that runs on a node.
 *
 * What is asked for is on its way to srun before the node has said a word; the command begins only
 * when all of it was read there. How long Slurm takes to find a node is Slurm's affair: a signal
 * for brig, or slurm.wait, ends the waiting. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "backend/slurm/slurm.h"
#include "base/files/fd.h"
#include "base/files/home.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "far/spool.h"

#define QUICK_MAX ((size_t)64 << 10)
#define SLICE_MS 100
#define QUEUE_NOTE_US ((uint64_t)2 * 1000 * 1000)

struct far_request slurm_request(const struct backend_plan *p, const char *id)
{
	return (struct far_request){ .id = id,
				     .settings = p->settings.data,
				     .settings_size = p->settings.len,
				     .words = p->words,
				     .variables = (const char *const *)p->variables,
				     .code = p->code,
				     .code_size = p->code_size,
				     .paths = p->paths,
				     .path_count = p->path_count,
				     .one_home = true,
				     .output = p->output,
				     .most_timeout = p->most_timeout,
				     .most_memory = p->most_memory,
				     .most_gpus = p->most_gpus };
}

static bool asked_to_stop(const struct job_want *w)
{
	return w->host.asked_to_stop &&
	       (wait_look(w->wake[0], POLLIN) || wait_look(w->wake[1], POLLIN)) &&
	       w->host.asked_to_stop(w->host.arg);
}

static int slurm_start_give_up(bool late, struct err *e)
{
	return late ? err_refuse(e, ERR_UNAVAILABLE, ETIMEDOUT,
				 "raise slurm.wait, or see what is free: sinfo, squeue",
				 "Slurm gave no node within slurm.wait")
		    : err_set(e, ERR_UNAVAILABLE, ECANCELED,
			      "interrupted while waiting for a node");
}

/* Until the command runs, or the node has refused it. */
static int slurm_start_await(struct backend_job *j, const struct job_want *w, struct err *e)
{
	uint64_t from = clock_us(), wait = j->plan->slurm.wait * 1000;
	bool told = false;

	while (!slurm_job_began(j) && !j->reported) {
		struct pollfd p[] = { { .fd = loop_fd(j->loop), .events = POLLIN },
				      { .fd = w->wake[0], .events = POLLIN },
				      { .fd = w->wake[1], .events = POLLIN } };

		if (wait_any(p, ARRAY_LEN(p), clock_after(SLICE_MS)) < 0)
			return err_sys(e, "cannot wait for Slurm");
		slurm_job_turn(j);
		if (slurm_job_began(j) || j->reported)
			break;
		if (j->gone || j->bad)
			return slurm_job_explain(j, e);
		if (asked_to_stop(w))
			return slurm_start_give_up(false, e);
		if (wait && !j->id[0] && clock_us() - from > wait)
			return slurm_start_give_up(true, e);
		if (!told && !j->id[0] && clock_us() - from > QUEUE_NOTE_US && w->host.note) {
			w->host.note(w->host.arg,
				     "Slurm has no node yet: the run waits in its queue");
			told = true;
		}
	}
	return 0;
}

/* The node's own refusal is this run's. */
static int refusal(struct backend_job *j, struct err *e)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	const struct buf *said = far_job_report(j->far, FAR_RUN);
	struct isolation unused = { 0 };

	if (!o)
		return err_nomem(e);
	if (report_read(said->data, said->len, o, &unused, e) < 0)
		return -e->code;
	if (!o->error.code)
		return 0; /* it was over before its beginning was heard */
	*e = o->error;
	return err_wrap(e, "node '%.60s'", j->node);
}

/* srun looks at its input only 10 ms after the node has called it. So what is asked for lies in a
 * file as well, for a node that shares it; one that does not waits for the other copy. */
static void put_quickly(struct backend_job *j, const char *id, const char **argv)
{
	CLEANUP(fd) int folder = -1, fd = -1;
	char path[PATH_MAX], name[sizeof(j->ask)];
	struct err unused = { 0 };
	size_t size, n = 0;
	const char *text = frames_unsent(far_job_frames(j->far), &size);

	if (size > QUICK_MAX ||
	    snprintf(name, sizeof(name), FAR_SPOOL_ASK "%s", id) >= (int)sizeof(name))
		return;
	folder = state_open(SLURM_FOLDER, path, sizeof(path), &unused);
	if (folder < 0)
		return;
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	memcpy(j->ask, name, sizeof(name));
	while (argv[n])
		n++;
	argv[n] = arena_printf(j->plan->arena, "%s/%s", path, name);
	if (!argv[n] || fd_write_all(fd, text, size) < 0)
		argv[n] = NULL;
}

/* A task of an array was submitted already, with others. */
static int slurm_start_begin(struct backend_job *j, const struct job_want *w, struct err *e)
{
	struct slurm_nodes nodes = { .unfit = BUF_INIT(SLURM_TEXT_MAX), .why = BUF_INIT(1024) };
	struct far_request q;
	const char **argv;
	int r;

	if (j->plan->slurm.spool)
		return slurm_job_client(j, NULL, e);
	r = slurm_nodes_fit(j->plan, &nodes, e);
	slurm_narrow(j->plan, &nodes.facts);
	argv = r == 0 ? slurm_srun(j->plan, w->id, buf_str(&nodes.unfit)) : NULL;
	slurm_nodes_done(&nodes);
	if (r < 0)
		return r;
	if (!argv)
		return err_nomem(e);
	q = slurm_request(j->plan, w->id);
	q.tty = job_has_tty(w);
	q.input = !w->no_input;
	q.rows = w->rows;
	q.cols = w->cols;
	if (far_request_say(far_job_frames(j->far), &q, e) < 0)
		return -e->code;
	put_quickly(j, w->id, argv);
	return slurm_job_client(j, argv, e);
}

static int slurm_start_job(struct backend_job *j, const struct job_want *w, struct err *e)
{
	bool ok = slurm_start_begin(j, w, e) == 0 && slurm_start_await(j, w, e) == 0 &&
		  (slurm_job_began(j) || refusal(j, e) == 0);

	if (ok && w->outcome) {
		w->outcome->job = arena_strdup(w->outcome->arena, j->id);
		w->outcome->node = arena_strdup(w->outcome->arena, j->node);
	} else if (w->outcome) {
		/* A node that went without a report may have begun it. */
		w->outcome->started = slurm_job_began(j) || (j->id[0] && !j->reported);
	}
	return ok ? 0 : -e->code;
}

int slurm_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		struct backend_job **ret, struct err *e)
{
	CLEANUP(slurm_job) struct backend_job *j = NULL;
	struct ends ends = ENDS_NONE;
	int r = ends_far(&ends, w, e);

	if (r == 0)
		r = slurm_job_new(p, &ends, &j, e);
	if (r == 0) {
		j->isolation = w->isolation;
		r = slurm_start_job(j, w, e);
	}
	if (r == 0)
		*io = (struct job_io){ .in = TAKE_FD(ends.in[1]),
				       .out = TAKE_FD(ends.out[0]),
				       .err = TAKE_FD(ends.err[0]),
				       .in_peer = -1,
				       .events = loop_fd(j->loop),
				       .alarm = -1,
				       .names = -1,
				       .agent = -1 };
	ends_done(&ends);
	if (r == 0)
		*ret = TAKE_PTR(j);
	return r;
}
