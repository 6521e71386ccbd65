/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh_job.c - one run on another host.
 *
 *   connecting -> started -> (signalled) -> ended
 *
 * Connecting: the client has the wrapper's text, what the remote shells print before the wrapper's
 * marks is dropped, the code is on its way. Started: the mark is there; from here on stdout and
 * stdin are the conductor's, stderr passes through the relay. A signal is a second session over the
 * same connection. Ended: the client is gone and the relay is empty. The command's end is what the
 * wrapper said; a client that goes without a word from it has lost the connection. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "backend/ssh/ssh_job.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/num.h"

#define LOST_PATIENCE_MS 4000
#define ABANDON_PATIENCE_MS 2500

/* ---- running ---- */

static void on_line(struct backend_job *j)
{
	const char *line = buf_str(&j->relay.line) + 1;
	uint64_t v;

	/* Only a brig that was started there reports. */
	if (j->plan->brig && !j->plan->keeps && line[0] == 'J') {
		j->told = true;
		buf_add(&j->report, line + 2, strlen(line + 2));
	} else if ((!j->plan->brig || j->plan->keeps) && line[0] == 'E' &&
		   num_count(line + 2, &v) == 0 && v < 256) {
		j->told = true;
		j->status = (int)v;
	}
}

/* Behind the last word nothing of the run is left to speak. What does is given a moment to go. */
static void on_more(struct backend_job *j)
{
	if (!j->relay.after || j->left)
		return;
	j->left = true;
	ssh_job_expect_end(j, SSH_PATIENCE_MS);
}

/* Listens to the goal of the relay while output waits for it. */
static void ssh_job_follow(struct backend_job *j)
{
	bool waits = !relay_flushed(&j->relay);

	if (waits == j->relay_waits)
		return;
	j->relay_waits = waits;
	if (waits)
		(void)ssh_job_listen(j, j->relay.to, EPOLLOUT);
	else if (j->relay.to >= 0)
		(void)epoll_ctl(j->events, EPOLL_CTL_DEL, j->relay.to, NULL);
	if (j->relay.from < 0)
		return;
	if (waits)
		(void)epoll_ctl(j->events, EPOLL_CTL_DEL, j->relay.from, NULL);
	else
		(void)ssh_job_listen(j, j->relay.from, EPOLLIN);
}

/* The other side cannot be told, or does not obey: the connection goes, and the outcome says so. */
static void ssh_job_give_up(struct backend_job *j)
{
	uint64_t ticks;

	if (read(j->timer, &ticks, sizeof(ticks)) != sizeof(ticks))
		return;
	j->left = true;
	(void)syscall(SYS_pidfd_send_signal, j->client.pidfd, SIGKILL, NULL, 0);
}

enum job_event ssh_job_event(struct backend_job *j)
{
	bool gone = client_ended(&j->client);

	ssh_job_give_up(j);
	while (relay_move(&j->relay) == SAID_LINE)
		on_line(j);
	on_more(j);
	ssh_job_follow(j);
	if (gone && relay_flushed(&j->relay))
		return JOB_ENDED;
	/* What is left waits for its reader, and that is what wakes us. */
	if (gone)
		(void)epoll_ctl(j->events, EPOLL_CTL_DEL, j->client.pidfd, NULL);
	return JOB_NOTHING;
}

void ssh_job_expect_end(struct backend_job *j, long ms)
{
	const struct itimerspec patience = { .it_value = { .tv_sec = ms / 1000,
							   .tv_nsec = ms % 1000 * 1000000 } };

	(void)timerfd_settime(j->timer, 0, &patience, NULL);
}

void ssh_job_strike(struct backend_job *j, int sig)
{
	struct err e;

	if (sig == SIGKILL && j->killing)
		return;
	if (sig == SIGKILL) {
		j->killing = true;
		ssh_job_expect_end(j, SSH_PATIENCE_MS);
	}
	client_done(&j->killer);
	if (ssh_job_signal(j, sig, -1, false, &j->killer, &e) < 0 && sig == SIGKILL)
		(void)syscall(SYS_pidfd_send_signal, j->client.pidfd, SIGKILL, NULL, 0);
}

/* ---- the end ---- */

/* The connection went while the command ran: once more over a new one, if that can be had soon. */
static void end_remotely(struct backend_job *j)
{
	struct err e;

	client_done(&j->killer);
	if (ssh_job_signal(j, SIGKILL, -1, true, &j->killer, &e) < 0) {
		j->left = true;
		return;
	}
	if (wait_fd(j->killer.pidfd, POLLIN, clock_after(LOST_PATIENCE_MS)) < 0 ||
	    client_reap(&j->killer, false) != 0)
		j->left = true;
}

static void ssh_job_judge(struct backend_job *j, struct outcome *o)
{
	struct isolation unused = { 0 }, *i = j->isolation ? j->isolation : &unused;
	struct err e = { 0 };

	/* A report cut short by our own kill is no news. */
	if (j->report.len && report_read(j->report.data, j->report.len, o, i, &e) < 0 &&
	    o->kind == OUTCOME_FAILED)
		o->error = e;
	if (j->report.len && o->error.code)
		(void)err_wrap(&o->error, "on '%.60s'", j->plan->ssh.host);
	if (j->report.len)
		return;
	if (j->told && j->plan->keeps)
		(void)err_refuse(&o->error, ERR_UNAVAILABLE, EPROTO, "was it killed there?",
				 "the brig on '%.60s' ended without a report", j->plan->ssh.host);
	else if (j->told)
		outcome_ended_as(o, j->status);
	else if (o->kind == OUTCOME_FAILED)
		(void)client_explain(j->plan, &j->client, false, &o->error);
}

