/* SPDX-License-Identifier: Apache-2.0 */
/* apps/batch/batch_worker.c - brig-batch: runs one line at a time, and ends with its batch. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "apps/batch/batch_internal.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "base/text/buf.h"
#include "proc/forked.h"
#include "sandbox/manager.h"
#include "sandbox/recorder.h"

struct batch_worker {
	const struct batch_lines *lines;
	const struct spec *holds;
	pid_t owner; /* whose end is ours too */
	int batch, signals;
};

static enum batch_class class_of(const struct outcome *o)
{
	switch (o->kind) {
	case OUTCOME_EXITED:
		return o->exit_code ? BATCH_EXIT : BATCH_OK;
	case OUTCOME_SIGNALLED:
		return BATCH_SIGNAL;
	case OUTCOME_TIMEOUT:
		return BATCH_TIMEOUT;
	case OUTCOME_OOM:
		return BATCH_OOM;
	case OUTCOME_LIMIT:
		return BATCH_LIMIT;
	case OUTCOME_CANCELLED:
		return BATCH_CANCELLED;
	default:
		return o->error.kind == ERR_UNAVAILABLE || o->error.kind == ERR_INTERNAL
			       ? BATCH_UNAVAILABLE
			       : BATCH_REFUSED;
	}
}

static void worker_answer(const struct batch_worker *w, const struct batch_job *job,
			  const struct outcome *o)
{
	CLEANUP(buf) struct buf text = BUF_INIT(BATCH_RESULT_MAX);
	CLEANUP(fd) int fd = memfd_create("brig-result", MFD_CLOEXEC);
	struct batch_answer a = { .index = job->index,
				  .attempt = job->attempt,
				  .class = class_of(o) };
	struct json j;

	(void)snprintf(a.outcome, sizeof(a.outcome), "%s", outcome_name(o->kind));
	json_init(&j, &text, false);
	outcome_json(o, &j);
	if (fd < 0 || text.failed || fd_write_all(fd, text.data, text.len) < 0)
		_exit(1); /* lost, which the batch sees */
	if (fd_send(w->batch, &a, sizeof(a), &fd, 1) < 0)
		_exit(0);
}

/* A line that asks for too much is refused as a run of that kind would be. */
static void worker_refuse(const struct batch_worker *w, const struct batch_job *job,
			  const struct err *e)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct err unrecorded = { 0 }; /* refused anyway */

	if (!o)
		_exit(1);
	(void)recorder_refused(w->holds, "batch", e, &unrecorded);
	o->kind = OUTCOME_REFUSED;
	o->error = *e;
	worker_answer(w, job, o);
}

static void run_line(const struct batch_worker *w, const struct batch_job *job)
{
	brig_request *q = NULL;
	brig_result *r = NULL;
	struct brig_error be;
	struct err e = { 0 };

	if (batch_lines_request(w->lines, w->holds, job->index, &q, &e) < 0) {
		worker_refuse(w, job, &e);
		return;
	}
	/* What was submitted outlives the batch: then nobody is to cancel it. */
	(void)prctl(PR_SET_PDEATHSIG, job->submitted ? SIGKILL : SIGTERM, 0, 0, 0);
	if (job->submitted) {
		request_spec(q)->slurm.spool = job->spool;
		request_spec(q)->slurm.array = job->array;
		request_spec(q)->slurm.task = job->task;
		request_spec(q)->slurm.holds = job->limits;
	}
	request_signals(q, w->signals);
	(void)brig_execute(q, &r, &be);
	if (!r)
		_exit(1);
	worker_answer(w, job, result_outcome(r));
	brig_result_free(r);
	brig_request_free(q);
}

/* What ends the batch is the batch's to hear of; it asks us to end by SIGTERM, and so does its
 * death. */
static int worker_open_signals(void)
{
	sigset_t set, term;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGQUIT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigemptyset(&term);
	(void)sigaddset(&term, SIGTERM);
	return signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int batch_work(void *arg, int line)
{
	struct batch_worker *w = arg;
	struct batch_job job;

	w->batch = line;
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
	if (getppid() != w->owner || fd_close_except(3, &w->batch, 1) < 0)
		return 1;
	w->signals = worker_open_signals();
	while (w->signals >= 0) {
		size_t none = 0;

		if (wait_fd(w->batch, POLLIN, 0) < 0 ||
		    fd_recv(w->batch, &job, sizeof(job), NULL, &none) != (ssize_t)sizeof(job))
			return 0;
		if (job.index < w->lines->n)
			run_line(w, &job);
	}
	return 1;
}

pid_t batch_worker_start(const struct batch_lines *l, const struct spec *holds, int *fd,
			 struct err *e)
{
	struct batch_worker worker = { .lines = l, .holds = holds, .owner = getpid() };
	const struct forked_want w = { .name = "brig-batch",
				       .what = "a worker",
				       .line = FORKED_PACKETS,
				       .run = batch_work,
				       .arg = &worker };

	return forked_start(&w, fd, e);
}
