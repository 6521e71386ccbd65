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

#define FRAMES_MAX ((size_t)40 << 20)
#define QUICK_MAX ((size_t)64 << 10)
#define SLICE_MS 100
#define QUEUE_NOTE_US ((uint64_t)2 * 1000 * 1000)

static void put_list(struct buf *b, enum node_word kind, const char *const *v)
{
	CLEANUP(buf) struct buf all = BUF_INIT(node_max(kind));

	for (; v && *v; v++)
		buf_add(&all, *v, strlen(*v) + 1);
	b->failed |= all.failed;
	node_put(b, kind, all.data, all.len);
}

int slurm_frames(const struct backend_plan *p, const struct slurm_ask *a, struct buf *b,
		 struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(node_max(NODE_SETTINGS));
	const struct far_request q = { .id = a->id,
				       .settings = p->settings.data,
				       .settings_size = p->settings.len,
				       .paths = p->paths,
				       .path_count = p->path_count,
				       .one_home = true,
				       .tty = a->tty,
				       .input = a->input,
				       .rows = a->rows,
				       .cols = a->cols,
				       .output = p->output,
				       .most_timeout = p->most_timeout,
				       .most_memory = p->most_memory,
				       .most_gpus = p->most_gpus };

	if (far_request_settings(&q, NODE_PROTOCOL, &text, e) < 0)
		return -e->code;
	b->failed |= text.failed;
	node_put(b, NODE_SETTINGS, text.data, text.len);
	put_list(b, NODE_WORDS, p->words);
	put_list(b, NODE_VARIABLES, (const char *const *)p->variables);
	if (p->code)
		node_put(b, NODE_CODE, p->code, p->code_size);
	node_put(b, NODE_GO, NULL, 0);
	return b->failed ? err_set(e, ERR_USAGE, E2BIG, "the command is too long") : 0;
}

/* The conductor's ends: pipes, or for a terminal one socket, both ways. */
static int open_ends(struct backend_job *j, const struct job_want *w, struct job_io *io,
		     struct err *e)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };

	if (job_has_tty(w)) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) < 0 ||
		    (in[1] = fcntl(out[0], F_DUPFD_CLOEXEC, 3)) < 0 ||
		    (in[0] = fcntl(out[1], F_DUPFD_CLOEXEC, 3)) < 0)
			return err_sys(e, "cannot make a socket");
	} else if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 ||
		   (!w->no_input && pipe2(in, O_CLOEXEC) < 0)) {
		return err_sys(e, "cannot make a pipe");
	}
	io->in = in[1];
	io->out = out[0];
	io->err = err[0];
	j->in.w.fd = in[0];
	j->out.w.fd = out[1];
	j->err.w.fd = err[1];
	return 0;
}

static void close_ends(struct job_io *io)
{
	io->in = fd_close(io->in);
	io->out = fd_close(io->out);
	io->err = fd_close(io->err);
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

	while (!j->began && !j->reported) {
		struct pollfd p[] = { { .fd = loop_fd(j->loop), .events = POLLIN },
				      { .fd = w->wake[0], .events = POLLIN },
				      { .fd = w->wake[1], .events = POLLIN } };

		if (wait_any(p, ARRAY_LEN(p), clock_after(SLICE_MS)) < 0)
			return err_sys(e, "cannot wait for Slurm");
		slurm_job_turn(j);
		if (j->began || j->reported)
			break;
		if (j->gone || j->bad)
			return slurm_job_explain(j, e);
		if (asked_to_stop(w))
			return slurm_start_give_up(false, e);
		if (wait && !j->job_id[0] && clock_us() - from > wait)
			return slurm_start_give_up(true, e);
		if (!told && !j->job_id[0] && clock_us() - from > QUEUE_NOTE_US && w->host.note) {
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
	struct isolation unused = { 0 };

	if (!o)
		return err_nomem(e);
	if (report_read(j->report.data, j->report.len, o, &unused, e) < 0)
		return -e->code;
	if (!o->error.code)
		return 0; /* it was over before anybody heard of its beginning */
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
	size_t n = 0;

	if (j->to.unsent.len > QUICK_MAX ||
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
	if (!argv[n] || fd_write_all(fd, j->to.unsent.data, j->to.unsent.len) < 0)
		argv[n] = NULL;
}

static int slurm_start_begin(struct backend_job *j, const struct job_want *w, struct job_io *io,
			     struct err *e)
{
	struct slurm_ask a = { .id = w->id,
			       .tty = job_has_tty(w),
			       .input = !w->no_input,
			       .rows = w->rows,
			       .cols = w->cols };
	struct slurm_nodes nodes = { .unfit = BUF_INIT(SLURM_TEXT_MAX), .why = BUF_INIT(1024) };
	const char **argv;
	int r;

	if (j->plan->slurm.spool) /* it was submitted already, with others */
		return open_ends(j, w, io, e) < 0 || slurm_job_follow(j, e) < 0 ||
				       slurm_start_await(j, w, e) < 0 ||
				       (!j->began && refusal(j, e) < 0)
			       ? -e->code
			       : 0;
	r = slurm_nodes_fit(j->plan, &nodes, e);

	slurm_narrow(j->plan, &nodes.facts);
	argv = r == 0 ? slurm_srun(j->plan, w->id, buf_str(&nodes.unfit)) : NULL;
	slurm_nodes_done(&nodes);
	if (r < 0)
		return r;
	if (!argv)
		return err_nomem(e);
	j->to.unsent.max = FRAMES_MAX;
	if (slurm_frames(j->plan, &a, &j->to.unsent, e) < 0 || open_ends(j, w, io, e) < 0)
		return -e->code;
	put_quickly(j, w->id, argv);
	if (slurm_job_client(j, argv, e) < 0 || slurm_start_await(j, w, e) < 0)
		return -e->code;
	if (!j->began && refusal(j, e) < 0)
		return -e->code;
	return 0;
}

int slurm_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		struct backend_job **ret, struct err *e)
{
	CLEANUP(slurm_job) struct backend_job *j = slurm_job_new(p);

	if (!j)
		return err_nomem(e);
	j->no_input = w->no_input;
	j->isolation = w->isolation;
	if (slurm_start_begin(j, w, io, e) < 0) {
		/* A node that went without a report may have begun it. */
		if (w->outcome)
			w->outcome->started = j->began || (j->job_id[0] && !j->reported);
		close_ends(io);
		return -e->code;
	}
	if (w->outcome) {
		w->outcome->job = arena_strdup(w->outcome->arena, j->job_id);
		w->outcome->node = arena_strdup(w->outcome->arena, j->node);
	}
	io->events = loop_fd(j->loop);
	io->in_peer = io->alarm = io->names = io->agent = -1;
	*ret = TAKE_PTR(j);
	return 0;
}