static void ssh_describe(struct isolation *i)
{
	*i = (struct isolation){ .cgroup = "none",
				 .network = fields[FIELD_NETWORK].words[NETWORK_HOST],
				 .uid_inside = geteuid(),
				 .gid_inside = getegid() };
}

/* A keeper that has work to do outlives a brig that cannot wait for it. */
static void release_keeper(struct backend_job *j)
{
	if (j->leash >= 0 && !j->abandoned)
		(void)!write(j->leash, "q", 1);
	if (j->abandoned) {
		j->leash = fd_close(j->leash);
		if (wait_fd(j->keeper.pidfd, POLLIN, clock_after(ABANDON_PATIENCE_MS)) < 0)
			j->keeper.pid = -1;
	}
	(void)client_reap(&j->keeper, j->leash < 0 && !j->abandoned);
	client_done(&j->keeper);
	j->leash = fd_close(j->leash);
}

struct backend_job *ssh_job_free(struct backend_job *j)
{
	if (!j)
		return NULL;
	client_done(&j->client);
	client_done(&j->killer);
	release_keeper(j);
	relay_done(&j->relay);
	(void)fd_close(j->events);
	(void)fd_close(j->timer);
	buf_done(&j->report);
	j->open = ssh_open_free(j->open);
	j->hold = ssh_hold_free(j->hold);
	free(j);
	return NULL;
}

void ssh_job_finish(struct backend_job *j, struct outcome *o)
{
	(void)client_reap(&j->client, !client_ended(&j->client));
	while (relay_move(&j->relay) == SAID_LINE)
		on_line(j);
	on_more(j);
	if (!j->told)
		end_remotely(j);
	ssh_job_judge(j, o);
	if (j->left)
		outcome_deny(o, "process", j->plan->ssh.host,
			     "something of the run may still be there: it could not be ended");
	(void)ssh_job_free(j);
}

static int ssh_probe(const struct spec *s, struct isolation *ret, struct err *e)
{
	CLEANUP(spec) struct spec *copy = s ? spec_clone(s, e) : spec_new(e);
	CLEANUP(ssh_plan) struct backend_plan *p = NULL;
	CLEANUP(ssh_job) struct backend_job *j = NULL;
	const char *const argv[] = { "true", NULL };
	char id[ID_ROOM];
	struct job_want w = { .command = &copy->command, .no_input = true, .id = id };
	struct job_io io = { -1, -1, -1, -1, -1, -1, -1 };

	if (!copy)
		return -e->code;
	copy->command.argv = argv;
	copy->command.code = (struct code_spec){ 0 };
	(void)snprintf(id, sizeof(id), "probe%d", getpid());
	if (ssh_plan(copy, &p, NULL, e) < 0 || ssh_job_start(p, &w, &io, &j, e) < 0)
		return -e->code;
	(void)fd_close(io.out);
	(void)fd_close(io.err);
	ssh_describe(ret);
	return 0;
}

static int ssh_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		     struct backend_job **ret, struct err *e)
{
	int r = w->command ? ssh_job_start(p, w, io, ret, e)
		: p->keeps ? ssh_hold_start(p, w, io, ret, e)
			   : ssh_open_start(p, w, io, ret, e);

	if (r == 0 && w->isolation && !p->keeps) /* that one has said what it is like */
		ssh_describe(w->isolation);
	return r;
}

static enum job_event ssh_event(struct backend_job *j, bool alarm UNUSED, struct outcome *o UNUSED)
{
	if (j->hold)
		return ssh_hold_event(j);
	return j->open ? ssh_open_event(j) : ssh_job_event(j);
}

static void ssh_signal(struct backend_job *j, uint32_t command, int sig)
{
	if (j->hold)
		ssh_hold_signal(j, command, sig);
	else if (j->open)
		ssh_open_signal(j, command, sig);
	else
		ssh_job_strike(j, sig);
}

static int ssh_exec(struct backend_job *j, const struct job_want *w, struct job_io *io,
		    uint32_t *ret, struct err *e)
{
	return j->hold ? ssh_hold_exec(j, w, io, ret, e) : ssh_open_exec(j, w, io, ret, e);
}

static bool ssh_ended(struct backend_job *j, uint32_t command, struct outcome *o)
{
	return j->hold ? ssh_hold_ended(j, command, o) : ssh_open_ended(j, command, o);
}

static void ssh_resize(struct backend_job *j, uint32_t command, unsigned short rows,
		       unsigned short cols)
{
	if (j->hold)
		ssh_hold_resize(j, command, rows, cols);
}

static void ssh_finish(struct backend_job *j, struct outcome *o)
{
	if (j->hold)
		ssh_hold_finish(j, o);
	else if (j->open)
		ssh_open_finish(j, o);
	else
		ssh_job_finish(j, o);
}

static const struct open_ops ssh_open_ops = { .resize = ssh_resize };

const struct backend backend_ssh = {
	.name = "ssh",
	.kind = BACKEND_SSH,
	.bit = ON_SSH,
	.can = BACKEND_SHOWS_CODE | BACKEND_REMOTE,
	.open = &ssh_open_ops,
	.probe = ssh_probe,
	.plan = ssh_plan,
	.plan_json = ssh_plan_json,
	.plan_free = ssh_plan_free,
	.start = ssh_start,
	.event = ssh_event,
	.signal = ssh_signal,
	.finish = ssh_finish,
	.exec = ssh_exec,
	.ended = ssh_ended,
};
