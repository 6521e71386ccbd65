/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh_hold.c - a brig on the other host that keeps a sandbox open.
 *
 * Its session is one like any other, with its own wrapper, watcher, keeper and numbers; what runs
 * in it is brig-hold. That says on its output what the sandbox is like, and then nothing more: no
 * command has this session's streams. It ends the sandbox when the session's input ends, and its
 * report is the sandbox's. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "backend/ssh/ssh_job.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"

#define FACTS_MAX ((size_t)1 << 20)
#define OPEN_PATIENCE_MS 30000
#define SLICE_MS 100
#define BEFORE_MS 1000 /* what an earlier signal may take until the next is sent */

/* It ended instead: its report says why. */
static int not_opened(struct backend_job *j, struct err *e)
{
	struct outcome *o = outcome_new();
	const char *host = j->plan->ssh.host;
	bool silent = j->told && j->report.len < 2;

	if (!o) {
		(void)ssh_job_free(j);
		return err_nomem(e);
	}
	ssh_job_finish(j, o);
	*e = o->error;
	(void)outcome_free(o);
	if (silent)
		return err_refuse(e, ERR_UNAVAILABLE, EPROTO,
				  "install the version of brig there that is here; an older one "
				  "runs single commands",
				  "the brig on '%.60s' is too old to keep a sandbox open", host);
	return e->code ? -e->code
		       : err_set(e, ERR_INTERNAL, EPROTO, "the sandbox on '%.60s' was not opened",
				 host);
}

/* 1: the line is complete; 0: not yet; -E2BIG. */
static int read_line(int fd, struct buf *line, bool *end)
{
	char part[4096];
	ssize_t n = *end ? 0 : read(fd, part, sizeof(part));

	if (n > 0)
		buf_add(line, part, (size_t)n);
	*end |= n == 0;
	if (line->failed)
		return -E2BIG;
	return line->len && memchr(line->data, '\n', line->len) ? 1 : 0;
}

/* Waits until it says that the sandbox is open. -EPIPE, *e untouched: it has ended. */
static int hear_facts(struct backend_job *j, int fd, struct buf *line, struct err *e)
{
	uint64_t until =
		clock_us() + (j->plan->ssh.connect_timeout + OPEN_PATIENCE_MS) * (uint64_t)1000;
	bool end = false;
	int r;

	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	while ((r = read_line(fd, line, &end)) == 0) {
		struct pollfd p[] = { { .fd = end ? -1 : fd, .events = POLLIN },
				      { .fd = j->events, .events = POLLIN } };

		if (ssh_job_event(j) == JOB_ENDED)
			return -EPIPE;
		if (clock_us() > until || ssh_interrupted())
			return ssh_overdue(j->plan, e);
		if (poll(p, ARRAY_LEN(p), SLICE_MS) < 0 && errno != EINTR)
			return err_sys(e, "cannot wait for ssh");
	}
	return r > 0 ? 0
		     : err_set(e, ERR_UNAVAILABLE, EPROTO,
			       "the brig on '%.60s' says more of its sandbox than is read",
			       j->plan->ssh.host);
}

int ssh_hold_open(struct backend_plan *p, const struct job_want *w, struct ssh_hold *h,
		  struct err *e)
{
	CLEANUP(buf) struct buf line = BUF_INIT(FACTS_MAX);
	CLEANUP(ssh_job) struct backend_job *j = NULL;
	CLEANUP(fd) int leash = -1, out = -1;
	struct isolation unused = { 0 };
	struct job_io io = { -1, -1, -1, -1, -1, -1 };
	struct job_want own = *w;
	int r;

	own.no_input = false; /* that is the leash */
	if (ssh_job_start(p, &own, &io, &j, e) < 0)
		return -e->code;
	leash = io.in;
	out = io.out;
	(void)fd_close(io.err); /* so that nobody waits for its reader */
	r = hear_facts(j, out, &line, e);
	if (r == -EPIPE && !e->code) {
		struct backend_job *ended = TAKE_PTR(j);

		return not_opened(ended, e);
	}
	j->abandoned = true; /* unless it is what it should be, it is not left there */
	if (r < 0 || (w->outcome && report_facts(line.data, line.len, w->outcome,
						 w->isolation ? w->isolation : &unused, e) < 0))
		return -e->code;
	j->abandoned = false;
	h->leash = TAKE_FD(leash);
	h->job = TAKE_PTR(j);
	return 0;
}

void ssh_hold_close(struct ssh_hold *h)
{
	h->leash = fd_close(h->leash);
	ssh_job_expect_end(h->job, SSH_PATIENCE_MS);
}

/* One message after the other: the next session must not take the place of the last. */
static void ssh_hold_await(struct ssh_client *c)
{
	struct pollfd p = { .fd = c->pidfd, .events = POLLIN };

	if (c->pid > 0)
		(void)poll(&p, 1, BEFORE_MS);
	client_done(c);
}

static void ssh_hold_tell(struct backend_job *j, const char *hold, uint32_t number,
			  const char *words)
{
	CLEANUP(buf) struct buf text = BUF_INIT((size_t)4096);
	const struct remote_goal g = { .hold = hold, .number = number };
	struct err unused;

	ssh_hold_await(&j->killer);
	remote_tell(&g, words, &text);
	(void)ssh_job_say(j, &text, -1, false, &j->killer, &unused);
}

void ssh_hold_signal(struct ssh_hold *h, uint32_t number, int sig)
{
	char words[32];

	(void)snprintf(words, sizeof(words), "signal %d", sig);
	ssh_hold_tell(h->job, h->job->id, number, words);
}

void ssh_hold_resize(struct backend_job *command, unsigned rows, unsigned cols)
{
	char words[32];

	(void)snprintf(words, sizeof(words), "size %u %u", rows, cols);
	ssh_hold_tell(command, command->plan->hold, command->plan->number, words);
}
